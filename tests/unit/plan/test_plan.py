"""What makes a plan sound."""

from __future__ import annotations

from typing import Any

import pytest

from agent import plan as plans
from agent.errors import UserError
from agent.types import Plan, PlanStep

EXISTING = frozenset({"src/a.py", "tests/test_a.py"})


def step(name: str, **more: Any) -> PlanStep:
    return PlanStep.model_validate({"id": name, "objective": "x", **more})


def plan(*steps: PlanStep, intent: str = "bug_fix") -> Plan:
    return Plan.model_validate({"intent": intent, "summary": "s", "steps": steps})


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (plan(), "no step"),
        (plan(*(step(str(n)) for n in range(plans.MAX_STEPS + 1))), "at most 20"),
        (plan(step("1"), step("1")), "ids must differ"),
        (plan(step("1", files=["src/b.py"])), "no such file"),
        (plan(step("1", new_files=["src/a.py"])), "it exists"),
        (plan(step("1", depends_on=["2"])), "which is no step"),
        (plan(step("1", depends_on=["2"]), step("2", depends_on=["1"])), "in a circle"),
        (plan(step("1", depends_on=["1"])), "in a circle"),
    ],
)
def test_what_is_wrong_is_said(bad: Plan, says: str) -> None:
    (problem,) = plans.problems(bad, EXISTING)
    assert says in problem


def test_a_sound_plan() -> None:
    sound = plan(step("2", files=["src/a.py"], depends_on=["1"]), step("1", new_files=["tests/test_b.py"]))
    assert plans.problems(sound, EXISTING) == ()
    assert [one.id for one in plans.order(sound)] == ["1", "2"]
    assert plans.problems(plan(intent="question"), EXISTING) == ()


def test_steps_may_be_numbered() -> None:
    assert PlanStep.model_validate({"id": 2, "objective": "x", "depends_on": [1]}).depends_on == ("1",)


def test_a_plan_in_other_words_is_one() -> None:
    said = {"intent": "fix", "summary": "s", "steps": ["Count", {"objective": "Tell", "files": ["src/a.py"]}]}
    found = Plan.model_validate(said)
    assert found.intent == "bug_fix"
    assert [(one.id, one.objective) for one in found.steps] == [("1", "Count"), ("2", "Tell")]


def test_a_plan_for_other_files_is_refused() -> None:
    plans.check(plan(step("1")), EXISTING)
    with pytest.raises(UserError, match="does not fit"):
        plans.check(plan(step("1", files=["gone.py"])), EXISTING)


def test_a_reason_beside_the_steps_belongs_to_each_of_them() -> None:
    stored = {
        "intent": "bug_fix",
        "summary": "s",
        "test_changes": "it is asked for",
        "steps": [{"id": "1", "objective": "o", "files": ["a"]}, {"id": "2", "objective": "o", "test_changes": "mine"}],
    }
    assert [step.test_changes for step in Plan.model_validate(stored).steps] == ["it is asked for", "mine"]
    assert [step.test_changes for step in Plan.model_validate({**stored, "test_changes": ""}).steps] == ["", "mine"]
