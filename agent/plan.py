"""The plan: asked for as structured output, checked that it can be carried out. Each refusal says what to change."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from graphlib import CycleError, TopologicalSorter

from agent import prompts
from agent.errors import UserError
from agent.loop import Conversation
from agent.model.structured import structured
from agent.model.types import Message, ToolSpec
from agent.types import Plan, PlanStep

MAX_STEPS = 20


def make(conversation: Conversation, existing: Collection[str], tools: Sequence[ToolSpec]) -> Plan:
    """Ask for a plan in the conversation.

    Args:
        existing: every path of the base commit.
        tools: what the work after the plan will offer, so that both share a cached prefix.

    Raises:
        InvalidOutput: it stayed unusable after one correction.
        GraftsmithError: whatever the model call raises.
    """
    conversation.say(prompts.render("plan"))
    return _asked(conversation, existing, tools)


def recall(conversation: Conversation, plan: Plan) -> None:
    """Put a plan that was made earlier into the conversation, where the model would have given it."""
    conversation.say(prompts.render("plan"))
    conversation.messages.append(Message.assistant(plan.model_dump_json()))


def revise(conversation: Conversation, remark: str, existing: Collection[str], tools: Sequence[ToolSpec]) -> Plan:
    """Ask for another plan after :func:`recall`; arguments and errors as for :func:`make`.

    Args:
        remark: what a person said of the plan, fenced.
    """
    conversation.say(prompts.render("revise", remark=remark))
    return _asked(conversation, existing, tools)


def check(plan: Plan, existing: Collection[str]) -> None:
    """
    Raises:
        UserError: a plan that was made earlier can't be carried out on these files.
    """
    if found := problems(plan, existing):
        raise UserError(
            "The plan does not fit the code", why=" ".join(found[:3]), todo="Ask for a new plan on the present state"
        )


def _asked(conversation: Conversation, existing: Collection[str], tools: Sequence[ToolSpec]) -> Plan:
    answer = structured(
        conversation.model, conversation.messages, Plan, problems=lambda plan: problems(plan, existing), tools=tools
    )
    conversation.messages += answer.transcript
    conversation.events.emit("decision", plan=answer.value.model_dump())
    return answer.value


def problems(plan: Plan, existing: Collection[str]) -> tuple[str, ...]:
    """Why ``plan`` is refused, one sentence each; empty when it is sound.

    Args:
        existing: every path of the base commit.
    """
    found: list[str] = []
    if not plan.steps and plan.intent != "question":
        found.append("The plan has no step; name at least one.")
    if len(plan.steps) > MAX_STEPS:
        found.append(f"The plan has {len(plan.steps)} steps; at most {MAX_STEPS} are allowed. Join small ones.")
    ids = [step.id for step in plan.steps]
    found += [
        f"Two steps have the id {name!r}; ids must differ." for name in sorted({i for i in ids if ids.count(i) > 1})
    ]
    for step in plan.steps:
        found += _step_problems(step, ids, existing)
    try:
        order(plan)
    except CycleError as error:
        found.append(f"The steps depend on each other in a circle: {' → '.join(error.args[1])}.")
    return tuple(found)


def _step_problems(step: PlanStep, ids: Collection[str], existing: Collection[str]) -> list[str]:
    known = set(ids)
    return [
        *(f"Step {step.id!r} depends on {d!r}, which is no step." for d in step.depends_on if d not in known),
        *(
            f"Step {step.id!r} names {path!r} under `files`, but the repository has no such file. "
            "Name an existing one, or put it under `new_files`."
            for path in step.files
            if path not in existing
        ),
        *(
            f"Step {step.id!r} names {path!r} under `new_files`, but it exists. Put it under `files`."
            for path in step.new_files
            if path in existing
        ),
    ]


def order(plan: Plan) -> tuple[PlanStep, ...]:
    """The steps so that each comes after what it depends on; otherwise in the plan's own order.

    Raises:
        graphlib.CycleError: the dependencies form a circle.
    """
    steps = {step.id: step for step in plan.steps}
    sorter = TopologicalSorter({step.id: [d for d in step.depends_on if d in steps] for step in plan.steps})
    return tuple(steps[name] for name in sorter.static_order())
