"""What speaks for a file: each signal is an array over all files, 0 where it says nothing.

Signals are computed alone and know nothing of each other's weight; ``agent.context.rank`` joins them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from agent.context import names, places
from agent.context.issue import Issue
from agent.context.lexical import Lexical, Query, Scores, damped, query_of
from agent.context.past import Past
from agent.context.shares import give
from agent.index.corpus import Floats
from agent.index.graph import Graph
from agent.index.history import Commit
from agent.index.index import Index
from agent.index.languages.base import parent
from agent.index.words import Stems, words

Signals = dict[str, Floats]
"""Name → values (F)."""

_TOP = (1.0, 0.5, 0.33)

_WANTED = frozenset(
    {
        "whole: best functions", "title: best functions", "title: file", "prose: best function",
        "prose: best functions", "prose: file", "said: best function", "traces: file",
    }
)  # fmt: skip
"""Of the BM25 scores, those that help once the others are there; see ``docs/retrieval.md``."""


@dataclass(frozen=True)
class Evidence:
    """An issue held against an index, with the BM25 scores of all of it, of its title, and of title and prose."""

    index: Index
    issue: Issue
    lexical: Lexical
    whole: Scores
    title: Scores
    prose: Scores
    stems: Query
    """Of the whole issue."""
    title_stems: Query
    files: Signals


def gather(
    index: Index, issue: Issue, history: Sequence[Commit] | None = None, meaning: Floats | None = None
) -> Evidence:
    """All signals of an issue.

    Args:
        history: earlier commits, newest first.
        meaning: similarity (C) of each chunk.
    """
    wanted = _but_tests(index)
    lexical = whole_of(index)
    queries = _queries(issue, index.corpus.vocabulary.stems)
    scores = {name: lexical.score(query) for name, query in queries.items()}
    files = {
        **_by_text(index, scores),
        **_by_place(index, issue, queries),
        **_by_name(index, issue, wanted),
        "tests": through_tests(index, queries["title"]),
        "imports": imports_of(scores["whole"].files, index.graph),
    }
    if history:
        files |= _by_history(index, issue, queries["title"], history, wanted)
    if meaning is not None:
        files["meaning: best functions"] = best_chunks(meaning, index)[1]
    keep = wanted.astype(np.float32)
    files = {name: (values * keep).astype(np.float32) for name, values in files.items()}
    whole, title, prose = scores["whole"], scores["title"], scores["prose"]
    return Evidence(index, issue, lexical, whole, title, prose, queries["whole"], queries["title"], files)


def _but_tests(index: Index) -> np.ndarray:
    wanted = np.ones(len(index.paths), bool)
    wanted[list(index.graph.tests)] = False
    return wanted


def whole_of(index: Index) -> Lexical:
    """BM25 over everything but tests."""
    return index.cached("lexical", lambda: Lexical(index.corpus, _but_tests(index)))


def _queries(issue: Issue, stems: Stems) -> dict[str, Query]:
    """The issue as several questions: what only the title asks must not drown in what the body says."""
    traces = " ".join(f"{frame.function} {frame.path.rpartition('/')[2]}" for frame in issue.frames)

    def said(text: str) -> Query:
        return query_of(stems.of(words(text)))

    title, prose = said(issue.title), said(issue.prose)
    shown = said(f"{traces} {' '.join(issue.messages)}")
    return {
        "whole": damped({stem: 3 * weight for stem, weight in title.items()}, prose, said(issue.code), shown),
        "title": damped(title),
        "prose": damped(title, prose),
        "said": damped(said(" ".join(issue.said))),
        "traces": damped(shown),
    }


def _by_text(index: Index, scores: Mapping[str, Scores]) -> Signals:
    found: dict[str, Floats] = {}
    for name, score in scores.items():
        found[f"{name}: best function"], found[f"{name}: best functions"] = best_chunks(score.chunks, index)
        found[f"{name}: file"] = score.files
    return {name: values for name, values in found.items() if name in _WANTED}


def _by_place(index: Index, issue: Issue, queries: Mapping[str, Query]) -> Signals:
    graph = index.graph
    return {
        "path": places.path_words(index, queries["whole"]),
        "path title": places.path_words(index, queries["title"]),
        "path names": places.path_words(index, queries["said"]),
        "path mentioned": places.mentioned_paths(issue, graph),
        "file named": places.named_files(issue, graph),
        "links": places.traced(issue.links, graph),
        "traceback": places.traced(issue.frames, graph),
    }


def _by_name(index: Index, issue: Issue, wanted: np.ndarray) -> Signals:
    graph = index.graph
    return {
        "definitions": names.definitions(issue.names, graph),
        "definitions titled": names.titled(issue, graph),
        "usage": names.usage(issue.names, index, wanted),
        "qualified": names.qualified(issue.said, graph),
        "imported": names.imported(issue, graph),
    }


def _by_history(index: Index, issue: Issue, title: Query, history: Sequence[Commit], wanted: np.ndarray) -> Signals:
    stems = index.corpus.vocabulary.stems
    past = index.cached(f"past {history[0].sha} {len(history)}", lambda: Past(history, stems, index.paths, wanted))
    return {"history": past.signal(title), "subjects": past.subjects(title), "commits named": past.named(issue)}


_SIDE = frozenset(
    {
        "docs", "doc", "examples", "example", "samples", "benchmarks", "benchmark", "asv_bench", "demo", "demos",
        "galleries", "gallery", "tutorials", "tutorial",
    }
)  # fmt: skip
"""Folders beside the product."""


def prior(index: Index) -> Floats:
    """Factor of each file: tests are not wanted, text and what stands beside the product only when they stand out."""

    def make() -> Floats:
        out = np.ones(len(index.paths), np.float32)
        for file, (path, record) in enumerate(zip(index.paths, index.records, strict=True)):
            if file in index.graph.tests:
                out[file] = 0.0
            elif record.language == "text" or not _SIDE.isdisjoint(path.split("/")[:-1]):
                out[file] = 0.5
        return out

    return index.cached("prior", make)


def best_chunks(chunks: Floats, index: Index) -> tuple[Floats, Floats]:
    """(best, 1 · best + ½ · second + ⅓ · third) of the chunk scores of each file."""
    best, total = np.zeros(index.corpus.files, np.float32), np.zeros(index.corpus.files, np.float32)
    found = np.flatnonzero((chunks > 0) & (index.corpus.chunk_file >= 0))
    left = found[np.argsort(-chunks[found], kind="stable")]
    for share in _TOP:
        owner, first = np.unique(index.corpus.chunk_file[left], return_index=True)
        total[owner] += share * chunks[left[first]]
        best = best if share < 1 else total.copy()
        left = np.delete(left, first)
    return best, total


_BEST_TESTS, _BEST_FILES = 8, 10
"""So many of the best tell what they import."""


def fit_of_tests(index: Index, query: Mapping[str, float]) -> Floats:
    """How well each chunk (C) of a test fits ``query``; 0 for all others."""

    def make() -> Lexical:
        tests = np.zeros(len(index.paths), bool)
        tests[list(index.graph.tests)] = True
        return Lexical(index.corpus, tests)

    return index.cached("tests", make).score(query).chunks


def through_tests(index: Index, query: Mapping[str, float]) -> Floats:
    """Files that the best matching tests import or are named after."""
    graph = index.graph
    out = np.zeros(len(index.paths), np.float32)
    if not graph.tests:
        return out
    scores = fit_of_tests(index, query)
    order = np.argsort(-scores, kind="stable")[:_BEST_TESTS]
    for chunk in order.tolist():
        file = int(index.corpus.chunk_file[chunk])
        if scores[chunk] <= 0 or file < 0:
            continue
        number = int(index.corpus.chunk_number[chunk])
        targets = set(graph.imports(file)) - graph.tests
        for name in index.words_of(file, number):
            give(out, {f for f, _ in graph.defined.get(name, ())} & targets, scores[chunk] / 4)
        give(out, targets, scores[chunk])
    return out


def companions(index: Index, first: int) -> Signals:
    """What belongs to one file, 0 to 1: the files that it imports, and those in its folder.

    An import that leads to many files, as one of a Go package does, says less of each. So does a folder, the larger its
    share of all files: in a flat project everything is beside everything.
    """
    graph = index.graph
    imports, beside = np.zeros((2, len(index.paths)), np.float32)
    for item in index.records[first].imports:
        targets = [graph.number[path] for path in graph.resolve(item, first)]
        imports[targets] = np.maximum(imports[targets], 1.0 / max(1, len(targets)))
    folder = parent(index.paths[first])
    inside = [file for file, path in enumerate(index.paths) if parent(path) == folder and file not in graph.tests]
    beside[inside] = 1.0 - len(inside) / max(1, len(index.paths) - len(graph.tests))
    return {"imported by the first": imports, "beside the first": beside}


def imports_of(files: Floats, graph: Graph) -> Floats:
    """Files that the best files import: the fix is often one step down."""
    out = np.zeros(len(files), np.float32)
    order = np.argsort(-files, kind="stable")[:_BEST_FILES]
    for file in order.tolist():
        targets = graph.imports(file)
        if files[file] > 0 and targets:
            out[list(targets)] += files[file] / np.sqrt(len(targets))
    return out
