from __future__ import annotations

from pydantic import AliasChoices, Field

from agent import edit
from agent.errors import ToolRefusal
from agent.tools.base import Arguments, Path, Tool, ToolContext, ToolResult
from agent.tools.change import changed
from agent.tools.guard import there, writable
from agent.tools.symbols import named, symbols_in


class ReplaceSymbol(Arguments):
    path: Path
    name: str = Field(validation_alias=AliasChoices("name", "symbol"))
    text: str = Field(validation_alias=AliasChoices("text", "code", "content", "body"))


def run(context: ToolContext, arguments: ReplaceSymbol) -> ToolResult:
    path = writable(context, there(context, arguments.path))
    found = [symbol for symbol in symbols_in(context, path) if named(symbol, arguments.name)]
    if len(found) != 1:
        where = ", ".join(f"{symbol.name} in line {symbol.start}" for symbol in found[:8])
        raise ToolRefusal(
            f"{len(found)} definitions of {arguments.name} in {path}",
            why=where,
            todo="Use its full name (Class.method), or edit" if found else "Use outline to see what the file defines",
        )
    before = context.draft.read(path)
    symbol = found[0]
    after = edit.replaced(path, before, symbol.start, symbol.end, arguments.text)
    return changed(context, path, before, after)


TOOL = Tool(
    "replace_symbol",
    "Replace one function, method or class as a whole; decorators above it stay unless `text` brings some.",
    ReplaceSymbol,
    run,
)
