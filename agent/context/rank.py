"""Joins signals into one score: a weighted sum, with weights from ``weights.json``.

A signal enters twice: as its share of the best value, and as ``1 / (1 + rank / 5)``, which forgets how far apart
neighbours are. The weights are fitted by ``bench/fit_weights.py``.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from agent.index.corpus import Floats


class Reason(NamedTuple):
    """One signal, and its part of the score."""

    signal: str
    weight: float


class Weights(NamedTuple):
    """What was learned. See ``docs/retrieval.md``."""

    files: Mapping[str, tuple[float, float]]
    """Signal → weight of its share, weight of its rank."""
    functions: Mapping[str, float]
    """Feature → weight."""


@functools.cache
def weights() -> Weights:
    """The weights that ship."""
    return read_weights(json.loads(resources.files("agent.context").joinpath("weights.json").read_text("utf-8")))


def read_weights(data: Mapping[str, Any]) -> Weights:
    """Weights of the form of ``weights.json``."""
    files = {name: (float(share), float(rank)) for name, (share, rank) in data["files"].items()}
    return Weights(files, {name: float(weight) for name, weight in data["functions"].items()})


_REASONS = 8
"""So many parts of a score are told by name."""


class Ranked(NamedTuple):
    """Scores of files, and the part that each signal has in them."""

    scores: Floats
    parts: Mapping[str, Floats]

    def why(self, file: int) -> tuple[Reason, ...]:
        """The parts of one score, the largest first; the small ones are joined as ``other``."""
        found = [Reason(name, float(values[file])) for name, values in self.parts.items() if values[file]]
        found.sort(key=lambda reason: -abs(reason.weight))
        rest = sum(reason.weight for reason in found[_REASONS:])
        return (*found[:_REASONS], *((Reason("other", rest),) if len(found) > _REASONS else ()))


def rank_files(signals: Mapping[str, Floats], prior: Floats, learned: Weights) -> Ranked:
    """Score every file.

    Args:
        signals: name → values (F), 0 where a signal says nothing.
        prior: factor of each file (F), 0 for what is never wanted.
    """
    total = np.zeros(len(prior), np.float32)
    parts: dict[str, Floats] = {}
    for name, (share, rank) in learned.files.items():
        values = signals.get(name)
        if values is None or not len(values) or np.max(values) <= 0:
            continue
        part = (share * values / np.max(values) + rank * by_rank(values)) * prior
        parts[name] = part.astype(np.float32)
        total += parts[name]
    return Ranked(total, parts)


KEPT, LOOKED_AT = 3, 40
"""The second look leaves the first three where they are, and goes no further than this."""

_COMPANIONS = {"imported by the first": 1.0, "beside the first": 0.5}
"""Chosen by hand: any weights between a half and one and a half do about the same."""


def second_look(ranked: Ranked, companions: Mapping[str, Floats], prior: Floats) -> Ranked:
    """Behind the first three, what belongs to the first file moves up.

    The best file is right two times out of three; where it is not, or not alone, the fix tends to be close to it.

    Args:
        companions: name → 0 to 1 for each file (F).
        prior: factor of each file (F).
    """
    scores = ranked.scores
    order = best_first(scores)
    if len(order) <= KEPT:
        return ranked
    raised = order[KEPT:LOOKED_AT]
    limit = scores[order[KEPT - 1]]
    bonus = {name: weight * companions[name][raised] * prior[raised] for name, weight in _COMPANIONS.items()}
    total = sum(bonus.values(), np.zeros(len(raised), np.float32))
    wanted = scores[raised] + total
    # What would pass the third stays a hair below it, in its order.
    below = limit * (1.0 - 1e-4 / (1.0 + np.maximum(wanted - limit, 0.0)))
    new = np.where((total == 0) | (wanted < limit), wanted, np.maximum(below, scores[raised]))
    share = (new - scores[raised]) / np.maximum(total, 1e-6)
    parts = dict(ranked.parts)
    for name, values in bonus.items():
        parts[name] = np.zeros(len(scores), np.float32)
        parts[name][raised] = values * share
    out = scores.copy()
    out[raised] = new
    return Ranked(out, parts)


def best_first(scores: Floats) -> NDArray[np.intp]:
    """Positions of the positive scores, best first; ties keep their order."""
    positive = np.flatnonzero(scores > 0)
    return positive[np.argsort(-scores[positive], kind="stable")]


def by_rank(values: Floats) -> Floats:
    """``1 / (1 + rank / 5)`` of each positive value, 0 for the others; ties keep their order."""
    order = best_first(values)
    out = np.zeros(len(values), np.float32)
    out[order] = 1.0 / (1.0 + np.arange(len(order), dtype=np.float32) / 5.0)
    return out


def rank_functions(names: Sequence[str], values: NDArray[np.float32], learned: Weights) -> NDArray[np.float32]:
    """Scores (N) of functions with features ``values`` (N × D) called ``names``."""
    row = np.array([learned.functions.get(name, 0.0) for name in names], dtype=np.float32)
    return values @ row if len(values) else np.zeros(0, np.float32)
