"""How a plan is asked for: as a tool or as text, with the work in the same reply or before it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent import planning
from agent.ask import REGISTRY as LOOKING
from agent.model.errors import InvalidOutput
from agent.plan import leave
from agent.tools import REGISTRY, Claim, ToolContext
from agent.types import Plan, PlanStep
from tests.unit.loop.conftest import Converse, answers, call, concluded, reply, said
from tests.unit.loop.test_loop import DONE, FIX

STEP = {"id": 1, "objective": "Add instead of subtracting", "files": ["src/calc.py"]}
PLANNED: dict[str, Any] = {"intent": "bug_fix", "summary": "The sign is wrong.", "steps": [STEP]}
PLAN = call("plan", **PLANNED)
MISPLACED = call("plan", **{**PLANNED, "steps": [{**STEP, "files": ["src/nowhere.py"]}]})


@pytest.fixture
def first(context: ToolContext) -> ToolContext:
    context.plan_first = True
    return context


def test_a_small_task_takes_one_reply(converse: Converse, first: ToolContext) -> None:
    conversation = converse(reply(PLAN, FIX, DONE))
    finished = planning.make(conversation, REGISTRY, first)
    assert finished is not None
    assert first.plan is not None
    assert (first.plan.summary, first.plan.steps[0].id) == ("The sign is wrong.", "1")
    assert b"a + b" in first.draft.read("src/calc.py")
    assert conversation.meter.usage.calls == 1


def test_it_may_look_before_it_plans(converse: Converse, first: ToolContext) -> None:
    conversation = converse(reply(call("read", path="README.md")), reply(PLAN))
    assert planning.make(conversation, REGISTRY, first) is None
    assert first.plan is not None
    assert answers(conversation)[-1].startswith("Accepted")


def test_a_plan_may_come_as_text(converse: Converse, first: ToolContext) -> None:
    conversation = converse({"content": f"Here it is:\n```json\n{json.dumps(PLANNED)}\n```"})
    assert planning.make(conversation, REGISTRY, first) is None
    assert first.plan is not None


def test_a_plan_that_can_not_be_carried_out_is_corrected(converse: Converse, first: ToolContext) -> None:
    conversation = converse(reply(MISPLACED, FIX, DONE), reply(PLAN, DONE))
    assert planning.make(conversation, REGISTRY, first) is not None
    refused, made, not_finished, accepted = answers(conversation)
    assert "'src/nowhere.py'" in refused
    assert "Call plan again" in refused
    assert made.startswith("src/calc.py changed")
    assert not_finished.startswith("There is no plan")
    assert accepted.startswith("Accepted")


def test_a_text_without_a_plan_is_corrected(converse: Converse, first: ToolContext) -> None:
    conversation = converse({"content": "I would fix it."}, {"expect": "can't be used", "content": json.dumps(PLANNED)})
    planning.make(conversation, REGISTRY, first)
    assert first.plan is not None


@pytest.mark.parametrize("step", [reply(MISPLACED), {"content": json.dumps({**PLANNED, "steps": []})}])
def test_the_second_refusal_ends(converse: Converse, first: ToolContext, step: dict[str, Any]) -> None:
    conversation = converse(step, step, step)
    with pytest.raises(InvalidOutput) as caught:
        planning.make(conversation, REGISTRY, first)
    assert "nowhere.py" in caught.value.why or "no step" in caught.value.why
    assert conversation.meter.usage.calls == planning.MAX_REFUSED


def test_nothing_is_done_without_a_plan(converse: Converse, first: ToolContext) -> None:
    conversation = converse(reply(FIX, DONE), reply(PLAN, DONE))
    assert planning.make(conversation, REGISTRY, first) is not None
    assert "There is no plan" in answers(conversation)[1]


def test_a_question_needs_no_plan(converse: Converse, first: ToolContext) -> None:
    asked = call("finish", claim="needs_input", summary="Two readings.", question="Which?")
    finished = planning.make(converse(reply(asked)), REGISTRY, first)
    assert concluded(finished).claim is Claim.NEEDS_INPUT
    assert first.plan is None


def test_there_is_one_plan_and_only_a_reason_to_change_tests_is_added(converse: Converse, first: ToolContext) -> None:
    other = {**PLANNED, "summary": "Another."}
    (step,) = PLANNED["steps"]
    more = {**step, "files": ["tests/test_calc.py"], "test_changes": "the issue asks for -1"}
    again, why = call("plan", **other), call("plan", **{**other, "steps": [more]})
    nowhere = call("plan", **{**other, "steps": [{**more, "files": ["tests/test_nothing.py"]}]})
    another = call("plan", **{**other, "steps": [{**more, "id": "another"}]})
    conversation = converse(reply(PLAN, again, another, nowhere, why, why))
    planning.make(conversation, REGISTRY, first)
    assert first.plan is not None
    assert (first.plan.summary, leave(first.plan, "tests/test_calc.py")) == (
        PLANNED["summary"],
        "the issue asks for -1",
    )
    assert ["already" in answer for answer in answers(conversation)[1:6]] == [True, True, False, False, True]
    assert "in one of its steps (1)" in answers(conversation)[2] and "no such file" in answers(conversation)[3]


def test_what_a_person_approved_is_not_added_to(converse: Converse, first: ToolContext) -> None:
    first.approved = True
    (step,) = PLANNED["steps"]
    more = {**step, "files": ["tests/test_calc.py"], "test_changes": "they are in the way"}
    conversation = converse(reply(PLAN, call("plan", **{**PLANNED, "steps": [more]})))
    planning.make(conversation, REGISTRY, first)
    assert first.plan is not None and leave(first.plan, "tests/test_calc.py") == ""


def test_a_plan_that_waits_is_asked_for_alone(converse: Converse, first: ToolContext) -> None:
    conversation = converse(reply(PLAN, FIX))
    planning.make(conversation, {"plan": REGISTRY["plan"], **LOOKING}, first)
    assert "finish" not in said(conversation)[0]
    assert "no tool 'edit'" in answers(conversation)[1]
    assert not first.draft.edits


def test_a_plan_is_revised(converse: Converse, first: ToolContext) -> None:
    earlier = Plan(intent="bug_fix", summary="Old.", steps=(PlanStep(id="1", objective="Something else"),))
    conversation = converse(reply(call("diff")), reply(PLAN))  # the recalled plan counts as the first reply
    planning.recall(conversation, earlier)
    planning.revise(conversation, "Add, please.", REGISTRY, first)
    assert first.plan is not None
    assert first.plan.summary == "The sign is wrong."
    assert "Add, please." in said(conversation)[1]
