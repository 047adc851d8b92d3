"""Test ids before against after. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from agent.types import Comparison, TestRun


def compare(before: TestRun, after: TestRun, flaky: Iterable[str] = ()) -> Comparison:
    """What changed between two runs of the same tests.

    A test that failed before and is gone now counts as lost too: deleting a failing test repairs nothing. A file
    that could not be loaded before and whose tests run now is no loss: its place is taken by its tests.

    Args:
        flaky: ids that failed in ``after`` and passed when run again alone.
    """
    unsteady = frozenset(flaky) & after.failed
    failed = after.failed - unsteady
    passed = after.passed | unsteady
    known = before.passed | before.failed
    gone = known - after.passed - after.failed
    return Comparison(
        fixed=_sorted(before.failed & (after.passed | _loaded(before.failed, after.passed))),
        added=_sorted(passed - known),
        added_failing=_sorted(failed - known),
        regressed=_sorted(before.passed & failed),
        lost=_sorted(gone - _loaded(before.failed, after.passed | after.failed)),
        still_failing=_sorted(before.failed & failed),
        flaky=_sorted(unsteady),
    )


def _loaded(uncollected: frozenset[str], present: frozenset[str]) -> frozenset[str]:
    """Ids that name a whole file (no ``::``) of which single tests are there now."""
    files = {test.split("::", 1)[0] for test in present if "::" in test}
    return frozenset(test for test in uncollected if "::" not in test and test in files)


def _sorted(ids: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(ids))
