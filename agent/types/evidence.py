"""What the harness measured, and what follows from it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Final, Literal

from pydantic import Field

from agent.types.base import Told, Value


class TestOutcome(StrEnum):
    """What a structured report says of one test id."""

    __test__ = False

    PASSED = "passed"
    FAILED = "failed"
    ERROR = "error"
    SKIPPED = "skipped"
    XFAILED = "xfailed"


class SuiteStatus(StrEnum):
    """What one run of the tests amounts to as a whole; decided from the exit code *and* the report."""

    OK = "ok"  # ran, report agrees with the exit code, nothing failed
    FAILING = "failing"  # ran, report agrees with the exit code, something failed
    NO_TESTS = "no_tests"  # neither green nor red
    NOT_RUN = "not_run"  # could not start or collect: a wrong command, a broken import, a missing tool
    TIMED_OUT = "timed_out"
    OUT_OF_MEMORY = "out_of_memory"
    INCONSISTENT = "inconsistent"  # report and exit code disagree: nothing can be concluded

    @property
    def concludes(self) -> bool:
        """Tests ran, and what came of them is known."""
        return self in (SuiteStatus.OK, SuiteStatus.FAILING)


_NAMED = 50
"""Failing tests that an event names."""


class TestRun(Value):
    """One execution of (part of) the target's tests, as the harness measured it."""

    __test__ = False

    command: tuple[Told, ...]
    status: SuiteStatus
    outcomes: Mapping[str, TestOutcome] = Field(default_factory=dict)
    """Test id → outcome. Ids are the runner's own (``tests/test_a.py::test_x[1]``)."""
    messages: Mapping[str, str] = Field(default_factory=dict)
    """Test id → short clean failure text, for failures and errors only."""
    exit_code: int | None = None
    seconds: float = 0.0
    log: str = ""
    """Tail of the output, clean text; the raw bytes are the file ``log_file``."""
    log_file: str = ""
    detail: Told = ""
    """Why, in a sentence for a person, when the status is neither ok nor failing."""
    structured: bool = True
    """False when there is only an exit code: no test ids are known."""
    isolation: str = ""

    @property
    def summary(self) -> Mapping[str, object]:
        """For an event: without the tests that passed, the log, and most of very many failures."""
        return {
            "status": self.status,
            "detail": self.detail,
            "command": self.command,
            "exit_code": self.exit_code,
            "seconds": self.seconds,
            "passed": len(self.passed),
            "failed": sorted(self.failed)[:_NAMED],
            "more": max(0, len(self.failed) - _NAMED),
            "log_file": self.log_file,
        }

    def ids(self, *wanted: TestOutcome) -> frozenset[str]:
        """The ids that ended in one of ``wanted``."""
        return frozenset(test for test, outcome in self.outcomes.items() if outcome in wanted)

    @property
    def passed(self) -> frozenset[str]:
        return self.ids(TestOutcome.PASSED, TestOutcome.XFAILED)

    @property
    def failed(self) -> frozenset[str]:
        return self.ids(TestOutcome.FAILED, TestOutcome.ERROR)


class Comparison(Value):
    """Test ids before against after. ``regressed`` and ``lost`` must be empty for a proven change."""

    fixed: tuple[str, ...] = ()
    """Failed before, passes now."""
    added: tuple[str, ...] = ()
    """Not there before, passes now."""
    added_failing: tuple[str, ...] = ()
    regressed: tuple[str, ...] = ()
    """Passed before, fails now."""
    lost: tuple[str, ...] = ()
    """Passed or failed before, and now neither passes nor fails: gone, renamed or skipped."""
    given_up: tuple[str, ...] = ()
    """What would be lost, but went with a change to its file that the plan gives the task's reason for. A person has to
    acknowledge it."""
    still_failing: tuple[str, ...] = ()
    flaky: tuple[str, ...] = ()
    """Would be regressions, but flipped when run again alone."""

    @property
    def clean(self) -> bool:
        return not (self.regressed or self.lost or self.added_failing)

    def giving_up(self, tests: Collection[str]) -> Comparison:
        """The same, with those of the lost tests that are in ``tests`` given up."""
        return self.model_copy(
            update={
                "lost": tuple(test for test in self.lost if test not in tests),
                "given_up": (*self.given_up, *(test for test in self.lost if test in tests)),
            }
        )


class Proof(Value):
    """Red → green for one new or changed test."""

    test: str
    on_base: TestOutcome | Literal["missing", "not_run"]
    """Outcome on the base commit with only the change's tests applied."""
    on_head: TestOutcome | Literal["missing", "not_run"]
    command: tuple[str, ...]
    """Runs this test alone, inside the sandbox."""
    base_digest: str
    """SHA-256 of the tree that was tested (git tree id of base plus tests)."""
    head_digest: str
    base_message: str = ""
    """Short clean failure text on the base."""
    head_message: str = ""
    """Why there is no verdict on the head, when there is none."""

    @property
    def holds(self) -> bool:
        return self.on_base in (TestOutcome.FAILED, TestOutcome.ERROR) and self.on_head == TestOutcome.PASSED

    @property
    def guards(self) -> bool:
        """Passes on both: it proves nothing, and keeps what was right as it is."""
        return self.on_base == TestOutcome.PASSED and self.on_head == TestOutcome.PASSED


HUNK_CHARS: Final = 4_000
"""Of the change that a finding about tests is shown with."""


class IntegrityFinding(Value):
    """A change that could make tests say less than before."""

    kind: str
    path: Told
    detail: Told
    hunk: Told = ""
    excused: bool = False
    """The plan says why the task asks for it. A person has to acknowledge it all the same."""


class Finding(Value):
    """What a tool has against one line of the change, and had against nothing in the base."""

    path: Told
    line: int
    """0 where the tool names none."""
    rule: str
    message: Told

    @property
    def place(self) -> str:
        return f"{self.path}:{self.line}" if self.line else self.path


class Check(Value):
    """What one tool says of a change without running it, compared with the base."""

    level: Literal["syntax", "static"]
    tool: str
    found: tuple[Finding, ...] = ()
    more: int = 0
    """New findings beyond those in ``found``."""
    silent: Told = ""
    """Why it said nothing, when it is configured and did not run to its end."""

    @property
    def count(self) -> int:
        return len(self.found) + self.more


class Place(Value):
    """Lines of a file, from 1, both ends included."""

    path: Told
    start: int
    end: int

    def __str__(self) -> str:
        return f"{self.path}:{self.start}" if self.start >= self.end else f"{self.path}:{self.start}-{self.end}"


MISSED_PLACES: Final = 30
"""That are told."""


class Coverage(Value):
    """Which changed lines ran in a test. It decides nothing."""

    lines: int = 0
    """Changed lines that hold code, tests and deleted files left out."""
    ran: int = 0
    missed: tuple[Place, ...] = ()
    more: int = 0
    """Places beyond those in ``missed``."""
    tests: int = 0
    """Test files that were run to see it; 0 for all."""
    absent: str = ""
    """Why nothing was seen."""


class Caller(Value):
    """A function or class that uses a changed symbol, tests left out."""

    path: Told
    line: int
    """Of the first use in it."""
    inside: str
    """Its name; empty at module level."""
    resolved: bool
    """An import leads from it to the symbol; else only the name is the same."""
    covered: bool
    """The use ran in a test; where that can't be seen, a test that ran reaches the file by its imports."""


class Impact(Value):
    """A changed public symbol of the base, and who uses it."""

    symbol: str
    path: Told
    removed: bool = False
    callers: tuple[Caller, ...] = ()
    """The first of them, those first that an import leads from."""
    resolved: int = 0
    by_name: int = 0
    covered: int = 0
    """Of both."""

    @property
    def count(self) -> int:
        return self.resolved + self.by_name


class Partial(Value):
    """Tests were measured of a part of the test files, since all of them do not end in the time of a command."""

    files: tuple[Told, ...]
    """Those that were run, before and after."""
    left: int
    """How many others there are: nothing is known of them."""
    why: Told
    """How the run of all of them ended."""

    @property
    def short(self) -> str:
        return f"{len(self.files)} of {len(self.files) + self.left} test files"


class Evidence(Value):
    """What the harness measured. ``None`` means: that stage was not reached."""

    baseline: TestRun | None = None
    baseline_from: str = ""
    """When an earlier run on the same tree measured the baseline, in UTC; empty when this run did."""
    checks: tuple[Check, ...] = ()
    """What was looked at before any test ran, cheapest first."""
    partial: Partial | None = None
    """Which part of the tests ``baseline`` and ``final`` are; ``None`` where they are all of them."""
    unbuilt: tuple[Told, ...] = ()
    """Changed files that are compiled, and that nothing built for the tests: see ``agent.verify.compiled``."""
    affected: TestRun | None = None
    """The tests that the change can reach by its imports, run before the whole suite where that pays."""
    final: TestRun | None = None
    comparison: Comparison | None = None
    """The baseline against ``final``, or against ``affected`` where that was the end of it."""
    proof: tuple[Proof, ...] = ()
    integrity: tuple[IntegrityFinding, ...] = ()
    coverage: Coverage | None = None
    impact: tuple[Impact, ...] = ()
    """Changed public symbols by the number of their callers."""
    impact_more: int = 0
    """Changed public symbols beyond those, of which no callers were looked for."""
    reproduce: tuple[str, ...] = ()
    """Shell lines that a person can paste to see the same thing."""
    isolation: str = ""
    """What separated the tests from the machine, for a person."""
    weak: bool = False
    """That was less than it is meant to be."""

    @property
    def tests(self) -> TestRun | None:
        """The tests that were run last on the change."""
        return self.final or self.affected

    @property
    def complaints(self) -> tuple[Check, ...]:
        """The checks that found something new."""
        return tuple(check for check in self.checks if check.found)

    @property
    def turned(self) -> tuple[Proof, ...]:
        """The tests that went red → green."""
        return tuple(proof for proof in self.proof if proof.holds)

    @property
    def proven(self) -> bool:
        """Something went red → green, nothing got worse by any measure, and no existing test was touched."""
        return self.holds and not self.touches_tests

    @property
    def given_up(self) -> tuple[str, ...]:
        """Tests that ran before and do not any more, as the plan says."""
        return self.comparison.given_up if self.comparison else ()

    @property
    def touches_tests(self) -> bool:
        """Something is other than before in what says that the change is right."""
        return bool(self.integrity or self.given_up)

    @property
    def integrity_digest(self) -> str:
        """Names exactly these findings with their hunks and the tests given up, in 16 hex digits; empty without any."""
        if not self.touches_tests:
            return ""
        findings = [(one.kind, one.path, one.detail, one.hunk) for one in self.integrity]
        return hashlib.sha256(json.dumps([findings, self.given_up]).encode()).hexdigest()[:16]

    @property
    def holds(self) -> bool:
        """All of a proof but the last part: whether the tests still say as much, a person may have to decide. A part of
        the suite is none, and neither is one that did not see the change."""
        return (
            self.final is not None
            and self.partial is None
            and not self.unbuilt
            and self.final.status.concludes
            and self.comparison is not None
            and self.comparison.clean
            and bool(self.turned)
            and all(p.holds or p.guards for p in self.proof)
            and not self.complaints
        )
