"""How a run went and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, Literal

from pydantic import Field

from agent.types.base import Told, Value
from agent.types.change import ChangeSet
from agent.types.evidence import Evidence, Place
from agent.types.plan import Plan


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


class CallUsage(Value):
    """What one model call took, in tokens."""

    model: str
    input_tokens: int = 0
    """All input, cached or not."""
    cached_tokens: int = 0
    """The part of the input that the provider had in its prompt cache."""
    output_tokens: int = 0
    """All output, reasoning included."""
    estimated: bool = False
    """True when a count above is ours, because the endpoint gave none that can be used."""
    embedding: bool = False
    """Text was embedded: it costs money, but it is no step of a run and none of its conversation."""


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

    @property
    def place(self) -> str:
        return self.path if self.line is None else f"{self.path}:{self.line}"


class FileReason(Value):
    """Why one file was changed, in the model's words."""

    path: str
    reason: str


class RunResult(Value):
    """The end of a run. Always written, also when the run went wrong."""

    run_id: str
    outcome: Outcome
    reason: Told
    """What happened and why, for a person."""
    next_step: Told = ""
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
    notes: tuple[Told, ...] = ()
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
