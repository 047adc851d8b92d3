from __future__ import annotations

from typing import Literal

from agent import edit
from agent.tools.base import Arguments, Path, Tool, ToolContext, ToolResult
from agent.tools.change import changed
from agent.tools.guard import there, writable


class Insert(Arguments):
    path: Path
    anchor: str
    text: str
    where: Literal["after", "before"] = "after"


def run(context: ToolContext, arguments: Insert) -> ToolResult:
    path = writable(context, there(context, arguments.path))
    before = context.draft.read(path)
    after = edit.inserted(path, before, arguments.anchor, arguments.text, before=arguments.where == "before")
    return changed(context, path, before, after)


TOOL = Tool(
    "insert",
    "Put whole lines after or before those that `anchor` stands in; it must stand there once.",
    Insert,
    run,
)
