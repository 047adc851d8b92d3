"""Tests that fail with a change and are none of its faults: they flip, or fail by now without it too."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from agent.tree import Draft
from agent.types import TestRun
from agent.verify.harness import Harness
from agent.verify.report import gist

_RERUNS: Final = 3
_LIMIT: Final = 20
"""More new failures than these are no flakes: they are not run again."""


class Flakes:
    """Finds them by running tests again."""

    def __init__(self, harness: Harness) -> None:
        self._harness = harness
        self._by_now: dict[str, str] = {}
        """Tests that were asked of the base once more → why they fail there; empty where they do not."""

    def among(self, draft: Draft, before: TestRun, after: TestRun) -> tuple[str, ...]:
        """Which of the tests that passed before and fail now pass when run again alone, up to three times each, or fail
        by now without the change too, in the same way: time is short for them."""
        suspects = sorted(before.passed & after.failed)
        if len(suspects) > _LIMIT:
            return ()
        flips = tuple(test for test in suspects if self._flips(draft, test))
        return (*flips, *self._fail_anyway([test for test in suspects if test not in flips], after))

    def _flips(self, draft: Draft, test: str) -> bool:
        runs = (self._harness.run(draft, (test,), "again", fresh=True) for _ in range(_RERUNS))
        return any(test in run.passed for run in runs)

    def _fail_anyway(self, tests: Sequence[str], after: TestRun) -> Iterator[str]:
        unasked = [test for test in tests if test not in self._by_now]
        if unasked:
            base = self._harness.workspace.base.draft()
            now = self._harness.run(base, unasked, "again", fresh=True)
            self._by_now |= {test: _reason(now, test) if test in now.failed else "" for test in unasked}
        yield from (test for test in tests if self._by_now[test] and self._by_now[test] == _reason(after, test))


def _reason(run: TestRun, test: str) -> str:
    """Why a test failed, apart from numbers."""
    return re.sub(r"\d+", "0", gist(run.messages.get(test, "")))
