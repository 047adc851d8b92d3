"""Issue → files and functions, each with the reasons why it is there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from agent.context.functions import FunctionFeatures, features
from agent.context.issue import read_issue
from agent.context.rank import Ranked, Reason, best_first, rank_files, rank_functions, second_look, weights
from agent.context.signals import Evidence, companions, gather, prior
from agent.index.history import Commit
from agent.index.index import Index

FILES_FOR_FUNCTIONS = 20
"""Functions are ranked inside this many files."""

FUNCTIONS = 200
"""How many functions a result has at most."""

_EXPLAINED = 60
"""Only so many of them say why they are there."""


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


def search(
    index: Index,
    query: str,
    k: int = 20,
    history: Sequence[Commit] | None = None,
) -> SearchResult:
    """See :meth:`agent.index.index.Index.search`."""
    if not index.paths or not query.strip():
        return SearchResult((), ())
    issue = read_issue(query)
    meaning = index.meaning.scores(index, issue) if index.meaning is not None else None
    evidence = gather(index, issue, history, meaning)
    ranked = rank_files(evidence.files, prior(index))
    first = best_first(ranked.scores)[:1].tolist()
    if first:
        ranked = second_look(ranked, companions(index, *first), prior(index))
    order = best_first(ranked.scores).tolist()
    hits = tuple(Hit(index.paths[f], float(ranked.scores[f]), ranked.why(f)) for f in order[:k])
    return SearchResult(hits, _functions(index, evidence, ranked, order[:FILES_FOR_FUNCTIONS]))


def _functions(index: Index, evidence: Evidence, ranked: Ranked, files: Sequence[int]) -> tuple[FunctionHit, ...]:
    found = features(evidence, files, ranked.scores)
    scores = rank_functions(found.names, found.values)
    order = np.argsort(-scores, kind="stable")[:FUNCTIONS]
    return tuple(
        _hit(index, found, at, float(scores[at]), explained=rank < _EXPLAINED) for rank, at in enumerate(order.tolist())
    )


def _hit(index: Index, found: FunctionFeatures, at: int, score: float, *, explained: bool) -> FunctionHit:
    candidate = found.candidates[at]
    why = _why(found, at) if explained else ()
    symbol = candidate.symbol
    return FunctionHit(index.paths[candidate.file], symbol.name, symbol.start, symbol.end, score, why)


def _why(found: FunctionFeatures, at: int, *, most: int = 6) -> tuple[Reason, ...]:
    learned = weights().functions
    parts = [Reason(name, learned.get(name, 0.0) * float(found.values[at, j])) for j, name in enumerate(found.names)]
    return tuple(sorted((part for part in parts if part.weight), key=lambda part: -abs(part.weight))[:most])
