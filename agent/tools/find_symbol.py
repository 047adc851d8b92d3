from __future__ import annotations

from agent.errors import ToolRefusal
from agent.index.record import Symbol
from agent.tools import show
from agent.tools.base import Arguments, Tool, ToolContext, ToolResult
from agent.tools.symbols import definitions

_BODIES = 2
_BODY_LINES = 80


class FindSymbol(Arguments):
    name: str


def run(context: ToolContext, arguments: FindSymbol) -> ToolResult:
    name = arguments.name.strip().removesuffix("()").replace("::", ".").replace("#", ".")
    found = definitions(context, name)
    if not found and "." in name:
        found = definitions(context, name.rpartition(".")[2])
    if not found:
        raise ToolRefusal(f"Nothing named {name!r} is defined here", todo="Use search or grep")
    if len(found) <= _BODIES:
        return ToolResult("\n\n".join(_body(context, path, symbol) for path, symbol in found))
    shown = found[: context.limits.matches]
    more = f"\n[{len(found) - len(shown)} more]" if len(found) > len(shown) else ""
    return ToolResult("\n".join(_head(context, path, symbol) for path, symbol in shown) + more)


def _head(context: ToolContext, path: str, symbol: Symbol) -> str:
    return f"{path}:{symbol.start}-{symbol.end} {show.line(symbol.signature, context.limits)}"


def _body(context: ToolContext, path: str, symbol: Symbol) -> str:
    lines = show.lines_of(show.text_of(context, path))
    last = min(symbol.end, symbol.start + _BODY_LINES - 1, len(lines))
    text, shown = show.numbered(lines, symbol.start, last, context.limits)
    more = f"\n[goes on to line {symbol.end}]" if shown < symbol.end else ""
    return f"{path}\n{text}{more}"


TOOL = Tool("find_symbol", "The definition of a function, class or method, with its code.", FindSymbol, run)
