from __future__ import annotations

from pydantic import AliasChoices, Field

from agent import edit
from agent.tools.base import Arguments, Path, Tool, ToolContext, ToolResult
from agent.tools.change import changed
from agent.tools.guard import writable


class Write(Arguments):
    path: Path
    content: str = Field(validation_alias=AliasChoices("content", "text", "contents", "file_text"))
    executable: bool | None = None


def run(context: ToolContext, arguments: Write) -> ToolResult:
    path = writable(context, arguments.path)
    before = context.draft.read(path) if path in context.draft else None
    after = edit.written(path, before, arguments.content)
    mode = None if arguments.executable is None else "100755" if arguments.executable else "100644"
    return changed(context, path, before, after, mode)  # type: ignore[arg-type]


TOOL = Tool("write", "Make a file, or replace a whole one.", Write, run)
