"""The base's tests where the whole suite does not end in its time: those of some files, measured slice by slice.

Which files is asked for with each change, those first that it reaches most directly. A slice that ends tells how many
files the next one can hold; one that does not is tried with fewer, and a file that runs out of time alone is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import takewhile
from typing import Final

from agent.index.graph import called
from agent.tree import Draft
from agent.types import Partial, SuiteStatus, TestRun
from agent.verify.harness import Harness
from agent.verify.paths import is_test

_SHARE: Final = 0.5
"""Of the time of one command: the same files have to end in it with a change too, on a machine that may be busier."""
_LEAST: Final = 0.05
"""Of that share: with less left nothing more is begun."""
_FIRST: Final = 3
"""Test files that are tried until one shows that the tests can be judged in parts at all."""
_TRIES: Final = 3
"""So many slices fit at least into what is left: a slow file at the head keeps no other from being run."""

RunSlice = Callable[[Sequence[str], float], TestRun]
"""Runs the tests of files for so many seconds at most."""


class Slices:
    """What is known of the base's tests.

    Args:
        run: runs test files on the base.
        files: all test files of the base.
        seconds: that all slices may take together.
    """

    def __init__(self, run: RunSlice, files: Collection[str], seconds: float) -> None:
        self._run = run
        self._files = files
        self._seconds = seconds
        self._left = seconds
        self._known: dict[str, None] = {}
        self._refused: set[str] = set()
        self.runs: list[TestRun] = []

    @property
    def files(self) -> tuple[str, ...]:
        """Those whose tests were measured."""
        return tuple(self._known)

    @property
    def left(self) -> int:
        """How many test files were not measured."""
        return len([path for path in self._files if path not in self._known])

    def measure(self, wanted: Sequence[str], tries: int = _TRIES) -> None:
        """Measure those of ``wanted`` that are not yet, in their order, while there is time.

        Args:
            tries: see ``_TRIES``.
        """
        pending = [path for path in wanted if path in self._files and path not in self._refused | self._known.keys()]
        floor = self._seconds * _LEAST
        size = 1
        while pending and self._left > floor:
            limit = (self._left - floor / 2) / tries
            if limit < min((run.seconds for run in self.runs), default=0):
                return  # a runner needs that to start
            chosen, pending = pending[:size], pending[size:]
            run = self._run(chosen, limit)
            self._left -= run.seconds
            if run.status.concludes:
                self.runs.append(run)
                self._known.update(dict.fromkeys(chosen))
                size = max(1, min(2 * size, int(size * limit / 2 / max(run.seconds, 0.01))))
            elif size > 1:
                pending, size = [*chosen, *pending], max(1, size // 4)
            else:
                self._refused.update(chosen)

    def merged(self) -> TestRun:
        """All that was measured as one run."""
        failed = any(run.status is SuiteStatus.FAILING for run in self.runs)
        last = self.runs[-1]
        return last.model_copy(
            update={
                "status": SuiteStatus.FAILING if failed else SuiteStatus.OK,
                "exit_code": 1 if failed else 0,
                "outcomes": {test: outcome for run in self.runs for test, outcome in run.outcomes.items()},
                "messages": {test: text for run in self.runs for test, text in run.messages.items()},
                "seconds": round(sum(run.seconds for run in self.runs), 3),
            }
        )


class PartialBase:
    """The base of a suite that did not end in its time.

    Args:
        whole: the run of all tests that was stopped.
    """

    def __init__(self, harness: Harness, base: Draft, whole: TestRun) -> None:
        self._base = base
        self._whole = whole
        self._slices = Slices(
            lambda files, seconds: harness.run(base, files, "part", fresh=True, wall_s=seconds),
            frozenset(test_files(base)),
            harness.limits.wall_s * _SHARE,
        )
        sizes = sorted(test_files(base), key=lambda path: base.entries[path].size)
        for path in sizes[len(sizes) // 4 :][:_FIRST]:
            if not self._slices.runs:
                self._slices.measure([path], tries=2)

    @property
    def run(self) -> TestRun | None:
        """The tests that were measured as one run; ``None`` where none could be."""
        if not self._slices.runs or not all(run.structured for run in self._slices.runs):
            return None
        told = f"the whole suite ran out of time, so this is a part of it: {self.told.short}"
        return self._slices.merged().model_copy(update={"command": self._whole.command, "detail": told})

    @property
    def told(self) -> Partial:
        return Partial(files=self._slices.files, left=self._slices.left, why=self._whole.detail)

    def selection(self, draft: Draft, reached: Sequence[str]) -> tuple[str, ...]:
        """The files whose tests are compared for ``draft``, its new ones included; measured on the base by now.

        Args:
            reached: test files that the change reaches, the nearest first.
        """
        changed = [path for path in draft.edits if path in draft and _is_test_file(path)]
        self._slices.measure([*changed, *nearest(reached, draft.edits)])
        new = (path for path in changed if path not in draft.base.entries)
        return tuple(path for path in (*self._slices.files, *new) if path in draft)


def nearest(reached: Sequence[str], changed: Collection[str]) -> list[str]:
    """Test files called like a changed file, then those that share most of its folders; else in their order."""
    names = {called(path) for path in changed}

    def far(path: str) -> tuple[bool, int]:
        return called(path) not in names, -max((_shared(path, other) for other in changed), default=0)

    return sorted(reached, key=far)


def _shared(one: str, other: str) -> int:
    """How many folders from the root the two paths have in common."""
    pairs = zip(one.split("/")[:-1], other.split("/")[:-1], strict=False)
    return len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))


def test_files(draft: Draft) -> Iterator[str]:
    """Files that by their names hold tests, and not only what tests need."""
    return filter(_is_test_file, draft.paths())


def _is_test_file(path: str) -> bool:
    name = path.rpartition("/")[2]
    return is_test(path) and "test" in name.lower() and not name.startswith("conftest.")
