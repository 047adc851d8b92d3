"""Indexes of small trees, by one parse process for all tests: to start one takes a hundred times what it then does."""

from __future__ import annotations

import atexit
from functools import cache

from agent.index.index import Index
from agent.index.indexer import Indexer
from agent.index.source import Source


def indexed(source: Source, *, base: Index | None = None) -> Index:
    """See :func:`agent.index.indexer.indexed`; what is parsed is kept in memory."""
    return _indexer().index(source, base=base)


@cache
def _indexer() -> Indexer:
    made = Indexer(None, jobs=1)
    atexit.register(made.close)
    return made
