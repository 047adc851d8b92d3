"""What is shown of a function, of the class around it and of its file: whole lines, by their numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agent.context.issue import read_issue
from agent.context.lexical import query_of
from agent.context.names import plain
from agent.context.page import line, numbered
from agent.context.search import FunctionHit
from agent.context.signals import whole_of
from agent.context.telling import Telling
from agent.index.index import Index
from agent.index.words import words
from agent.model.tokens import estimate_tokens

_IMPORT_LINES = 25
"""No longer imports are shown."""

_DOC_SHOWN = 3
"""Lines of a docstring that is too long: they say what the function is for, and the rest takes the place of code."""

_CONSTANT_LINES = 6
"""Of a class's constant that a method uses."""

_OVERLOAD = re.compile(r"\s*@(?:[\w.]+\.)?overload\b")

_HEAD, _BEFORE, _AFTER = 5, 2, 4
"""Lines of the beginning of a long function, and around each of its lines that say most of the task."""

_NOTE = 12
"""Tokens of a note of what is left out."""


def chunk_of(index: Index, hit: FunctionHit) -> int | None:
    """Number of the function's chunk in its record."""
    chunks = index.records[index.graph.number[hit.path]].chunks
    return next((i for i, c in enumerate(chunks) if c.kind == "function" and c.start == hit.start), None)


def is_inner_test(index: Index, path: str, name: str) -> bool:
    """Whether a function stands in the module that holds the tests of a source file, as in Rust."""
    language = index.records[index.graph.number[path]].language
    return language == "rust" and not {"tests", "test"}.isdisjoint(name.split(".")[:-1])


_QUOTES = ('"""', "'''")


def _docstring(lines: Sequence[str], start: int, end: int) -> range:
    """The lines of Python's docstring in what is defined from line ``start`` to ``end``; empty where there is none."""
    opened = next((n for n in range(start, end + 1) if lines[n - 1].split("#")[0].rstrip().endswith(":")), end)
    for first in range(opened + 1, min(opened + 2, end) + 1):
        begin = lines[first - 1].strip().lstrip("rRuU")
        quotes = next((q for q in _QUOTES if begin.startswith(q)), "")
        if quotes:
            rest = (n for n in range(first, end + 1) if quotes in (begin[3:] if n == first else lines[n - 1]))
            return range(first, next(rest, first) + 1)
    return range(0)


def is_overload(lines: Sequence[str], hit: FunctionHit) -> bool:
    """Whether it only tells a type checker of one way to call what is beside it."""
    return bool(_OVERLOAD.match(lines[hit.start - 1]))


def body(lines: Sequence[str], hit: FunctionHit, doc_tokens: float) -> str:
    """A function's lines, whole but for a docstring of more than ``doc_tokens``, shown in part."""
    left_out = _docstring(lines, hit.start, hit.end)[_DOC_SHOWN:-1]
    if not left_out or estimate_tokens(numbered(lines, left_out)) <= doc_tokens:
        return numbered(lines, range(hit.start, hit.end + 1))
    before, after = range(hit.start, left_out[0]), range(left_out[-1] + 1, hit.end + 1)
    note = f"      [… {len(left_out)} lines of the docstring of {hit.name} left out]"
    return "\n".join((numbered(lines, before), note, numbered(lines, after)))


def excerpt(index: Index, text: str, lines: Sequence[str], hit: FunctionHit, tokens: int) -> str:
    """Of a long function, as much as fits: its beginning, what is around the lines that say most of the task, and more
    of the beginning; then how much is missing."""
    query = query_of(index.corpus.vocabulary.stems.of(words(text)))
    telling = Telling.of(query, frozenset(plain(read_issue(text).said)), whole_of(index))
    said = {n: telling.said(lines[n - 1]) for n in range(hit.start, hit.end + 1)}
    parts = [range(hit.start, hit.start + _HEAD)]
    parts += [range(n - _BEFORE, n + _AFTER + 1) for n in sorted(said, key=lambda n: (-said[n], n)) if said[n]]
    parts += [range(n, n + 1) for n in said]
    shown: set[int] = set()
    for part in parts:
        more = shown.union(n for n in part if n in said)
        if more != shown and estimate_tokens(numbered(lines, sorted(more))) > tokens - _NOTE:
            break
        shown = more
    if not shown:
        return ""
    shown |= {n for n in said if n - 1 in shown and n + 1 in shown}  # to tell of one line left out costs a line
    note = f"[… {len(said) - len(shown)} of {len(said)} lines of {hit.name} left out]"
    return f"{numbered(lines, sorted(shown))}\n      {note}"


def class_heading(index: Index, hit: FunctionHit, lines: Sequence[str]) -> dict[int, str]:
    """Line number → line of what a method needs of the class that it stands in: where it begins, what it is for, and
    the constants that the method names. Empty for other functions, and where a method says itself what it belongs to,
    as in Go."""
    owner = hit.name.rpartition(".")[0]
    file = index.graph.number[hit.path]
    record = index.records[file]
    symbol = next((s for s in record.symbols if owner and s.name == owner and s.start <= hit.start <= s.end), None)
    if symbol is None:
        return {}
    chunk = chunk_of(index, hit)
    named = frozenset(index.words_of(file, chunk)) if chunk is not None else frozenset()
    constants = (s for s in record.symbols if s.kind == "variable" and s.name == f"{owner}.{s.short}")
    numbers = [*_docstring(lines, symbol.start, hit.start - 1)[:1]]
    for one in constants:
        if one.short in named and symbol.start <= one.start <= symbol.end:
            numbers += range(one.start, min(one.end, one.start + _CONSTANT_LINES - 1) + 1)
    return {symbol.start: line(symbol.start, symbol.signature), **{n: line(n, lines[n - 1]) for n in sorted(numbers)}}


def imports(index: Index, path: str, lines: Sequence[str]) -> dict[int, str]:
    """Line number → the imports at the top of a file, whole; empty where there are none, or too many lines.

    Without them most additions to a file take a look at it first.
    """
    record = index.records[index.graph.number[path]]
    body = min((symbol.start for symbol in record.symbols if symbol.kind != "variable"), default=len(lines) + 1)
    at = [one.line for one in record.imports if one.line < body]
    if not at:
        return {}
    first = min(at) - (min(at) > 1 and lines[min(at) - 2].rstrip().endswith("("))  # Go's stand in a bracket
    last = next((n for n in range(max(at), body) if not lines[n - 1].strip()), body) - 1
    return {first: numbered(lines, range(first, last + 1))} if last - first < _IMPORT_LINES else {}
