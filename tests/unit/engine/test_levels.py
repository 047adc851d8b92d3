"""A change is looked at level by level, and what a cheap level finds goes back before a test is paid for."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from agent.record import read_events
from agent.types import Evidence
from app.commands import display
from app.terminal import Terminal
from tests.flow.world import EDIT, FINISH, WRITE, call, plan
from tests.unit.engine.conftest import Desk, MakeModel
from tests.unit.verify.test_static import FLAKE8

PRINT = call("edit", path="widget.py", edits=[{"search": "def double", "replace": "print(1)\n\n\ndef double"}])
CLEAN = call("edit", path="widget.py", edits=[{"search": "print(1)\n\n\n", "replace": ""}])
BROKEN = call("edit", path="tool.go", edits=[{"search": "func f() {}", "replace": "func f() {"}])
WHOLE = call("edit", path="tool.go", edits=[{"search": "func f() {", "replace": "func f() { f() }"}])


FLIPS = """import sys


def test_flips():
    assert "test_total" in sys.modules  # of a new file beside it: only where all are collected
"""


def test_what_failed_before_and_passes_once_is_no_repair_and_no_fault(desk: Desk, scripted: MakeModel) -> None:
    desk.repository.commit({"test_zflips.py": FLIPS})
    _, done, _ = ran(desk, scripted(plan(), {"tool_calls": [EDIT, WRITE, FINISH]}))
    evidence = Evidence.model_validate(done["evidence"])
    assert evidence.comparison is not None
    assert (done["outcome"], done["proven"]) == ("proposed", True), done["reason"]
    assert evidence.comparison.flaky == ("test_zflips.py::test_flips",)
    assert "test_zflips.py::test_flips" not in {one.test for one in evidence.proof}


@pytest.fixture
def linted(desk: Desk) -> Desk:
    desk.repository.commit({".flake8": "[flake8]\n", "flake8.py": FLAKE8, "tool.go": "package a\n\nfunc f() {}\n"})
    return desk


def ran(desk: Desk, model: str) -> tuple[str, dict[str, Any], list[dict[str, Any]]]:
    """(what the terminal said, the result, its events)."""
    task = ("run", "--task", "Count every item", "--no-apply", "--json", "--test-command", desk.test)
    done = desk.graftsmith(*task, model=model)
    assert done.out, done
    events = [event for _, event in read_events(desk.runs[-1] / "events.jsonl")]
    return done.err, json.loads(done.out), events


def suites(events: list[dict[str, Any]]) -> int:
    return sum(event["kind"] == "test_run" and event["name"] == "final" for event in events)


@pytest.mark.parametrize(
    ("wrong", "told", "right"),
    [
        (PRINT, "widget.py:5: no print on line 5 (flake8 W1)", CLEAN),
        (BROKEN, "tool.go:3: this is no valid go any more (syntax)", WHOLE),
    ],
)
def test_a_finding_goes_back_before_the_suite_is_run(
    linted: Desk, scripted: MakeModel, wrong: dict[str, Any], told: str, right: dict[str, Any]
) -> None:
    insist = {"expect": "would no longer parse. line 3", "tool_calls": [wrong, FINISH]}
    begin = (
        [{"tool_calls": [EDIT, WRITE, wrong]}, insist]
        if wrong is BROKEN
        else [{"tool_calls": [EDIT, WRITE, wrong, FINISH]}]
    )
    steps = (*begin, {"expect": told, "tool_calls": [right, FINISH]})
    said, done, events = ran(linted, scripted(plan(), *steps))
    assert (done["outcome"], done["proven"], suites(events)) == ("proposed", True, 1)
    assert "1 new finding(s)" in said
    assert (done["evidence"]["coverage"]["ran"], done["evidence"]["coverage"]["lines"]) == (1, 1)
    (found, *_) = [event for event in events if event["kind"] == "check" and event["found"]]
    assert found["level"] == ("static" if wrong is PRINT else "syntax")


def test_findings_are_no_sign_of_a_wrong_way(linted: Desk, scripted: MakeModel) -> None:
    """Two in a row leave the work as it is, where two failures of tests would begin it anew."""
    insist = {"expect": "no print", "tool_calls": [FINISH]}
    steps = ({"tool_calls": [EDIT, WRITE, PRINT, FINISH]}, insist, {"tool_calls": [CLEAN, FINISH]})
    _, done, events = ran(linted, scripted(plan(alternatives=["Sum a copy"]), *steps))
    assert (done["outcome"], done["proven"]) == ("proposed", True)
    assert [e["state"] for e in events if e["kind"] == "decision" and "state" in e] == ["plan", "plan", "done"]


def test_with_no_round_left_the_change_is_tested_and_is_not_ready(linted: Desk, scripted: MakeModel) -> None:
    insist = {"expect": "no print", "tool_calls": [FINISH]}
    first = {"tool_calls": [EDIT, WRITE, PRINT, FINISH]}
    _, done, events = ran(linted, scripted(plan(), first, insist, insist, insist))
    assert (done["outcome"], done["proven"], suites(events)) == ("proposed", False, 1)
    assert "New findings of flake8 are left" in done["reason"]
    assert done["evidence"]["final"]["status"] == "ok" and done["evidence"]["checks"][1]["found"][0]["line"] == 5
    console = Terminal(file=io.StringIO(), record=True, width=200)
    display.evidence(console, Evidence.model_validate(done["evidence"]))
    assert "flake8: widget.py:5: W1 no print on line 5" in console.export_text()


def test_tests_that_would_see_a_release_say_nothing_of_the_checkout(desk: Desk, scripted: MakeModel) -> None:
    """What has pytest has `packaging`; where no other environment can be had, there is nothing to go by."""
    desk.repository.commit(
        {
            "src/packaging/__init__.py": "",
            ".graftsmith.toml": '[commands]\nsetup = ["echo no such thing >&2; exit 3"]\n',
        }
    )
    _, done, events = ran(desk, scripted())
    assert done["outcome"] == "blocked" and done["usage"]["calls"] == 0
    assert "in place of this checkout" in done["reason"] and "no such thing" in done["reason"]
    assert "pip install -e ." in done["next_step"] and suites(events) == 0
