from __future__ import annotations

from agent.errors import ToolRefusal
from agent.paths import canonical
from agent.tools.base import Arguments, Path, Tool, ToolContext, ToolResult
from agent.tools.guard import local


class Revert(Arguments):
    path: Path


def run(context: ToolContext, arguments: Revert) -> ToolResult:
    path = canonical(local(context, arguments.path))
    if path not in context.draft.edits:
        raise ToolRefusal(f"{path} was not changed", todo="Use diff to see what was")
    return ToolResult(f"{path} is as it was before the run", draft=context.draft.restored(path))


TOOL = Tool("revert", "Undo all changes to one file.", Revert, run)
