"""Commands that the model runs, and those that the repository brings."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent.record import read_events
from tests.flow.world import EDIT, FINISH, WRITE, call, plan
from tests.unit.engine.conftest import Desk, MakeModel

TASK = ("run", "--task", "Count every item", "--no-apply", "--json")
CONFIG = """
[tools.style]
description = "The project's own style check."
command = "grep -n sum widget.py; echo checked > checked.txt"
"""


def ran(desk: Desk, model: str) -> dict[str, Any]:
    told = desk.graftsmith(*TASK, "--test-command", desk.test, model=model)
    result: dict[str, Any] = json.loads(told.out)
    return result


def test_a_command_sees_the_draft_and_changes_nothing(desk: Desk, scripted: MakeModel) -> None:
    line = "cat widget.py; echo x > widget.py; echo y > stray.py; seq 100000"
    model = scripted(
        plan(),
        {"tool_calls": [EDIT, call("run_command", command=line)]},
        {"expect": ["exit code 0", "sum(items)", "characters left out", "99999", "It changed widget.py in its copy"]}
        | {"tool_calls": [WRITE, FINISH]},
    )
    result = ran(desk, model)
    assert (result["outcome"], result["proven"]) == ("proposed", True)
    assert {change["path"] for change in result["change_set"]["changes"]} == {"widget.py", "test_total.py"}


def test_the_repositorys_own_commands_are_tools(desk: Desk, scripted: MakeModel) -> None:
    desk.repository.commit({".graftsmith.toml": CONFIG})
    model = scripted(
        plan(),
        {"tool_calls": [EDIT, WRITE, call("style")]},
        {"expect": ["exit code 0", "2:    return sum(items)"], "tool_calls": [FINISH]},
    )
    result = ran(desk, model)
    assert (result["outcome"], result["proven"]) == ("proposed", True)


def test_a_change_brings_no_tool(desk: Desk, scripted: MakeModel) -> None:
    write = call("write", path=".graftsmith.toml", content=CONFIG)
    model = scripted(
        plan(),
        {"tool_calls": [write, call("style")]},
        {"expect": "no tool 'style'", "tool_calls": [EDIT, WRITE, FINISH]},
    )
    assert ran(desk, model)["outcome"] == "proposed"


def test_no_tool_of_ours_is_replaced(desk: Desk, scripted: MakeModel) -> None:
    desk.repository.commit({".graftsmith.toml": CONFIG.replace("tools.style", "tools.finish")})
    result = ran(desk, scripted(plan()))
    assert result["outcome"] == "blocked"
    assert "has a tool 'finish'" in result["reason"]


def test_a_line_that_no_shell_can_take_is_answered(desk: Desk, scripted: MakeModel) -> None:
    model = scripted(
        plan(),
        {
            "tool_calls": [
                EDIT,
                WRITE,
                call("run_command", command="cat widget.py\0"),
                call("run_tests", tests=["a\0b"]),
            ]
        },
        {"expect": "", "tool_calls": [FINISH]},
    )
    result = ran(desk, model)
    assert (result["outcome"], result["proven"]) == ("proposed", True)
    told = [event["text"] for _, event in read_events(desk.runs[-1] / "events.jsonl") if event["kind"] == "tool_result"]
    assert "can't be started" in told[2] and "NUL" in told[2]
    assert "not_run" in told[3]


@pytest.mark.parametrize("done", [(), (EDIT, WRITE)])
def test_a_claim_that_is_not_shown_is_told_as_that_and_changes_no_file(
    desk: Desk, scripted: MakeModel, done: tuple[object, ...]
) -> None:
    claim = call("finish", claim="already_fixed", summary="Nothing to do.")
    model = scripted(plan(), {"tool_calls": [*done, claim]}, {"tool_calls": [claim]})
    task = ("run", "--task", "Count every item", "--json", "--test-command", desk.test)
    told = desk.graftsmith(*task, model=model, fix_rounds="1")
    result = json.loads(told.out)
    assert (told.code, result["outcome"], result["proven"], result["applied"]) == (1, "stuck", False, [])
    assert result["reason"].startswith("The model says that this is right already. It did not show that")
    assert desk.repository.git("status", "--short") == ""
