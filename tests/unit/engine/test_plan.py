"""Plans that wait: made alone, resumed elsewhere, made anew."""

from __future__ import annotations

import json

from agent.record import read_result, read_spec
from tests.flow.world import EDIT, FINISH, WRITE, plan
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
    model = scripted(plan(), {"expect": "use a loop", **plan(summary="A loop.")})
    desk.graftsmith("run", "--task", "Count", "--plan-only", "--test-command", desk.test, model=model)
    (first,) = desk.runs
    ran = desk.graftsmith("run", "--resume", str(first), "--revise", "use a loop", "--json", model=model)
    assert json.loads(ran.out)["plan"]["summary"] == "A loop.", ran
    assert json.loads(ran.out)["outcome"] == "planned"


def test_wrong_uses_are_named(desk: Desk, scripted: MakeModel) -> None:
    model = scripted({"content": "An answer."})
    assert "--resume" in str(desk.graftsmith("run", "--revise", "x", model=model).error)
    assert "no folder of a run" in str(desk.graftsmith("run", "--resume", "nothing", model=model).error)
    assert "task is empty" in str(desk.graftsmith("run", model=model).error)
    desk.graftsmith("ask", "Why?", model=model)
    (folder,) = desk.runs
    assert "has no plan" in str(desk.graftsmith("run", "--resume", folder.name, model=model).error)
