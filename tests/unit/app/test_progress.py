"""What the status comment shows of a run under way."""

from __future__ import annotations

import time
from typing import Any

from agent.types import Stage
from app.progress import Watch


def stage(name: Stage, at: float) -> dict[str, Any]:
    return {"kind": "stage", "name": name.value, "at": at}


def test_a_stage_is_done_when_the_next_begins() -> None:
    watch = Watch(began=100.0)
    watch.see(stage(Stage.PREPARE, 100.0))
    watch.see(stage(Stage.BASELINE, 102.5))
    first, second = watch.progress.stages
    assert (first.stage, first.state, first.seconds) == (Stage.PREPARE, "done", 2.5)
    assert (second.stage, second.state) == (Stage.BASELINE, "running")


def test_a_stage_that_comes_again_adds_up_and_stands_last() -> None:
    watch = Watch(began=0.0)
    for name, at in ((Stage.WORK, 0.0), (Stage.VERIFY, 2.0)):
        watch.see(stage(name, at))
    watch.see({"kind": "decision", "accepted": False, "problems": ["a", "b"]})
    assert watch.progress.stages[-1].note == "2 to repair"
    for name, at in ((Stage.WORK, 5.0), (Stage.VERIFY, 6.0)):
        watch.see(stage(name, at))
    work, verify = watch.progress.stages
    assert (work.stage, work.seconds) == (Stage.WORK, 3.0)
    assert (verify.stage, verify.state, verify.seconds, verify.note) == (Stage.VERIFY, "running", 3.0, "")


def test_tests_and_tools_are_told() -> None:
    watch = Watch(began=0.0)
    watch.see(stage(Stage.VERIFY, 0.0))
    watch.see({"kind": "test_run", "run": {"status": "failing", "passed": 12, "failed": ["a", "b"], "more": 40}})
    watch.see({"kind": "tool_result", "name": "edit", "ok": False})
    assert watch.progress.stages[0].note == "12 passed, 42 failed"
    watch.see({"kind": "test_run", "run": {"status": "not_run", "passed": 0, "failed": [], "more": 0}})
    assert watch.progress.stages[0].note == "the tests could not run"
    assert watch.progress.now == "edit (refused)"


def test_steps_are_told() -> None:
    watch = Watch(began=0.0)
    watch.see(stage(Stage.WORK, 0.0))
    watch.see({"kind": "decision", "accepted": True, "problems": [], "part": "step 1 of 3"})
    assert watch.progress.stages[0].note == "step 1 of 3: done"
    watch.see({"kind": "decision", "accepted": False, "problems": ["x"], "part": "step 2 of 3"})
    assert watch.progress.stages[0].note == "step 2 of 3: to repair"


def test_unknown_events_change_nothing() -> None:
    watch = Watch(began=time.time())
    before = watch.progress.stages
    watch.see({"kind": "something new"})
    watch.see({})
    assert watch.progress.stages == before


def test_nothing_runs_after_the_end() -> None:
    watch = Watch(began=0.0)
    watch.see(stage(Stage.WORK, time.time()))
    assert [state.state for state in watch.close().stages] == ["done"]


def test_what_a_run_waits_for_is_told_until_it_begins() -> None:
    watch = Watch(began=0.0)
    watch.see({"kind": "waits", "what": "a machine"})
    assert watch.progress.now == "waiting for a machine"
    watch.see(stage(Stage.PREPARE, 1.0))
    assert watch.progress.now == ""
