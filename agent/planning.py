"""Asking for the plan: as a call of the tool ``plan``, or as JSON in the text, since not every model calls tools well.

A model that knows the change already makes it in the same reply, so that a small task costs one call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agent import prompts
from agent.loop import Conversation, Finished, Turns
from agent.model.errors import InvalidOutput
from agent.model.structured import read
from agent.model.types import Message, Reply
from agent.plan import problems
from agent.tools import ToolContext
from agent.tools.base import Tool
from agent.types import Plan

MAX_REFUSED = 2
"""Plans that can't be used, or replies without one, after which the run ends."""


def make(conversation: Conversation, registry: Mapping[str, Tool[Any]], context: ToolContext) -> Finished | None:
    """Let the model act until ``context.plan`` holds a plan that can be carried out.

    Args:
        registry: what it may call meanwhile; ``plan`` is among it.

    Returns:
        Its call of ``finish``, when the reply with the plan brought the work to its end too.

    Raises:
        InvalidOutput: the plan stayed unusable after one correction.
        ContentRefused: the model or a filter declined.
        GraftsmithError: whatever the model call raises.
    """
    conversation.say(prompts.render("plan", work="finish" in registry))
    return _asked(conversation, registry, context)


def recall(conversation: Conversation, plan: Plan) -> None:
    """Put a plan that was made earlier into the conversation, where the model would have given it."""
    conversation.say(prompts.render("plan", work=False))
    conversation.messages.append(Message.assistant(plan.model_dump_json(exclude_defaults=True)))
    conversation.keep("plan")


def revise(
    conversation: Conversation, remark: str, registry: Mapping[str, Tool[Any]], context: ToolContext
) -> Finished | None:
    """Ask for another plan after :func:`recall`; the rest as for :func:`make`.

    Args:
        remark: what a person said of the plan, fenced.
    """
    conversation.say(prompts.render("revise", remark=remark))
    return _asked(conversation, registry, context)


def _asked(conversation: Conversation, registry: Mapping[str, Tool[Any]], context: ToolContext) -> Finished | None:
    turns = Turns(conversation, registry, context)
    refused: list[Sequence[str]] = []
    while len(refused) < MAX_REFUSED:
        reply = turns.ask(schema=Plan.model_json_schema() if refused else None)
        conversation.keep("plan")
        finished = turns.act(reply)
        if reply.tool_calls:
            if context.plan is None and any(call.name == "plan" for call in reply.tool_calls):
                refused.append([conversation.messages[-1].content])
        else:
            wrong = _in_text(reply, context)
            if wrong:
                refused.append(wrong)
                conversation.say(prompts.render("repair", problems=wrong[:12]))
        if context.plan is not None:
            conversation.events.emit("decision", plan=context.plan.model_dump())
        if context.plan is not None or finished is not None:
            return finished
    raise InvalidOutput(
        "the model gave no usable plan", why="; ".join(refused[-1][:3]), todo="Retry, or use a more capable model"
    )


def _in_text(reply: Reply, context: ToolContext) -> Sequence[str]:
    """Take the plan from the reply's text; what is wrong with it otherwise."""
    plan, wrong = read(reply, Plan)
    wrong = wrong or (problems(plan, context.draft.base.paths()) if plan is not None else ())
    if plan is not None and not wrong:
        context.plan = plan
    return wrong
