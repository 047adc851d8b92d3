"""Test ids before against after. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

from agent.types import Comparison, TestOutcome, TestRun


def compare(before: TestRun, after: TestRun, flaky: Iterable[str] = ()) -> Comparison:
    """What changed between two runs of the same tests.

    A test that failed before and is gone now counts as lost too: deleting a failing test repairs nothing. A file
    that could not be loaded before and whose tests run now is no loss: its place is taken by its tests. One that
    passed and is expected to fail now says nothing any more: it is lost, as a skipped one is.

    Args:
        flaky: ids that failed in ``after`` and passed when run again alone.
    """
    unsteady = frozenset(flaky) & after.failed
    failed = after.failed - unsteady
    passed = after.passed | unsteady
    known = before.passed | before.failed
    given_up = before.ids(TestOutcome.PASSED) & after.ids(TestOutcome.XFAILED)
    gone = (known - after.passed - after.failed) | given_up
    return Comparison(
        fixed=_sorted(before.failed & (after.passed | _loaded(before.failed, after.passed))),
        added=_sorted(passed - known),
        added_failing=_sorted(failed - known),
        regressed=_sorted(before.passed & failed),
        lost=_sorted(gone - _loaded(before.failed, after.passed | after.failed)),
        still_failing=_sorted(before.failed & failed),
        flaky=_sorted(unsteady),
    )


def wandering(lost: Iterable[str], before: TestRun, again: TestRun, after: TestRun) -> frozenset[str]:
    """Those of ``lost`` whose ids are other ones in every run (a time, an address or a random value in a parameter),
    and whose test runs no less often than before.

    Args:
        before, again: two runs of the base.
        after: the run in which they are missing.
    """
    runs_before, runs_after = _times(before), _times(after)
    known = again.passed | again.failed
    return frozenset(
        test
        for test in lost
        if "[" in test and test not in known and runs_after[_function(test)] >= runs_before[_function(test)]
    )


def without_wandering(comparison: Comparison, ids: Collection[str]) -> Comparison:
    """``comparison`` where the tests of the wandering ``ids`` are neither lost nor new. One that fails stays new."""
    functions = {*map(_function, ids)}
    return comparison.model_copy(
        update={
            "lost": tuple(test for test in comparison.lost if test not in ids),
            "added": tuple(test for test in comparison.added if _function(test) not in functions),
        }
    )


def _times(run: TestRun) -> Counter[str]:
    return Counter(map(_function, run.passed | run.failed))


def _function(test: str) -> str:
    """A test's id without its parameters."""
    return test.partition("[")[0]


def _loaded(uncollected: frozenset[str], present: frozenset[str]) -> frozenset[str]:
    """Ids that name a whole file (no ``::``) of which single tests are there now."""
    files = {test.split("::", 1)[0] for test in present if "::" in test}
    return frozenset(test for test in uncollected if "::" not in test and test in files)


def _sorted(ids: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(ids))
