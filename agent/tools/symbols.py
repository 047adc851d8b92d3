"""Definitions in the draft: from the index where a file is as the base has it, parsed again where it was edited."""

from __future__ import annotations

from functools import lru_cache

from agent.index import outline
from agent.index.languages import language_by_head, language_by_name
from agent.index.record import Symbol
from agent.tools.base import ToolContext


def symbols_in(context: ToolContext, path: str) -> tuple[Symbol, ...]:
    """The definitions of one file, by line.

    Raises:
        ToolRefusal: no such file.
    """
    content = context.draft.read(path)
    if path not in context.draft.edits:
        at = context.index.graph.number.get(path)
        if at is not None:
            return tuple(sorted(context.index.records[at].symbols, key=lambda symbol: (symbol.start, -symbol.end)))
    language = language_by_name(path) or language_by_head(content[:200])
    return _parsed(content, language.name if language else "text")


@lru_cache(maxsize=256)
def _parsed(content: bytes, language: str) -> tuple[Symbol, ...]:
    found = outline.record(content, language).symbols
    return tuple(sorted(found, key=lambda symbol: (symbol.start, -symbol.end)))


def definitions(context: ToolContext, name: str) -> list[tuple[str, Symbol]]:
    """(path, definition) of everything called ``name``, plain or qualified."""
    edited = context.draft.edits
    found = [(at.path, at.symbol) for at in context.index.symbols(name) if at.path not in edited]
    for path, file in edited.items():
        if file is not None:
            found += [(path, symbol) for symbol in symbols_in(context, path) if named(symbol, name)]
    return found


def named(symbol: Symbol, name: str) -> bool:
    """Whether ``name`` is the symbol's, plain or with the end of its qualification."""
    return symbol.name == name or symbol.name.endswith(f".{name}")
