"""The conversation with the model: ask, run the tools that it calls, ask again, until it says that it is done.

The history is append-only, so that a provider's prompt cache hits on everything but the newest messages, until it no
longer fits into what the model can hold (``history``).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from agent import prompts, tools
from agent.budget import DEFAULT_ROOM, Meter
from agent.errors import GraftsmithError
from agent.events import Events
from agent.history import cut_back, settled, tokens
from agent.model.errors import ContextTooLong
from agent.model.tokens import estimate_tokens
from agent.model.types import Finish, JsonSchema, Message, Model, OnText, Reply, ToolCall, ToolSpec
from agent.tools import ToolContext, ToolResult
from agent.tools.base import Conclusion, StepDone, Tool

MAX_SAME = 4
"""Equal pairs of action and result after which the run is stuck."""
SMALLER = 0.9
"""Share of a request that was too long, which the next one may take."""
MAX_IDLE = 3
"""Replies in a row without a usable tool call."""


_count = lru_cache(8_192)(estimate_tokens)  # the same texts are counted before every call


class Stuck(GraftsmithError):
    """The model goes round in circles."""


@dataclass
class Conversation:
    """A growing history, and what it has cost.

    Args:
        room: tokens that a request may take, as far as we know; less when the endpoint finds one too long.
        seed: the run's secret, for fences.
    """

    model: Model
    meter: Meter
    events: Events
    messages: list[Message] = field(default_factory=list)
    room: int = DEFAULT_ROOM
    seed: str = ""
    _kept: dict[str, Message] = field(default_factory=dict)
    _warned: bool = False
    _beside: int = 0
    """Tokens of the last request that were not of the history."""

    def ask(
        self,
        *,
        tools: Sequence[ToolSpec] = (),
        schema: JsonSchema | None = None,
        on_text: OnText | None = None,
    ) -> Reply:
        """One model call; its reply is the next entry of the history. The arguments are those of ``Model.complete``.

        Raises:
            BudgetReached: before the call.
            GraftsmithError: what the model could not recover from.
        """
        self._beside = beside = _count(json.dumps([tools, schema], default=dict))
        self._cut_back(beside)
        while True:
            try:
                reply = self.model.complete(self.messages, tools=tools, schema=schema, on_text=on_text)
            except ContextTooLong:
                self.room = int((tokens(self.messages, _count) + beside) * SMALLER)
                if not self._cut_back(beside):
                    raise
                continue
            self.messages.append(reply.as_message())
            return reply

    def _cut_back(self, beside: int) -> bool:
        """Make room where there is none; false when there was enough, or no more can be made.

        Args:
            beside: tokens of a request that are not of the history.
        """
        before = tokens(self.messages, _count)
        kept = tuple(self._kept.values())
        self.messages = cut_back(self.messages, self.room - beside, _count, kept=kept, seed=self.seed)
        after = tokens(self.messages, _count)
        if after < before:
            self.events.emit("decision", cut_back={"from": before, "to": after})
        return after < before

    def settle(self, before: Message) -> None:
        """Of what was looked up before a message, only the beginnings are sent from now on: once, so that a provider's
        cache is lost once. Nothing is done where the message itself was left out to make room."""
        if before in self.messages:
            self.messages = settled(self.messages, self.messages.index(before), _count)

    def keep(self, what: str) -> None:
        """The newest message stays when room is made, in place of the one that was kept as ``what`` before."""
        self._kept[what] = self.messages[-1]

    def say(self, text: str) -> None:
        """Append a message of ours."""
        self.messages.append(Message.user(text))

    def answer(self, call: ToolCall, text: str) -> None:
        """Append the result of a tool call."""
        self.messages.append(Message.tool(call, text))

    def warn_once_when_nearly_spent(self, prompt: str) -> None:
        if not self._warned and self.meter.nearly_spent(tokens(self.messages, _count) + self._beside):
            self._warned = True
            self.say(prompts.render(prompt, left=self.meter.left))


@dataclass(frozen=True)
class Finished:
    """The model says that the task, or a step, is done; its call still waits for an answer from the harness."""

    call: ToolCall
    said: Conclusion | StepDone


class Turns:
    """Turns of a conversation in which the model may call tools.

    Args:
        registry: what it may call. It is shown what its plan has a use for; the reply that brings the plan may use all.
        context: what the tools work with; its ``draft`` moves on with every edit.
        warning: the prompt that tells it that the budget is nearly spent.
    """

    def __init__(
        self,
        conversation: Conversation,
        registry: Mapping[str, Tool[Any]],
        context: ToolContext,
        *,
        warning: str = "wrap_up",
    ) -> None:
        self._conversation = conversation
        self._registry = registry
        self._context = context
        self._warning = warning
        self._specs = tuple(tools.specs(tools.offered(registry, context.plan)))
        self._seen: Counter[tuple[str, str, str]] = Counter()

    def ask(self, *, schema: JsonSchema | None = None, on_text: OnText | None = None) -> Reply:
        """The model's next reply; see :meth:`Conversation.ask`."""
        self._conversation.warn_once_when_nearly_spent(self._warning)
        return self._conversation.ask(tools=self._specs, schema=schema, on_text=on_text)

    def act(self, reply: Reply) -> Finished | None:
        """Run the calls of one reply in order; every call gets exactly one answer.

        Raises:
            Stuck: the same action with the same result four times.
        """
        conversation = self._conversation
        finished: Finished | None = None
        failed = False
        for call in reply.tool_calls:
            if finished is not None:
                conversation.answer(call, f"Not run: `{finished.call.name}` was called before it in the same reply.")
                continue
            result = self._run(call, failed=failed)
            failed = failed or not result.ok
            if result.said is not None:
                finished = Finished(call, result.said)
                continue
            conversation.answer(call, result.text)
            self._check_progress(call, result)
        return finished

    def _run(self, call: ToolCall, *, failed: bool) -> ToolResult:
        """
        Args:
            failed: a call before it in the same reply did.
        """
        result = tools.call(self._registry, self._context, call.name, call.arguments)
        if result.said is not None and failed:
            result = ToolResult(
                f"Not taken: a call before it in the same reply failed. Repair that, then call {call.name} again.",
                ok=False,
            )
        if result.draft is not None:
            self._context.draft = result.draft
        self._conversation.events.emit("tool_result", call=call.id, name=call.name, ok=result.ok, text=result.text)
        return result

    def _check_progress(self, call: ToolCall, result: ToolResult) -> None:
        key = (call.name, call.arguments, result.text)
        self._seen[key] += 1
        if self._seen[key] >= MAX_SAME:
            raise Stuck(
                f"The model repeated the same {call.name} call {MAX_SAME} times with the same result",
                why=result.text[:500],
                todo="Try again with a more capable model, or add what it can't find to the issue",
            )


def work(conversation: Conversation, registry: Mapping[str, Tool[Any]], context: ToolContext) -> Finished:
    """Let the model act until it calls ``finish`` or ``step_done``. ``context.draft`` holds the state of the files.

    Raises:
        Stuck: the same action with the same result four times, or three replies without a usable action.
    """
    turns = Turns(conversation, registry, context)
    idle = 0
    while True:
        reply = turns.ask()
        finished = turns.act(reply)
        if finished is not None:
            return finished
        idle = 0 if reply.tool_calls else idle + 1
        if idle >= MAX_IDLE:
            raise Stuck(
                f"The model gave {idle} replies in a row without a usable action",
                why=reply.text[:300] or f"the last one ended with {reply.finish.value}",
                todo="Try again with a more capable model, or describe the task in smaller steps",
            )
        if idle:
            conversation.say(prompts.render("truncated" if reply.finish is Finish.LENGTH else "nudge"))
