"""What stands around the functions that were found: their tests, what they use and what uses them, a model of style."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np

from agent.context.issue import read_issue
from agent.context.lexical import damped, query_of
from agent.context.names import plain
from agent.context.page import numbered
from agent.context.pieces import chunk_of, is_inner_test
from agent.context.search import FunctionHit, SearchResult
from agent.context.signals import best_chunks, fit_of_tests, whole_of
from agent.index.graph import called
from agent.index.index import Index
from agent.index.record import Symbol
from agent.index.words import words

NAMED = 3
"""So many of the best functions say what the documentation is searched for, and which tests are named."""

_TEST_FILES, _OF_ONE_FILE = 5, 3
"""No more files with tests, and tests of one, are named."""

_TESTED = 5
"""So many files, those of the best functions, say which tests are looked at."""

_LIKE, _FIRST = 0.3, 0.3
"""What a test file is worth more that is called like such a file, or reaches the first of them; the others less."""

_TEST_NAME = re.compile(r"(?:^|\.)_*[Tt]est[^.]*$|[a-z0-9]_?[Tt]est$")
"""What is a test by its name; everything else in their files may be a helper."""

_EXAMPLE_LINES = 40
"""No longer example is shown."""

_AROUND, _CALLERS, _CALLEES, _HOMES = 4, 4, 6, 4
"""So many of the functions shown get their surroundings: that many callers and callees of each, and no constant that
the task names is told where more places define it."""


def tests(index: Index, result: SearchResult, own: Sequence[FunctionHit], text: str) -> str:
    """Tests that reach the files of the best functions, as places to look and to imitate: those that fit the task
    ``text`` best first, after those of a source file's ``own``."""
    told = [f"{hit.path}: {hit.name}" for hit in own[:_OF_ONE_FILE]]
    told += _fitting_tests(index, result.functions, text)
    told = told or [reach.path for reach in index.tests_for([hit.path for hit in result.files[:1]])]
    return "\n".join(told[:_TEST_FILES])


def _fitting_tests(index: Index, functions: Sequence[FunctionHit], text: str) -> Iterator[str]:
    """Lines, the best first: a file, and those of its tests that fit best."""
    graph, stems = index.graph, index.corpus.vocabulary.stems
    said = [text, text.partition("\n")[0], text.partition("\n")[0]]  # what the title says counts three times
    names = [hit.name.rpartition(".")[2] for hit in functions[:NAMED]]
    scores = fit_of_tests(index, damped(*(query_of(stems.of(words(part))) for part in said), query_of(stems.of(names))))
    _, fit = best_chunks(scores, index)
    worth: dict[int, float] = {}
    for place, path in enumerate(list(dict.fromkeys(hit.path for hit in functions))[:_TESTED]):
        for reach in index.tests_for([path]):
            file, like = graph.number[reach.path], called(reach.path) == called(path)
            worth[file] = max(worth.get(file, 0.0), float(fit[file]) * (1 + _LIKE * like + _FIRST / (1 + place)))
    by_fit = np.argsort(-scores, kind="stable")
    owners = index.corpus.chunk_file[by_fit]
    for file in sorted((file for file in worth if worth[file]), key=lambda file: (-worth[file], file))[:_TEST_FILES]:
        own = dict.fromkeys(_test_name(index, chunk) for chunk in by_fit[owners == file].tolist() if scores[chunk])
        yield f"{index.paths[file]}: {', '.join(list(filter(None, own))[:_OF_ONE_FILE])}".removesuffix(": ")


def _test_name(index: Index, chunk: int) -> str:
    file, piece = index.piece(chunk)
    name = index.records[file].symbols[piece.symbol].name if piece.symbol >= 0 else ""
    return name if _TEST_NAME.search(name) else ""


def constants(index: Index, text: str) -> str:
    """Values that the task names, which no function holds: where they are defined. A name of many says nothing."""
    lines: list[str] = []
    for name in plain(read_issue(text).said):
        homes = [
            (index.paths[file], index.records[file].symbols[at])
            for file, at in index.graph.defined.get(name, ())
            if file not in index.graph.tests
        ]
        values = [(path, symbol) for path, symbol in homes if symbol.kind == "variable"]
        lines += [_line(path, symbol) for path, symbol in values if len(values) <= _HOMES]
    return "\n".join(lines)


def neighbours(index: Index, shown: Sequence[FunctionHit]) -> str:
    """Signatures of what calls the best functions and of what they call."""
    seen = {(hit.path, hit.name) for hit in shown}
    lines: dict[str, None] = {}
    for hit in shown[:_AROUND]:
        for path, symbol in [*_callers(index, hit), *_callees(index, hit)]:
            if (path, symbol.name) not in seen and not is_inner_test(index, path, symbol.name):
                lines[_line(path, symbol)] = None
    return "\n".join(lines)


def _line(path: str, symbol: Symbol) -> str:
    return f"{path}:{symbol.start}: {symbol.signature}"


def _callers(index: Index, hit: FunctionHit) -> list[tuple[str, Symbol]]:
    name = hit.name.rpartition(".")[2]
    if len(index.graph.defined.get(name, ())) > 3:
        return []  # everybody's name: most uses are of something else
    found = []
    for use in index.callers(name):
        file = index.graph.number[use.path]
        if file not in index.graph.tests and use.inside:
            record = index.records[file]
            found += [(use.path, s) for s in record.symbols if s.name == use.inside == record.enclosing(use.line)]
        if len(found) >= _CALLERS:
            break
    return found[:_CALLERS]


def _callees(index: Index, hit: FunctionHit) -> list[tuple[str, Symbol]]:
    graph = index.graph
    file = graph.number[hit.path]
    chunk = chunk_of(index, hit)
    found: list[tuple[str, Symbol]] = []
    for word in index.words_of(file, chunk) if chunk is not None else ():
        for home, at in graph.behind(word, file):
            symbol = index.records[home].symbols[at]
            if symbol.kind in ("function", "method", "class") and symbol.name != hit.name:
                found.append((index.paths[home], symbol))
    rare = sorted(found, key=lambda item: len(index.corpus.of_word(item[1].short)[0]))
    return rare[:_CALLEES]


def example(index: Index, shown: Sequence[FunctionHit]) -> str:
    """The function outside ``shown`` that shares most words with the best one."""
    if not shown:
        return ""
    best = shown[0]
    file = index.graph.number[best.path]
    chunk = chunk_of(index, best)
    stems = index.corpus.vocabulary.stems
    query = query_of(stems.of(index.words_of(file, chunk))) if chunk is not None else {}
    scores = whole_of(index).score(query).chunks
    there = {(hit.path, hit.start) for hit in shown}
    for at in np.argsort(-scores, kind="stable")[:50].tolist():
        home, piece = index.piece(at)
        path = index.paths[home]
        fits = piece.kind == "function" and 2 < piece.end - piece.start < _EXAMPLE_LINES
        if scores[at] > 0 and fits and (path, piece.start) not in there:
            return f"== {path}\n" + numbered(index.text(path).split("\n"), range(piece.start, piece.end + 1))
    return ""
