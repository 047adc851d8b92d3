"""Plans with several steps: marked one by one or not at all, checked, gone back to."""

from __future__ import annotations

import json
from typing import Any

from agent.record import read_events
from tests.flow.world import EDIT, FINISH, WRITE, call, plan
from tests.unit.engine.conftest import Desk, MakeModel

FIRST = {"id": "1", "objective": "Count every item", "files": ["widget.py"], "new_files": ["test_total.py"]}
SECOND = {"id": "2", "objective": "Triple, too", "new_files": ["test_triple.py"], "depends_on": ["1"]}
SECOND["done_when"] = "it is"
THIRD = {"id": "3", "objective": "Say so", "files": ["README.md"], "depends_on": ["2"]}
STEPS = [THIRD, FIRST, SECOND]
AFTER = {"path": "widget.py", "anchor": "    return number * 2"}
TRIPLE = call("insert", **AFTER, text="\n\ndef triple(number):\n    return number * 3")
TEST_TRIPLE = call(
    "write",
    path="test_triple.py",
    content="from widget import triple\n\n\ndef test_triple():\n    assert triple(2) == 6\n",
)
WRONG = call("insert", **AFTER, text="\n\ndef triple(number):\n    return 0")
README = call("write", path="README.md", content="# widget\n\nCounts and triples.\n")


def done(*tests: str) -> dict[str, Any]:
    return call("step_done", tests=list(tests))


def ran(desk: Desk, model: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The result, and the decisions about attempts."""
    task = ("run", "--task", "Count every item", "--no-apply", "--json", "--test-command", desk.test)
    told = desk.graftsmith(*task, model=model)
    assert told.out, told
    (folder,) = desk.runs
    events = [event for _, event in read_events(folder / "events.jsonl")]
    return json.loads(told.out), [e for e in events if e["kind"] == "decision" and "state" in e]


def contents(result: dict[str, Any]) -> set[str]:
    return {change["path"] for change in result["change_set"]["changes"]}


def test_steps_are_done_in_their_order(desk: Desk, scripted: MakeModel) -> None:
    model = scripted(
        plan(steps=STEPS),
        {"expect": "Begin with step 1 (the order is 1, 2, 3)", "tool_calls": [EDIT, WRITE, done("test_total.py")]},
        {"expect": "step 2: Triple, too; done when it is", "tool_calls": [TRIPLE, TEST_TRIPLE, done()]},
        {"expect": "It is the last", "tool_calls": [README, FINISH]},
    )
    result, decisions = ran(desk, model)
    assert (result["outcome"], result["proven"], result["usage"]["calls"]) == ("proposed", True, 4)
    assert [(d["step"], d["event"], d["state"]) for d in decisions] == [
        ("1", "step done", "plan"),
        ("2", "step done", "plan"),
        (None, "accepted", "done"),
    ]


def test_the_first_step_may_be_done_with_the_plan(desk: Desk, scripted: MakeModel) -> None:
    told = json.loads(plan(steps=STEPS)["content"])
    model = scripted(
        {"tool_calls": [call("plan", **told), EDIT, WRITE, done("test_total.py")]},
        {"expect": "step 2: Triple, too", "tool_calls": [TRIPLE, TEST_TRIPLE, README, FINISH]},
    )
    result, decisions = ran(desk, model)
    assert (result["outcome"], result["proven"], result["usage"]["calls"]) == ("proposed", True, 2)
    assert [d["event"] for d in decisions] == ["step done", "accepted"]


def test_who_can_do_all_at_once_marks_nothing(desk: Desk, scripted: MakeModel) -> None:
    model = scripted(plan(steps=STEPS), {"tool_calls": [EDIT, WRITE, TRIPLE, TEST_TRIPLE, README, FINISH]})
    result, _ = ran(desk, model)
    assert (result["outcome"], result["proven"], result["usage"]["calls"]) == ("proposed", True, 2)


def test_a_step_that_is_not_done_is_tried_again_with_what_was_learnt(desk: Desk, scripted: MakeModel) -> None:
    model = scripted(
        plan(steps=STEPS),
        {"tool_calls": [EDIT, WRITE, done()]},
        {"tool_calls": [WRONG, TEST_TRIPLE, done("test_triple.py")]},
        {"expect": ["3 more tries", "test_triple.py::test_triple` fails", "call `step_done` again"]}
        | {"tool_calls": [call("edit", path="widget.py", search="return 0", replace="return number * 3"), done()]},
        {"expect": "It is the last", "tool_calls": [README, FINISH]},
    )
    result, decisions = ran(desk, model)
    assert (result["outcome"], result["proven"]) == ("proposed", True)
    assert [d["event"] for d in decisions] == ["step done", "rejected", "step done", "accepted"]


def test_two_failures_of_a_step_take_the_other_way_from_before_it(desk: Desk, scripted: MakeModel) -> None:
    model = scripted(
        plan(steps=STEPS, alternatives=["Multiply"]),
        {"tool_calls": [EDIT, WRITE, done("test_total.py")]},
        {"tool_calls": [WRONG, done()]},
        {"expect": "makes test_triple.py, and it is not there", "tool_calls": [TEST_TRIPLE, done("test_triple.py")]},
        {"expect": ["for the second time", "before step 2 began", "new tests, which stay: test_triple.py", "Multiply"]}
        | {"tool_calls": [call("diff")]},
        {"expect": "sum(items)", "tool_calls": [TRIPLE, done("test_triple.py")]},
        {"expect": "It is the last", "tool_calls": [README, FINISH]},
    )
    result, decisions = ran(desk, model)
    assert (result["outcome"], result["proven"]) == ("proposed", True)
    assert [d["state"] for d in decisions] == ["plan", "plan", "alternative", "alternative", "done"]
    (folder,) = desk.runs
    assert "return 0" not in (folder / "change.patch").read_text()


def test_stuck_in_a_step_keeps_what_was_done_before_it(desk: Desk, scripted: MakeModel) -> None:
    model = scripted(
        plan(steps=STEPS, alternatives=["Multiply"]),
        {"tool_calls": [EDIT, WRITE, done("test_total.py")]},
        *[{"tool_calls": [call("write", path="a.txt", content=f"{n}\n"), done()]} for n in range(4)],
    )
    result, decisions = ran(desk, model)
    assert result["outcome"] == "stuck"
    assert "test_triple.py" in result["reason"]
    assert contents(result) == {"widget.py", "test_total.py"}
    assert [d["state"] for d in decisions][-2:] == ["alternative", "stuck"]


def test_a_run_that_breaks_off_in_a_step_keeps_the_latest(desk: Desk, scripted: MakeModel, monkeypatch: Any) -> None:
    monkeypatch.setenv("GRAFTSMITH_MAX_STEPS", "3")
    half = {"tool_calls": [TRIPLE]}
    result, _ = ran(desk, scripted(plan(steps=STEPS), {"tool_calls": [EDIT, WRITE, done()]}, half, half))
    assert result["outcome"] == "budget_reached"
    (folder,) = desk.runs
    assert "triple" in (folder / "change.patch").read_text()


def test_undo_opens_steps_again(desk: Desk, scripted: MakeModel) -> None:
    model = scripted(
        plan(steps=STEPS),
        {"tool_calls": [WRITE, done()]},
        {"tool_calls": [TEST_TRIPLE, call("undo", step="1"), call("diff")]},
        {"expect": "Nothing is changed", "tool_calls": [EDIT, WRITE, done("test_total.py")]},
        {"expect": "Next is step 2", "tool_calls": [TRIPLE, TEST_TRIPLE, README, FINISH]},
    )
    result, _ = ran(desk, model)
    assert (result["outcome"], result["proven"]) == ("proposed", True)
