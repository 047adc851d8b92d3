"""The second reading of an accepted change, and the other way after two failures."""

from __future__ import annotations

import json
from typing import Any

from agent.record import read_events
from tests.flow.world import EDIT, FINISH, WRITE, call, plan
from tests.unit.engine.conftest import Desk, MakeModel, Ran

WORK = {"tool_calls": [EDIT, WRITE, FINISH]}
REMARK = {"path": "widget.py", "line": 2, "severity": "remark", "problem": "An empty list is not tested."}
BLOCKING = {"path": "widget.py", "line": 99, "severity": "blocking", "problem": "It says nothing of floats."}
DOC = call("edit", path="widget.py", edits=[{"search": "def double", "replace": "# floats too\ndef double"}])
BREAK = call("edit", path="widget.py", edits=[{"search": "number * 2", "replace": "number * 3"}])
NO = call("finish", claim="no_change", summary="Floats work already.")


def found(*findings: dict[str, Any]) -> dict[str, Any]:
    return {"content": json.dumps({"findings": findings})}


def ran(desk: Desk, model: str) -> tuple[Ran, dict[str, Any]]:
    task = ("run", "--task", "Count every item", "--no-apply", "--json", "--test-command", desk.test)
    done = desk.graftsmith(*task, model=model, review=True)
    assert done.out, done
    return done, json.loads(done.out)


def test_remarks_are_told_and_cost_one_call(desk: Desk, scripted: MakeModel) -> None:
    _, done = ran(desk, scripted(plan(), WORK, review=(found(REMARK),)))
    assert (done["outcome"], done["proven"], done["usage"]["calls"]) == ("proposed", True, 3)
    assert [(f["problem"], f["reworked"]) for f in done["review"]] == [(REMARK["problem"], False)]


def test_what_must_not_stay_is_reworked_once(desk: Desk, scripted: MakeModel) -> None:
    steps = (plan(), WORK, {"expect": "nothing of floats", "tool_calls": [DOC, FINISH]})
    _, done = ran(desk, scripted(*steps, review=(found(*[REMARK] * 13, BLOCKING),)))
    assert (done["outcome"], done["usage"]["calls"]) == ("proposed", 4)
    finding, *remarks = done["review"]
    assert (finding["reworked"], finding["line"]) == (True, None), "the file has no line 99"
    assert (len(remarks), any(remark["reworked"] for remark in remarks)) == (11, False), "remarks were not handed back"
    assert any("2 findings more" in note for note in done["notes"])
    (folder,) = desk.runs
    assert "floats too" in (folder / "change.patch").read_text()


def test_a_rework_that_fails_leaves_the_accepted_change(desk: Desk, scripted: MakeModel) -> None:
    _, done = ran(desk, scripted(plan(), WORK, {"tool_calls": [BREAK, FINISH]}, review=(found(BLOCKING),)))
    assert (done["outcome"], done["proven"]) == ("proposed", True)
    assert not done["review"][0]["reworked"]
    (folder,) = desk.runs
    assert "number * 3" not in (folder / "change.patch").read_text()


def test_findings_can_be_turned_down_with_a_reason(desk: Desk, scripted: MakeModel) -> None:
    _, done = ran(desk, scripted(plan(), WORK, {"tool_calls": [NO]}, review=(found(BLOCKING),)))
    assert (done["outcome"], done["proven"]) == ("proposed", True)
    assert any("turned down: Floats work already." in note for note in done["notes"])


def test_a_review_that_fails_costs_no_change(desk: Desk, scripted: MakeModel) -> None:
    _, done = ran(desk, scripted(plan(), WORK, review=({"content": "Looks good!"}, {"content": "Still good!"})))
    assert (done["outcome"], done["proven"]) == ("proposed", True)
    assert any(note.startswith("The model did not review the change") for note in done["notes"])


def test_two_failures_switch_to_the_other_way_from_the_beginning(desk: Desk, scripted: MakeModel) -> None:
    wrong = {"tool_calls": [BREAK, FINISH]}
    insist = {"expect": "Not accepted", "tool_calls": [FINISH]}
    right = {"expect": ["for the second time", "Sum a copy"], "tool_calls": [EDIT, WRITE, FINISH]}
    _, done = ran(desk, scripted(plan(alternatives=["Sum a copy"]), wrong, insist, right, review=(found(),)))
    assert (done["outcome"], done["proven"]) == ("proposed", True)
    (folder,) = desk.runs
    assert "number * 3" not in (folder / "change.patch").read_text()
    states = [e["state"] for _, e in read_events(folder / "events.jsonl") if e["kind"] == "decision" and "state" in e]
    assert states == ["plan", "alternative", "done"]
