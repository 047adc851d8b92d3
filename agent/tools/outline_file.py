from __future__ import annotations

from agent.tools import show
from agent.tools.base import Arguments, Path, Tool, ToolContext, ToolResult
from agent.tools.guard import there
from agent.tools.symbols import symbols_in

_SIGNATURE = 100


class Outline(Arguments):
    path: Path


def run(context: ToolContext, arguments: Outline) -> ToolResult:
    path = there(context, arguments.path)
    lines = show.lines_of(show.text_of(context, path))
    symbols = [symbol for symbol in symbols_in(context, path) if symbol.kind != "variable" or "." not in symbol.name]
    if not symbols:
        return ToolResult(f"{path}: {len(lines)} lines, no definitions known. Use read.")
    shown = symbols[: context.limits.entries]
    text = "\n".join(
        f"{'  ' * symbol.name.count('.')}{symbol.start}-{symbol.end} {_short(show.visible(symbol.signature))}"
        for symbol in shown
    )
    more = f"\n[{len(symbols) - len(shown)} more]" if len(symbols) > len(shown) else ""
    return ToolResult(f"{path}, {len(lines)} lines\n{text}{more}")


def _short(signature: str) -> str:
    """Parameters with all their types are half of a large file's outline; the name and the first of them say enough."""
    return signature if len(signature) <= _SIGNATURE else f"{signature[:_SIGNATURE]}…"


TOOL = Tool("outline", "The definitions of one file with their lines.", Outline, run)
