"""The tests of the base: measured, or taken from an earlier run on the same tree.

What was measured is kept for a few days under a name made from everything that is known to have an influence: the
tree, how it is tested, the installed environment, the isolation, the limits. Two things such a name can't hold: the
date, and a test that is not steady. So a kept baseline is never the last word against a change, nor for one: where it
would say that a test got worse, or is gone, or failed all along, the base is measured again (``doubted``).

Not kept: what has no report of single tests; what did not run to its end; anything measured with a person's own
environment or ignored files, which change without a name. What a change left behind has no influence: all that is kept
was measured where nothing but the base has run, apart from the names of tests that flipped on changes. Those need the
word of two runs, and a test that is known to flip can only prove less.

Of a suite that ran out of time, and a part of which could be measured, that fact alone is kept, for a day: each run
measures its own part.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from pydantic import Field, ValidationError

from agent.files import replace_file
from agent.tree import Draft
from agent.types import Comparison, Evidence, Finding, Partial, SuiteStatus, TestRun, Value
from agent.verify import python_tests, verdict
from agent.verify.compare import wandering
from agent.verify.harness import Harness
from agent.verify.impact import file_of
from agent.verify.partial import PartialBase
from agent.verify.toolchains import LEAVES_OUT

MAX_BYTES: Final = 256 * 1024**2
"""Of all that is kept; what was used least goes first."""
MAX_AGE_S: Final = 3 * 24 * 3600
_TOO_LONG_AGE_S: Final = 24 * 3600
"""A machine that was busy for once must not have all changes of a suite be drafts for longer."""
_ONE_BYTES: Final = 32 * 1024**2
_FORMAT: Final = 1
_WITNESSES: Final = 2
_ENDLESS: Final = 2
"""Tests that may take the whole time of a command, each, before no more are looked for."""


class Kept(Value):
    """One baseline on disk."""

    key: str
    measured_at: float
    """Seconds since the epoch."""
    run: TestRun
    unexplained: tuple[str, ...] = ()
    """Ids of the base that no file explains; see ``Harness.recall``."""
    flaky: tuple[str, ...] = ()
    """Tests that were seen to end in different ways on this very tree."""
    flips: Mapping[str, tuple[str, ...]] = Field(default_factory=dict)
    """Test → runs in which it did so on a change of this tree."""
    findings: Mapping[str, tuple[Finding, ...]] = Field(default_factory=dict)
    """What was asked of a linter → what it has against the base."""


class Shelf:
    """Kept baselines: one file each, replaced as a whole, for several processes at once.

    A file that can't be read, was written by another version or says to be another's is as good as none.
    """

    def __init__(self, folder: Path, *, max_bytes: int = MAX_BYTES, max_age_s: float = MAX_AGE_S) -> None:
        self._folder = folder
        self._max_bytes = max_bytes
        self._max_age_s = max_age_s

    def find(self, key: str) -> Kept | None:
        path = self._path(key)
        with suppress(OSError, ValidationError):
            if path.is_symlink() or path.stat().st_size > _ONE_BYTES:
                return None
            kept = Kept.model_validate_json(path.read_bytes())
            oldest_s = min(self._max_age_s, _TOO_LONG_AGE_S) if _is_too_long(kept.run) else self._max_age_s
            young = 0 <= time.time() - kept.measured_at <= oldest_s
            if kept.key == key and young and (is_complete(kept.run) or _is_too_long(kept.run)):
                os.utime(path)
                return kept
        return None

    def keep(self, kept: Kept) -> None:
        """Write it down. That there is no room for it, or a name that has no JSON form, is no reason to end a run."""
        with suppress(OSError, ValueError):
            data = kept.model_dump_json().encode()
            if len(data) > _ONE_BYTES:
                return
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            replace_file(self._path(kept.key), data)
            self._bound()

    def _path(self, key: str) -> Path:
        return self._folder / f"{key}.json"

    def _bound(self) -> None:
        ages = {path: path.stat() for path in self._folder.glob("*.json")}
        total = sum(status.st_size for status in ages.values())
        for path, status in sorted(ages.items(), key=lambda item: item[1].st_mtime):
            if total > self._max_bytes or time.time() - status.st_mtime > self._max_age_s:
                path.unlink(missing_ok=True)
                total -= status.st_size


class Baseline:
    """The base as this run knows it.

    Args:
        shelf: where it is looked for, and kept.
    """

    def __init__(self, harness: Harness, base: Draft, shelf: Shelf) -> None:
        self._harness = harness
        self._base = base
        self._shelf = shelf
        self._key = key_of(harness)
        kept = shelf.find(self._key) if self._key else None
        self._is_old = kept is not None
        """An earlier run measured it."""
        self._measured_at = kept.measured_at if kept else time.time()
        self._flaky = set(kept.flaky) if kept else set()
        self._flips = dict(kept.flips) if kept else {}
        self.said: dict[str, tuple[Finding, ...]] = dict(kept.findings) if kept else {}
        """What was asked of a linter → what it has against the base. Whoever asks adds to it."""
        self._written: object = None
        self._part: PartialBase | None = None
        if kept:
            harness.recall(kept.run, kept.unexplained)
            self.run = kept.run
            self._written = self._state()
        else:
            self.run = self._measured()
            self.keep()

    def _measured(self) -> TestRun:
        """All tests; where one of them never ends, all others."""
        run = self._harness.run(self._base, name="baseline")
        for _ in range(_ENDLESS):
            never = endless(run, self._base, self._harness)
            if not never:
                break
            self._harness.leave_out(never)
            run = self._harness.run(self._base, name="baseline", fresh=True)
        return run

    @property
    def endless(self) -> tuple[str, ...]:
        """Tests that never end. They count as failing, before and after; all others are run."""
        return self._harness.plan.without if is_complete(self.run) else ()

    def go_by_parts(self) -> bool:
        """Where all tests ran out of time: measure a part of them. False where that says nothing either."""
        if not _is_too_long(self.run):
            return False
        whole = self.run
        if self._is_old:
            whole = whole.model_copy(update={"detail": f"{whole.detail} (In an earlier run, {self.taken_from}.)"})
        part = PartialBase(self._harness, self._base, whole)
        was_old, self._is_old = self._is_old, False
        if part.run is None:
            if was_old:  # it may be another day's trouble
                self.run, self._measured_at = self._measured(), time.time()
            return False
        if self._key and not was_old and not self._harness.plan.without:
            self._shelf.keep(self._kept(whole))
        self._part, self.run = part, part.run
        return True

    @property
    def partial(self) -> Partial | None:
        """Which part of the tests is known; ``None`` where it is all of them."""
        return self._part.told if self._part else None

    def evidence(self) -> Evidence:
        """What is known before there is any change."""
        isolation = self._harness.sandbox.isolation
        return Evidence(
            baseline=self.run,
            baseline_from=self.taken_from,
            partial=self.partial,
            isolation=isolation.detail,
            weak=isolation.degraded,
        )

    def selection(self, draft: Draft, reached: Callable[[], Collection[str]]) -> tuple[str, ...]:
        """What has to be run to compare ``draft`` with the base: nothing for all tests, else a part that is measured
        by now.

        Args:
            reached: gives the test files that the change reaches, the nearest first.
        """
        if self._part is None:
            return ()
        files = self._part.selection(draft, tuple(reached()))
        self.run = self._part.run or self.run
        return files

    @property
    def taken_from(self) -> str:
        """When an earlier run measured it, to the minute; empty when this one did."""
        return f"{datetime.fromtimestamp(self._measured_at, UTC):%Y-%m-%d %H:%M} UTC" if self._is_old else ""

    @property
    def flaky(self) -> tuple[str, ...]:
        """Tests that are known to end in different ways on the same tree."""
        told = {test for test, runs in self._flips.items() if len(runs) >= _WITNESSES}
        return tuple(sorted((self._flaky | told) & self.run.outcomes.keys()))

    def flipped(self, tests: Collection[str]) -> None:
        """Remember tests that failed with a change and passed when they were run again on the same files. One run's
        word is not enough: it may be its change that makes them flip."""
        this = self._harness.workspace.spec.run_id
        for test in tests:
            self._flips[test] = tuple(dict.fromkeys((*self._flips.get(test, ()), this)))[-_WITNESSES:]

    def doubted(self, comparison: Comparison) -> bool:
        """Whether ``comparison`` rests on something that an earlier run measured and that may be other today. Then the
        base has been measured again, and it is to be compared once more.

        Tests that failed before and still do count too: what was broken that day would hide what a change breaks.
        """
        if not self._is_old:
            return False
        if not (comparison.regressed or comparison.lost or self._passes_today(comparison.still_failing)):
            return False
        before, run = self.run, self._harness.run(self._base, name="baseline", fresh=True)
        self._is_old = False
        if run.status.concludes:
            self._measured_at = time.time()
            changed = (test for test in before.outcomes if before.outcomes[test] != run.outcomes.get(test))
            self._flaky.update(changed)
            self.run = run
        return True

    def wandering(self, lost: Collection[str], after: TestRun) -> Collection[str]:
        """See ``compare.wandering``; the base is run once more only where ids with parameters are lost."""
        files = sorted({file_of(test) for test in lost if "[" in test})
        if not files:
            return ()
        again = self._harness.run(self._base, files, name="base", fresh=True)
        return wandering(lost, self.run, again, after) if again.status.concludes else ()

    def keep(self) -> None:
        """Write down what is new, for the runs after this one."""
        state = self._state()
        if not self._key or self._part or self.endless or not is_complete(self.run) or state == self._written:
            return
        self._shelf.keep(self._kept(self.run))
        self._written = state

    def _kept(self, run: TestRun) -> Kept:
        return Kept(
            key=self._key,
            measured_at=self._measured_at,
            run=run.model_copy(update={"log_file": ""}),
            unexplained=tuple(sorted(self._harness.unexplained)),
            flaky=tuple(sorted(self._flaky & run.outcomes.keys())),
            flips={test: runs for test, runs in self._flips.items() if test in run.outcomes},
            findings=self.said,
        )

    def _state(self) -> object:
        return self.run.outcomes, frozenset(self._flaky), dict(self._flips), dict(self.said)

    def _passes_today(self, failing: Collection[str]) -> bool:
        if not failing:
            return False
        run = self._harness.run(self._base, tuple(failing), "base", fresh=True)
        return not run.passed.isdisjoint(failing)


def endless(run: TestRun, base: Draft, harness: Harness) -> tuple[str, ...]:
    """The test that a run was stopped in, as far as it is named; with those whose names begin alike, which go with it
    where it is left out."""
    if not _is_too_long(run) or harness.plan.toolchain not in LEAVES_OUT:
        return ()
    for path, line in verdict.endless(run.log, (harness.workspace.spec.view,)):
        module = python_tests.parse(base.content(path)) if path in base else None
        tests = module.tests if module else {}
        for stuck, test in tests.items():
            if test.span[0] <= line <= test.span[1]:
                return tuple(f"{path}::{name}" for name in tests if name.startswith(stuck))
    return ()


def is_complete(run: TestRun) -> bool:
    """Whether every test has its own word in it."""
    return run.status.concludes and run.structured and bool(run.outcomes)


def _is_too_long(run: TestRun) -> bool:
    return run.status is SuiteStatus.TIMED_OUT and not run.outcomes


def key_of(harness: Harness) -> str:
    """Names everything that is known to have an influence on a run of the base's tests; empty where something has one
    that can't be named."""
    environment, spec, plan = harness.environment, harness.workspace.spec, harness.plan
    isolation = harness.sandbox.isolation
    if spec.origin is not None or not environment.id or plan.absent:
        return ""
    facts = (
        _FORMAT,
        importlib.metadata.version("graftsmith"),
        spec.repository,
        harness.workspace.base.tree_id,
        (plan.toolchain, plan.line, plan.setup),
        environment.id,
        sorted(environment.env.items()),
        (isolation.name, isolation.degraded, isolation.leaks),  # its detail names the user id of this very run
        spec.view,
        repr(harness.limits),
        (os.uname().machine, os.uname().release),
    )
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:40]
