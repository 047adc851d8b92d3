"""Issue → files and functions, each with the reasons why it is there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from agent.context.issue import read_issue
from agent.index.history import Commit
from agent.index.index import Index
from agent.index.words import words

FILES_FOR_FUNCTIONS = 20


class Reason(NamedTuple):
    """One signal, and its part of the score."""

    signal: str
    weight: float


class Hit(NamedTuple):
    """A file. Scores are comparable inside one result only."""

    path: str
    score: float
    why: tuple[Reason, ...]


class FunctionHit(NamedTuple):
    """A function or method; lines count from 1 and include both ends."""

    path: str
    name: str
    start: int
    end: int
    score: float
    why: tuple[Reason, ...]


class SearchResult(NamedTuple):
    files: tuple[Hit, ...]
    functions: tuple[FunctionHit, ...]


def search(index: Index, query: str, k: int = 20, history: Sequence[Commit] | None = None) -> SearchResult:
    """See :meth:`agent.index.index.Index.search`."""
    issue = read_issue(query)
    corpus = index.corpus
    stems = corpus.vocabulary.stems
    weight: dict[str, float] = {}
    for text, times in ((issue.title, 3.0), (issue.prose, 1.0), (issue.code, 1.0)):
        for stem in stems.of(words(text)):
            weight[stem] = weight.get(stem, 0.0) + times
    scores = np.zeros(len(corpus.chunk_file), np.float32)
    mean = max(1.0, float(corpus.chunk_length.mean())) if len(corpus.chunk_length) else 1.0
    norm = 1.2 * (0.25 + 0.75 * corpus.chunk_length / mean)
    for stem, times in weight.items():
        chunks, count = corpus.of_stem(stem)
        if len(chunks):
            idf = np.log1p((len(scores) - len(chunks) + 0.5) / (len(chunks) + 0.5))
            scores[chunks] += np.log1p(times) * idf * count * 2.2 / (count + norm[chunks])
    order = np.argsort(-scores, kind="stable")
    best: dict[int, float] = {}
    functions: list[FunctionHit] = []
    for chunk in order.tolist():
        file = int(corpus.chunk_file[chunk])
        if scores[chunk] <= 0 or file < 0 or file in index.graph.tests:
            continue
        best.setdefault(file, float(scores[chunk]))
        record = index.records[file]
        piece = record.chunks[corpus.chunk_number[chunk]]
        if piece.kind == "function" and len(functions) < 60:
            name = record.symbols[piece.symbol].name
            why = (Reason("words", float(scores[chunk])),)
            functions.append(FunctionHit(index.paths[file], name, piece.start, piece.end, float(scores[chunk]), why))
        if len(best) >= k and len(functions) >= 60:
            break
    files = tuple(Hit(index.paths[f], s, (Reason("words", s),)) for f, s in list(best.items())[:k])
    return SearchResult(files, tuple(functions))
