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
    text, most = "\n".join(show.line(line, context.limits) for line in kept), context.limits.result_chars
    return ToolResult(text if len(text) <= most else f"{text[:most]}\n[cut; {len(text) - most} more characters]")


TOOL = Tool("diff", "All changes so far.", Diff, run)
