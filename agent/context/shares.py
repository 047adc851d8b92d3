"""Values of all files (F), to begin with and to add to."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from agent.index.corpus import Floats
from agent.index.graph import Graph


def zeros(graph: Graph) -> Floats:
    """Nothing is said of any file yet (F)."""
    return np.zeros(len(graph.paths), np.float32)


def give(out: Floats, files: Collection[int], amount: float, *, most: int | None = None) -> None:
    """Each of ``files`` gets an equal part of ``amount``; none does where they are more than ``most``."""
    if files and (most is None or len(files) <= most):
        out[list(files)] += amount / len(files)
