"""Plans that wait: made alone, resumed elsewhere, made anew."""

from __future__ import annotations

import json

import pytest

from agent.record import read_result, read_spec
from tests.flow.world import EDIT, FINISH, WRITE, call, plan
from tests.unit.engine.conftest import Desk, MakeModel


def test_a_plan_is_made_kept_and_carried_out_on_its_commit(desk: Desk, scripted: MakeModel) -> None:
    model = scripted(plan(), {"tool_calls": [EDIT, WRITE, FINISH]})
    ran = desk.graftsmith("run", "--task", "Count", "--plan-only", "--test-command", desk.test, model=model)
    assert ran.code == 0, (ran.err, ran.error)
    assert "Count every item" in ran.out
    (folder,) = desk.runs
    planned = read_result(folder)
    assert planned is not None
    assert (planned.outcome.value, planned.usage.calls, planned.change_set.changes) == ("planned", 1, ())
    assert f"--resume {folder.name}" in ran.out

    base = read_spec(folder).base_sha
    desk.repository.commit({"later.py": "x = 1\n"})
    ran = desk.graftsmith("run", "--resume", folder.name, "--json", model=model)
    done = json.loads(ran.out)
    assert (ran.code, done["outcome"], done["usage"]["calls"]) == (0, "proposed", 1)
    assert done["change_set"]["base_sha"] == base
    assert done["plan"] == planned.plan.model_dump(mode="json") if planned.plan else False
    assert set(done["applied"]) == {"widget.py", "test_total.py"}


def test_a_plan_is_made_anew_with_a_remark(desk: Desk, scripted: MakeModel) -> None:
    code = "    for item in items:"  # the first line of the body keeps its place
    model = scripted(plan(), {"expect": "use a loop", **plan(summary="A loop.")})
    desk.graftsmith("run", "--task", f"Count\n\n{code}\n", "--plan-only", "--test-command", desk.test, model=model)
    (first,) = desk.runs
    assert f"Count\\n\\n{code}" in (first / "events.jsonl").read_text()
    ran = desk.graftsmith("run", "--resume", str(first), "--revise", "use a loop", "--json", model=model)
    assert json.loads(ran.out)["plan"]["summary"] == "A loop.", ran
    assert json.loads(ran.out)["outcome"] == "planned"


def test_work_that_was_broken_off_is_gone_on_with(
    desk: Desk, scripted: MakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    half = {"tool_calls": [EDIT]}
    monkeypatch.setenv("GRAFTSMITH_MAX_STEPS", "2")
    task = ("run", "--task", "Count", "--json", "--test-command", desk.test)
    ran = desk.graftsmith(*task, model=scripted(plan(), half))
    assert json.loads(ran.out)["outcome"] == "budget_reached"
    (folder,) = desk.runs

    monkeypatch.setenv("GRAFTSMITH_MAX_STEPS", "10")
    # The recalled plan counts as the first reply.
    model = scripted({}, {"tool_calls": [call("diff"), WRITE, FINISH]})
    ran = desk.graftsmith("run", "--resume", folder.name, "--json", model=model)
    done = json.loads(ran.out)
    assert (done["outcome"], done["proven"], done["usage"]["calls"]) == ("proposed", True, 1), ran
    log = (desk.runs[-1] / "events.jsonl").read_text()
    assert "stopped before its end" in log
    assert desk.graftsmith("replay", str(desk.runs[-1])).code == 0


def test_wrong_uses_are_named(desk: Desk, scripted: MakeModel) -> None:
    model = scripted({"content": "An answer."})
    assert "--resume" in str(desk.graftsmith("run", "--revise", "x", model=model).error)
    assert "No run is named" in str(desk.graftsmith("run", "--resume", "", model=model).error)
    assert "no folder of a run" in str(desk.graftsmith("run", "--resume", "nothing", model=model).error)
    assert "task is empty" in str(desk.graftsmith("run", model=model).error)
    desk.graftsmith("ask", "Why?", model=model)
    (folder,) = desk.runs
    assert "has no plan" in str(desk.graftsmith("run", "--resume", folder.name, model=model).error)
