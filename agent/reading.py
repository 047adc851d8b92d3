"""What the base's files say before the model is asked: everything that takes no test."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from agent import brief
from agent.git_errors import ObjectMissing
from agent.index.history import Commit, log_arguments, parse_log
from agent.index.index import Index
from agent.index.indexer import Indexer
from agent.index.source import TreeSource
from agent.run import Run
from agent.tree import BaseTree
from agent.types import RunSpec

_COMMITS = 2_000


def indexer_for(spec: RunSpec) -> Indexer:
    """With the store in the folder that outlives a run."""
    return Indexer(Path(spec.cache_dir) / "index.sqlite")


@dataclass(frozen=True)
class Known:
    """An index of the base, who made it, and what is taken from it for the task."""

    indexer: Indexer
    index: Index
    context: Callable[[], str]
    """See ``brief.context``."""


def read(run: Run, base: BaseTree, indexer: Indexer) -> Known:
    """Read the base; what an endpoint would be paid for waits until it is wanted."""
    spec = run.spec
    index = indexer.index(TreeSource(base.draft()))
    context = partial(brief.context, spec, index, _history(base), run.meaning, run.model)
    if not (spec.rerank or run.meaning or spec.change_set):
        found = context()
        context = partial(str, found)
    if spec.mode == "work":
        indexer.stand_by()
    return Known(indexer, index, context)


def _history(base: BaseTree) -> tuple[Commit, ...]:
    """What earlier commits say about which files; next to nothing where only the base commit was fetched, nothing
    where their trees are not there (a partial clone, a damaged store): it is a hint and no run depends on it."""
    try:
        return parse_log(base.git.run(log_arguments(base.sha, _COMMITS)))
    except ObjectMissing:
        return ()


def pulled(run: Run, base: BaseTree) -> bytes:
    """What a pull request changes already."""
    return base.git.diff(run.spec.since_sha, base.sha) if run.spec.since_sha else b""
