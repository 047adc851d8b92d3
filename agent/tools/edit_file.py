from __future__ import annotations

import json
from typing import Any

from pydantic import AliasChoices, Field, model_validator

from agent import edit
from agent.tools.base import Arguments, Path, Tool, ToolContext, ToolResult
from agent.tools.change import changed
from agent.tools.guard import there, writable

_SEARCH = AliasChoices("search", "old", "old_string", "old_str", "old_text")
_ALL = AliasChoices("all", "replace_all")
_REPLACE = AliasChoices("replace", "new", "new_string", "new_str", "new_text", "replacement")


class OneEdit(Arguments):
    search: str = Field(validation_alias=_SEARCH)
    replace: str = Field(validation_alias=_REPLACE)
    all: bool = Field(False, validation_alias=_ALL)


class EditFile(Arguments):
    path: Path
    edits: tuple[OneEdit, ...] = Field(min_length=1)

    @model_validator(mode="before")
    @classmethod
    def _forms(cls, data: Any) -> Any:
        """Also take one edit without the list around it, and a list that was sent as a string."""
        if not isinstance(data, dict):
            return data
        data = dict(data)
        if isinstance(data.get("edits"), str):
            data["edits"] = json.loads(data["edits"])
        if isinstance(data.get("edits"), dict):
            data["edits"] = [data["edits"]]
        if "edits" not in data:
            keys = [key for key in data if key in (*_SEARCH.choices, *_REPLACE.choices, *_ALL.choices)]
            if keys:
                data["edits"] = [{key: data.pop(key) for key in keys}]
        return data


def run(context: ToolContext, arguments: EditFile) -> ToolResult:
    path = writable(context, there(context, arguments.path))
    before = context.draft.read(path)
    edits = [edit.Edit(one.search, one.replace, one.all) for one in arguments.edits]
    after = edit.edited(path, before, edits)
    return changed(context, path, before, after)


TOOL = Tool(
    "edit",
    "Replace exact pieces of one file. Each `search` must stand there once, unless `all`; all edits apply to the file "
    "as it was, or none does. An empty `replace` deletes.",
    EditFile,
    run,
)
