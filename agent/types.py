"""The values that cross the engine's borders: what goes into a run and what comes out.

All are frozen and carry their own JSON form (``model_dump_json`` / ``model_validate_json``), because a run
may happen in another process or on another machine. Bytes travel as base64.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator


class Value(BaseModel):
    """Base of every value: frozen, no unknown fields, bytes as base64 in JSON."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_bytes="base64", val_json_bytes="base64")


# ── words ────────────────────────────────────────────────────────────────────────────────────────────────────────


class Stage(StrEnum):
    """A named step of a run, in order."""

    PREPARE = "prepare"
    BASELINE = "baseline"
    INDEX = "index"
    PLAN = "plan"
    ANSWER = "answer"
    WORK = "work"
    VERIFY = "verify"
    PROVE = "prove"
    REVIEW = "review"
    REPORT = "report"


START: Final = "start"
"""Of a process, its imports and its sandbox: no stage, but part of what a run takes."""


class Outcome(StrEnum):
    """How a job ended."""

    PROPOSED = "proposed"
    UPDATED = "updated"
    ANSWERED = "answered"
    PLANNED = "planned"
    NO_CHANGE = "no_change"
    ALREADY_FIXED = "already_fixed"
    NOT_REPRODUCED = "not_reproduced"
    NEEDS_INPUT = "needs_input"
    TESTS_FAILING = "tests_failing"
    STUCK = "stuck"
    BUDGET_REACHED = "budget_reached"
    BLOCKED = "blocked"
    CANCELLED = "cancelled"
    FAILED = "failed"


BROKEN_OFF = frozenset({Outcome.BUDGET_REACHED, Outcome.CANCELLED})
"""These say nothing against the work so far: another run can go on from it."""


# ── changes ──────────────────────────────────────────────────────────────────────────────────────────────────────

FileMode = Literal["100644", "100755", "120000"]


class FileChange(Value):
    """The whole new state of one path. ``content is None`` means deleted."""

    path: str
    """Relative, ``/``-separated, no ``.`` or ``..`` part; decoded with surrogateescape where it is not UTF-8."""
    mode: FileMode = "100644"
    content: bytes | None


class ChangeSet(Value):
    """The result of a run as data: apply ``changes`` to the tree of ``base_sha``."""

    base_sha: str
    changes: tuple[FileChange, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.changes)


# ── what a run is given ──────────────────────────────────────────────────────────────────────────────────────────


class Task(Value):
    """What a person asked for. Every field is untrusted text."""

    title: str
    body: str = ""
    request: str = ""
    """The words after the command, for example ``fix the parser`` without ``/agent fix``."""
    comments: tuple[str, ...] = ()
    """Earlier comments by people who may command the bot, oldest first."""
    number: int | None = None
    """The issue or pull request, when there is one."""


class Budget(Value):
    """Upper bounds of one run, each checked before every model call. ``None`` means no bound of that kind."""

    dollars: float | None = 5.0
    tokens: int | None = 1_000_000
    minutes: float | None = 60.0
    steps: int | None = 100
    """Model calls."""
    fix_rounds: int = 3


class ModelEndpoint(Value):
    """An OpenAI-compatible endpoint. ``api_key`` is the run's own short-lived token when the App drives the run."""

    base_url: str
    api_key: str = Field(repr=False)
    model: str
    context_tokens: int | None = None
    """How long a request may get, when the operator says so; else it is looked up."""


class Price(Value):
    """What a million tokens of a model cost, in dollars, and how many it can hold."""

    input: float = Field(ge=0)
    cached: float = Field(ge=0)
    """Input that the provider had in its prompt cache."""
    output: float = Field(ge=0)
    context: int | None = Field(None, gt=0)
    """Tokens of the longest input."""


class Commands(Value):
    """How to set up and test the target. Empty means: detect it from the base commit."""

    setup: tuple[str, ...] = ()
    """Shell lines, run with a network and without secrets, before the baseline."""
    test: str = ""
    """One shell line. ``{report}`` in it is replaced by the path where a JUnit XML report is expected."""


Mode = Literal["work", "plan", "ask"]
"""What a run is for: a change, a plan of one, or the answer to a question."""


class RunSpec(Value):
    """Everything a run needs, and nothing that it could leak: no GitHub token, no provider key."""

    run_id: str
    task: Task
    git_dir: str
    """A bare repository that the sandbox can't write, holding ``base_sha`` and its tree."""
    base_sha: str
    rules_sha: str | None = None
    """The commit whose ``.graftsmith.toml`` counts, in ``git_dir`` too; ``base_sha`` when ``None``. For a pull request
    it is its base branch's: who proposes a change must not write the rules that it is judged by."""
    since_sha: str | None = None
    """Where a pull request left its base branch, in ``git_dir`` too: the model sees what it changes since."""
    view: str = "/workspace"
    """Where the checkout appears inside the sandbox. A local run uses the user's own path, so that editable installs
    and absolute shebangs resolve to the copy."""
    mode: Mode = "work"
    plan: Plan | None = None
    """To ``work``: the plan that was approved, carried out as it is. To ``plan``: an earlier one, made anew with what
    ``task.request`` says of it. With a ``change_set``: the one that it was made by."""
    kept: ChangeSet | None = None
    """Unfinished work of an earlier run on the same base, to go on from."""
    review: bool = False
    """An accepted change is read once more by the model before the run ends."""
    change_set: ChangeSet | None = None
    """A change that is there already: it is tested and proven, and no model is asked."""
    origin: str | None = None
    """The user's checkout on this machine (local runs only): the source of ignored files that tests need."""
    work_dir: str
    """A folder of this run for checkouts, logs and reports; removed by whoever made it."""
    cache_dir: str
    """A folder that outlives the run: index and set-up caches."""
    commands: Commands = Commands()
    """What a person asked for; the repository's own configuration fills what is empty."""
    search_path: str = "/usr/local/bin:/usr/bin:/bin"
    """The ``PATH`` on which programs of the target's toolchain are looked for."""
    registries: Mapping[str, str] = Field(default_factory=dict)
    """Settings of this machine's package clients for the set-up phase, without credentials (name → value)."""
    repository: str = "local"
    """A stable key: installed environments are never shared between two repositories."""
    budget: Budget = Budget()
    model: ModelEndpoint
    fallback: ModelEndpoint | None = None
    """Asked when ``model`` does not answer for long, is gone, or has no credit left."""
    prices: Mapping[str, Price] = Field(default_factory=dict)
    """Model → price, from the operator; empty: the table that ships."""
    embeddings: ModelEndpoint | None = None
    """Where code and issue are embedded, so that they are compared by meaning too; without it by words alone."""
    rerank: bool = False
    """One model call puts what was found into an order before the work begins."""
    seed: str
    """Secret of this run; fences around untrusted text are derived from it."""
    command_timeout_s: float = 900.0

    @property
    def secrets(self) -> tuple[str, ...]:
        """What no log may hold."""
        return (self.seed, *(endpoint.api_key for endpoint in self._endpoints.values()))

    @property
    def _endpoints(self) -> Mapping[str, ModelEndpoint]:
        named = {"model": self.model, "fallback": self.fallback, "embeddings": self.embeddings}
        return {name: endpoint for name, endpoint in named.items() if endpoint is not None}

    def without_key(self) -> RunSpec:
        """This spec as it may be kept: the keys are gone, the seed stays, since a replay needs it."""
        bare = {name: endpoint.model_copy(update={"api_key": ""}) for name, endpoint in self._endpoints.items()}
        return self.model_copy(update=bare)


# ── plan ─────────────────────────────────────────────────────────────────────────────────────────────────────────


class PlanStep(Value):
    """One step: what it achieves, where, after what, and how to see that it is done."""

    model_config = ConfigDict(coerce_numbers_to_str=True)  # models number their steps

    id: str
    objective: str
    files: tuple[str, ...] = ()
    """Existing files that the step reads or changes."""
    new_files: tuple[str, ...] = ()
    """Files that the step makes; they do not exist yet."""
    depends_on: tuple[str, ...] = ()
    done_when: str = ""
    test_changes: str = ""
    """Why the task asks for existing tests, or what configures them, among ``files`` to change, or for something among
    ``new_files`` that takes the place of a part of the runner; empty means that they may not."""


def _with_reason(step: Any, why: str) -> Any:
    return {**step, "test_changes": step.get("test_changes") or why} if isinstance(step, Mapping) else step


class Plan(Value):
    """What the model means to do. Text in it is the model's: data to show, never an order."""

    intent: Literal["bug_fix", "feature", "refactoring", "performance", "tests", "documentation", "question"]
    summary: str
    entities: tuple[str, ...] = ()
    steps: tuple[PlanStep, ...]
    tests: tuple[str, ...] = ()
    """Tests to add, one line each."""
    risks: tuple[str, ...] = ()
    alternatives: tuple[str, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _reason_in_the_steps(cls, data: Any) -> Any:
        """A reason that stands beside the steps, as in plans that were stored earlier, belongs to each of them."""
        if not isinstance(data, Mapping) or "test_changes" not in data:
            return data
        why, steps = data["test_changes"], data.get("steps")
        rest = {name: value for name, value in data.items() if name != "test_changes"}
        if not (isinstance(why, str) and why.strip() and isinstance(steps, list | tuple)):
            return rest
        return {**rest, "steps": [_with_reason(step, why) for step in steps]}


# ── evidence ─────────────────────────────────────────────────────────────────────────────────────────────────────


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


class TestRun(Value):
    """One execution of (part of) the target's tests, as the harness measured it."""

    __test__ = False

    command: tuple[str, ...]
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
    detail: str = ""
    """Why, in a sentence for a person, when the status is neither ok nor failing."""
    structured: bool = True
    """False when there is only an exit code: no test ids are known."""
    isolation: str = ""

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


class IntegrityFinding(Value):
    """A change that could make tests say less than before."""

    kind: str
    path: str
    detail: str
    hunk: str = ""
    excused: bool = False
    """The plan says why the task asks for it. A person has to acknowledge it all the same."""


class Finding(Value):
    """What a tool has against one line of the change, and had against nothing in the base."""

    path: str
    line: int
    """0 where the tool names none."""
    rule: str
    message: str

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
    silent: str = ""
    """Why it said nothing, when it is configured and did not run to its end."""

    @property
    def count(self) -> int:
        return len(self.found) + self.more


class Place(Value):
    """Lines of a file, from 1, both ends included."""

    path: str
    start: int
    end: int


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

    path: str
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
    path: str
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


class Evidence(Value):
    """What the harness measured. ``None`` means: that stage was not reached."""

    baseline: TestRun | None = None
    baseline_from: str = ""
    """When an earlier run on the same tree measured the baseline, in UTC; empty when this run did."""
    checks: tuple[Check, ...] = ()
    """What was looked at before any test ran, cheapest first."""
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
    reproduce: tuple[str, ...] = ()
    """Shell lines that a person can paste to see the same thing."""
    isolation: str = ""

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
        """All of a proof but the last part: whether the tests still say as much, a person may have to decide."""
        return (
            self.final is not None
            and self.final.status in (SuiteStatus.OK, SuiteStatus.FAILING)
            and self.comparison is not None
            and self.comparison.clean
            and bool(self.turned)
            and all(p.holds or p.guards for p in self.proof)
            and not self.complaints
        )


class Usage(Value):
    """What the model calls of a run took."""

    calls: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    dollars: float | None = None
    """``None`` when no price is known for the model: never shown as zero."""
    estimated: bool = False
    """True when at least one reply came without usable token counts."""
    embedded_tokens: int = 0
    """What was sent to an embedding model; part of the dollars, and of no other number here."""


class ReviewFinding(Value):
    """What the second reading of an accepted change found, in the model's words."""

    path: str
    line: int | None = Field(None, ge=1)
    """In the changed file."""
    severity: Literal["blocking", "remark"]
    problem: str
    advice: str = ""
    """What to do about it."""
    reworked: bool = False
    """It was handed back, and the change was reworked and measured again since."""


class FileReason(Value):
    """Why one file was changed, in the model's words."""

    path: str
    reason: str


class RunResult(Value):
    """The end of a run. Always written, also when the run went wrong."""

    run_id: str
    outcome: Outcome
    reason: str
    """What happened and why, for a person."""
    next_step: str = ""
    """What the person can do now."""
    summary: str = ""
    """The model's own account of the change, or its answer to a question."""
    places: tuple[Place, ...] = ()
    """What an answer refers to."""
    plan: Plan | None = None
    change_set: ChangeSet
    file_reasons: tuple[FileReason, ...] = ()
    evidence: Evidence = Evidence()
    review: tuple[ReviewFinding, ...] = ()
    """What a second reading of the accepted change found."""
    usage: Usage = Usage()
    seconds: Mapping[str, float] = Field(default_factory=dict)
    """Stage → seconds; ``START`` → what came before the first, from when its process was told what to do."""
    notes: tuple[str, ...] = ()
    """Facts that the reader should know: degraded isolation, skipped files, flaky tests."""
    prompt_version: str = ""
    our_fault: bool = False
    """True when Graftsmith itself went wrong: nothing that the reader did or can do caused it."""

    @property
    def proven(self) -> bool:
        """The change was accepted, and its evidence is whole. What was measured of a change that was not accepted, as
        when the model claims that nothing had to be changed, is told and counts for nothing."""
        return self.outcome is Outcome.PROPOSED and self.evidence.proven

    def measured_again(self, later: RunResult) -> RunResult:
        """This work as a later run, which asked no model, has measured it on another base."""
        fresh = ("outcome", "reason", "next_step", "our_fault", "change_set", "evidence")
        seconds = {stage: self.seconds.get(stage, 0.0) + later.seconds.get(stage, 0.0) for stage in later.seconds}
        notes = tuple(dict.fromkeys((*self.notes, *later.notes)))
        return self.model_copy(
            update={
                **{name: getattr(later, name) for name in fresh},
                "seconds": {**self.seconds, **seconds},
                "notes": notes,
            }
        )


Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{40,64}$")]
