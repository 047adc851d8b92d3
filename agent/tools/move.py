from __future__ import annotations

from pydantic import AliasChoices, Field

from agent.tools.base import Arguments, Path, Tool, ToolContext, ToolResult
from agent.tools.guard import writable


class Move(Arguments):
    path: Path
    to: str = Field(validation_alias=AliasChoices("to", "new_path", "target", "destination"))


def run(context: ToolContext, arguments: Move) -> ToolResult:
    source, target = writable(context, arguments.path), writable(context, arguments.to)
    return ToolResult(f"{source} is {target} now", draft=context.draft.move(source, target))


TOOL = Tool("move", "Give one file another path; uses of the old one stay.", Move, run)
