from __future__ import annotations

from agent.tools.base import Arguments, Path, Tool, ToolContext, ToolResult
from agent.tools.guard import writable


class Delete(Arguments):
    path: Path


def run(context: ToolContext, arguments: Delete) -> ToolResult:
    path = writable(context, arguments.path)
    return ToolResult(f"{path} deleted", draft=context.draft.without(path))


TOOL = Tool("delete", "Delete one file.", Delete, run)
