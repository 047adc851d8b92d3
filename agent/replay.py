"""A recorded run once more, without any endpoint: the same code on the same base, answered by the record."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent import pipeline
from agent.ask import Asker
from agent.context.semantic import RecordedMeaning
from agent.events import Listener
from agent.model.recorded import Divergence, RecordedModel
from agent.types import RunResult, RunSpec


@dataclass(frozen=True)
class Replay:
    """What came of it."""

    result: RunResult
    calls: int
    """Model calls that the replay made."""
    divergences: tuple[Divergence, ...]
    """Requests that differ from the recorded ones, in order. Those after the first one mostly follow from it."""
    unused: int
    """Recorded calls that the replay had no use for."""
    outcome: str
    """How the recorded run ended; empty when its log breaks off before."""

    @property
    def same(self) -> bool:
        return not self.divergences and not self.unused and self.outcome in ("", self.result.outcome.value)


def replay(
    spec: RunSpec,
    events: Iterable[Mapping[str, Any]],
    *,
    event_file: Path,
    listeners: tuple[Listener, ...],
    cancelled: Callable[[], bool],
) -> Replay:
    """Carry ``spec`` out again.

    Args:
        spec: as it was stored, its folders changed to some that are there.
        events: the recorded log, decoded.
        event_file: the replay's own log.

    Raises:
        OperatorError: no sandbox starts here.
    """
    recorded = tuple(events)
    models: list[RecordedModel] = []

    def make_model(meter: Any, _: object, __: object) -> RecordedModel:
        models.append(RecordedModel(recorded, meter=meter))
        return models[0]

    questions = iter([str(event["text"]) for event in recorded if event.get("kind") == "question"])
    result = pipeline.run(
        spec,
        make_model=make_model,
        make_meaning=lambda spec, _, __: RecordedMeaning(recorded) if spec.embeddings else None,
        event_file=event_file,
        listeners=listeners,
        cancelled=cancelled,
        asker=Asker(more=lambda answer: next(questions, "")),
    )
    (model,) = models
    outcomes = [str(event["outcome"]) for event in recorded if event.get("kind") == "decision" and "outcome" in event]
    return Replay(result, model.used, tuple(model.divergences), model.unused, outcomes[-1] if outcomes else "")
