"""What a change can reach, by the index: the tests to run first. Pure."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from agent.index.index import Index
from agent.tree import Draft
from agent.types import TestRun
from agent.verify.paths import is_test

QUICK_S: Final = 10.0
"""A suite that takes less is run whole at once: a second checkout and start of the runner cost seconds themselves."""
LARGEST_SHARE: Final = 0.5
"""Of all tests. A larger part costs more than it saves, since the whole suite decides in any case."""


def run_first(
    draft: Draft, before: Index, after: Index, baseline: TestRun, *, quick_s: float = QUICK_S
) -> tuple[str, ...]:
    """Test files that a change can affect, to be run before the whole suite; empty where that would not pay.

    Args:
        before, after: the base and ``draft``.
        baseline: the whole suite on the base.
        quick_s: seconds of a suite that is not worth it.
    """
    if baseline.seconds < quick_s or not baseline.structured:
        return ()
    holders = [file_of(test) for test in baseline.outcomes]
    reached = reached_tests(draft, before, after)
    new = {path for path, file in draft.edits.items() if file is not None and is_test(path) and path in reached}
    selected = {path for path in reached if path in draft} & ({*holders} | new)
    share = sum(holder in selected for holder in holders)
    return tuple(sorted(selected)) if share <= LARGEST_SHARE * len(holders) else ()


def reached_tests(draft: Draft, before: Index, after: Index) -> Collection[str]:
    """Test files that reach a changed file: a deleted one is asked for in the base, where others still import it."""
    gone = [path for path, file in draft.edits.items() if file is None]
    there = [path for path, file in draft.edits.items() if file is not None]
    return dict.fromkeys(reach.path for reach in (*after.tests_for(there), *before.tests_for(gone)))


def restricted(run: TestRun, files: Collection[str]) -> TestRun:
    """The part of a run that is about the tests of ``files``."""
    return run.model_copy(update={"outcomes": {t: o for t, o in run.outcomes.items() if file_of(t) in files}})


def file_of(test: str) -> str:
    """The part of a test id that names its file, where ids do."""
    return test.partition("::")[0]
