"""One run under way, as its stages share it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from agent import prompts
from agent.budget import Meter, room_of
from agent.context.semantic import Meaning
from agent.endings import Ending
from agent.events import EventLog
from agent.loop import Conversation
from agent.model.types import Model
from agent.tools import REGISTRY, Conclusion, Registry
from agent.tree import Draft
from agent.types import ChangeSet, Evidence, Place, Plan, ReviewFinding, RunResult, RunSpec, Stage


@dataclass
class Run:
    """What it works with, and what is known so far."""

    spec: RunSpec
    events: EventLog
    meter: Meter
    model: Model
    meaning: Meaning | None
    cancelled: Callable[[], bool]
    registry: Registry = field(default_factory=lambda: REGISTRY)
    """What the model may call: ours, and what the repository brings."""
    draft: Draft | None = None
    plan: Plan | None = None
    conclusion: Conclusion | None = None
    answer: str = ""
    places: tuple[Place, ...] = ()
    evidence: Evidence = field(default_factory=Evidence)
    review: list[ReviewFinding] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @contextmanager
    def stage(self, stage: Stage) -> Iterator[None]:
        """Names what goes on, and adds up how long it took."""
        self.events.stage = stage
        self.events.emit("stage", name=stage)
        started = time.monotonic()
        try:
            yield
        finally:
            self.seconds[stage] = round(self.seconds.get(stage, 0.0) + time.monotonic() - started, 3)

    def conversation(self) -> Conversation:
        """An empty one with the run's model."""
        room = room_of(self.spec.model, self.meter.prices)
        return Conversation(self.model, self.meter, self.events, room=room, seed=self.spec.seed)

    def result(self, ending: Ending) -> RunResult:
        conclusion = self.conclusion
        return RunResult(
            run_id=self.spec.run_id,
            outcome=ending.outcome,
            reason=ending.reason,
            next_step=ending.next_step,
            our_fault=ending.our_fault,
            summary=conclusion.summary if conclusion else self.answer,
            places=self.places,
            plan=self.plan,
            change_set=self.draft.change_set() if self.draft else ChangeSet(base_sha=self.spec.base_sha),
            file_reasons=conclusion.reasons if conclusion else (),
            evidence=self.evidence,
            review=tuple(self.review),
            usage=self.meter.usage,
            seconds=self.seconds,
            notes=(*self.notes, *(self.meaning.notes if self.meaning else ())),
            prompt_version=prompts.version(),
        )
