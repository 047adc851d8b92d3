"""Issue → files and functions, each with the reasons why it is there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from agent.context.functions import FunctionFeatures, candidates, features, measure
from agent.context.issue import read_issue
from agent.context.rank import Ranked, Reason, Weights, best_first, rank_files, rank_functions, second_look, weights
from agent.context.semantic import Meaning
from agent.context.signals import Evidence, companions, gather, prior
from agent.index.history import Commit
from agent.index.index import Index

FILES_FOR_FUNCTIONS = 20
"""Functions are ranked inside this many files."""

FUNCTIONS = 200
"""How many functions a result has at most."""

_EXPLAINED = 60
"""Only so many of them say why they are there."""

_REASONS = 6
"""The largest parts of a score."""


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
    """Best first; the functions are those of the first files."""

    files: tuple[Hit, ...]
    functions: tuple[FunctionHit, ...]


def search(
    index: Index,
    query: str,
    *,
    k: int = 20,
    history: Sequence[Commit] | None = None,
    meaning: Meaning | None = None,
    learned: Weights | None = None,
) -> SearchResult:
    """Files and functions that an issue is about, best first, each with the reasons: the engine's only search.

    Args:
        query: the issue as a person wrote it; its first line is taken as the title.
        k: how many files; functions come from the best 20.
        history: earlier commits, newest first.
        meaning: one more signal, where an endpoint for embeddings is configured.
        learned: other weights than those that ship.
    """
    if not index.paths or not query.strip():
        return SearchResult((), ())
    issue = read_issue(query)
    near = meaning.scores(index, issue) if meaning is not None else None
    evidence = gather(index, issue, history, near)
    learned = learned or weights()
    ranked = rank_files(evidence.files, prior(index), learned)
    first = best_first(ranked.scores)[:1].tolist()
    if first:
        ranked = second_look(ranked, companions(index, *first), prior(index))
    order = best_first(ranked.scores).tolist()
    hits = tuple(Hit(index.paths[f], float(ranked.scores[f]), ranked.why(f)) for f in order[:k])
    return SearchResult(hits, _functions(evidence, ranked, order[:FILES_FOR_FUNCTIONS], learned))


def _functions(evidence: Evidence, ranked: Ranked, files: Sequence[int], learned: Weights) -> tuple[FunctionHit, ...]:
    found = candidates(evidence, files)
    table = features(measure(evidence, found), files, ranked.scores)
    scores = rank_functions(table.names, table.values, learned)
    hits = []
    for rank, row in enumerate(np.argsort(-scores, kind="stable")[:FUNCTIONS].tolist()):
        file, _, symbol = found[table.at[row]]
        why = _why(table, row, learned) if rank < _EXPLAINED else ()
        path = evidence.index.paths[file]
        hits.append(FunctionHit(path, symbol.name, symbol.start, symbol.end, float(scores[row]), why))
    return tuple(hits)


def _why(found: FunctionFeatures, row: int, learned: Weights) -> tuple[Reason, ...]:
    values = zip(found.names, found.values[row].tolist(), strict=True)
    parts = [Reason(name, learned.functions.get(name, 0.0) * value) for name, value in values]
    return tuple(sorted((part for part in parts if part.weight), key=lambda part: -abs(part.weight))[:_REASONS])
