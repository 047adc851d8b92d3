from __future__ import annotations

from agent.tools import show
from agent.tools.base import Arguments, Tool, ToolContext, ToolResult


class Diff(Arguments):
    pass


def run(context: ToolContext, arguments: Diff) -> ToolResult:
    patch = context.draft.diff(context=1).decode(errors="replace")
    if not patch:
        return ToolResult("Nothing is changed.")
    kept = [line for line in patch.split("\n") if not line.startswith(("index ", "diff --git "))]
    text, last = _cut("\n".join(show.line(line, context.limits) for line in kept), context.limits.result_chars)
    return ToolResult(text + (f"\n[cut; {last} more characters]" if last else ""))


def _cut(text: str, limit: int) -> tuple[str, int]:
    return text[:limit], max(0, len(text) - limit)


TOOL = Tool("diff", "All changes so far.", Diff, run)
