"""A run's events, folded into what the status comment shows."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from agent.types import Stage, SuiteStatus
from app.report import Progress, StageState, words


class Watch:
    """Sees the events of a run and knows where it is.

    ``see`` may be called from another thread than the readers of ``progress``: each event replaces one immutable value.

    Args:
        began: when the job was taken up, in seconds since the epoch.
    """

    def __init__(self, began: float) -> None:
        self._began = began
        self._entered_at = began
        self._progress = Progress()

    @property
    def progress(self) -> Progress:
        return replace(self._progress, elapsed_s=time.time() - self._began)

    def see(self, event: Mapping[str, Any]) -> None:
        """Take in one line of the run's log; kinds that say nothing to a reader change nothing."""
        match event.get("kind"):
            case "stage":
                self._enter(Stage(event["name"]), float(event["at"]))
            case "waits":
                self._now(f"waiting for {event['what']}")
            case "check" if event["found"]:
                self._note(f"{event['tool']}: {len(event['found']) + event['more']} new")
            case "test_run" if event.get("name") not in words.PARTS:
                run = event["run"]
                counts = f"{run['passed']} passed, {words.failures(run)} failed"
                self._note(counts if run["passed"] or run["failed"] else words.SUITE[SuiteStatus(run["status"])])
            case "tool_result":
                self._now(f"{event['name']}{'' if event['ok'] else ' (refused)'}")
            case "decision" if event.get("part"):
                self._note(f"{event['part']}: {'done' if event['accepted'] else 'to repair'}")
            case "decision" if event.get("problems"):
                self._note(f"{len(event['problems'])} to repair")

    def close(self) -> Progress:
        """The run is over: no stage is running any more."""
        self._progress = replace(self._progress, stages=self._settled(time.time()), now="")
        return self.progress

    def _enter(self, stage: Stage, at: float) -> None:
        """A stage that comes again goes on where it was; what was said of it then counts no more."""
        settled = self._settled(at)
        again = next((state for state in settled if state.stage is stage), StageState(stage, "running"))
        others = tuple(state for state in settled if state.stage is not stage)
        self._entered_at = at
        self._progress = replace(self._progress, stages=(*others, replace(again, state="running", note="")), now="")

    def _settled(self, at: float) -> tuple[StageState, ...]:
        spent = max(0.0, at - self._entered_at)
        return tuple(
            replace(state, state="done", seconds=round((state.seconds or 0.0) + spent, 1))
            if state.state == "running"
            else state
            for state in self._progress.stages
        )

    def _note(self, note: str) -> None:
        stages = tuple(replace(s, note=note) if s.state == "running" else s for s in self._progress.stages)
        self._progress = replace(self._progress, stages=stages)

    def _now(self, what: str) -> None:
        self._progress = replace(self._progress, now=what)
