"""The conversation with the model: ask, run the tools that it calls, ask again, until it says that it is done.

The history is append-only, so that a provider's prompt cache hits on everything but the newest messages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent import prompts, tools
from agent.budget import Meter
from agent.errors import GraftsmithError
from agent.events import Events
from agent.model.errors import ContextTooLong
from agent.model.types import Finish, JsonSchema, Message, Model, OnText, Reply, ToolCall, ToolSpec
from agent.tools import ToolContext, ToolResult
from agent.tools.base import Conclusion, StepDone, Tool

MAX_SAME = 4
"""Equal pairs of action and result after which the run is stuck."""
_LARGE_CHARS = 1_000
_LEFT_OUT = "[the rest is left out to save room; call again for it]"
MAX_IDLE = 3
"""Replies in a row without a usable tool call."""


class Stuck(GraftsmithError):
    """The model goes round in circles."""


@dataclass
class Conversation:
    """A growing history, and what it has cost."""

    model: Model
    meter: Meter
    events: Events
    messages: list[Message] = field(default_factory=list)
    _warned: bool = False

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
        try:
            reply = self.model.complete(self.messages, tools=tools, schema=schema, on_text=on_text)
        except ContextTooLong:
            if not self._shrink():
                raise
            reply = self.model.complete(self.messages, tools=tools, schema=schema, on_text=on_text)
        self.messages.append(reply.as_message())
        return reply

    def _shrink(self) -> bool:
        """Leave out the large results of the older half; false when that frees nothing. Costs the prompt cache once."""
        older = len(self.messages) // 2
        large = [i for i, m in enumerate(self.messages[:older]) if m.role == "tool" and len(m.content) > _LARGE_CHARS]
        for place in large:
            kept = self.messages[place]
            self.messages[place] = kept.model_copy(update={"content": f"{kept.content[:200]}\n{_LEFT_OUT}"})
        self.events.emit("decision", shrunk=len(large))
        return bool(large)

    def say(self, text: str) -> None:
        """Append a message of ours."""
        self.messages.append(Message.user(text))

    def answer(self, call: ToolCall, text: str) -> None:
        """Append the result of a tool call."""
        self.messages.append(Message.tool(call, text))

    def warn_once_when_nearly_spent(self, prompt: str = "wrap_up") -> None:
        if self.meter.nearly_spent and not self._warned:
            self._warned = True
            self.say(prompts.render(prompt))


@dataclass(frozen=True)
class Finished:
    """The model says that the task, or a step, is done; its call still waits for an answer from the harness."""

    call: ToolCall
    said: Conclusion | StepDone


def work(conversation: Conversation, registry: Mapping[str, Tool[Any]], context: ToolContext) -> Finished:
    """Let the model act until it calls ``finish`` or ``step_done``. ``context.draft`` holds the state of the files.

    Raises:
        Stuck: the same action with the same result four times, or three replies without a usable action.
    """
    seen: Counter[tuple[str, str, str]] = Counter()
    specs = tuple(tools.specs(registry))
    idle = 0
    while True:
        conversation.warn_once_when_nearly_spent()
        reply = conversation.ask(tools=specs)
        if not reply.whole or not reply.tool_calls:
            idle += 1
            if idle >= MAX_IDLE:
                raise Stuck(
                    f"The model gave {idle} replies in a row without a usable action",
                    why=reply.text[:300] or f"the last one ended with {reply.finish.value}",
                    todo="Try again with a more capable model, or describe the task in smaller steps",
                )
            conversation.say(prompts.render("truncated" if reply.finish is Finish.LENGTH else "nudge"))
            continue
        idle = 0
        finished = act(conversation, registry, context, reply, seen)
        if finished is not None:
            return finished


def act(
    conversation: Conversation,
    registry: Mapping[str, Tool[Any]],
    context: ToolContext,
    reply: Reply,
    seen: Counter[tuple[str, str, str]],
) -> Finished | None:
    """Run the calls of one reply in order; every call gets exactly one answer."""
    finished: Finished | None = None
    failed = False
    for call in reply.tool_calls:
        if finished is not None:
            conversation.answer(call, f"Not run: `{finished.call.name}` was called before it in the same reply.")
            continue
        result = tools.call(registry, context, call.name, call.arguments)
        if result.said is not None and failed:
            result = ToolResult(
                f"Not taken: a call before it in the same reply failed. Repair that, then call {call.name} again.",
                ok=False,
            )
        if result.draft is not None:
            context.draft = result.draft
        conversation.events.emit("tool_result", call=call.id, name=call.name, ok=result.ok, text=result.text)
        failed = failed or not result.ok
        if result.said is not None:
            finished = Finished(call, result.said)
            continue
        conversation.answer(call, result.text)
        _check_progress(seen, call, result)
    return finished


def _check_progress(seen: Counter[tuple[str, str, str]], call: ToolCall, result: ToolResult) -> None:
    key = (call.name, call.arguments, result.text)
    seen[key] += 1
    if seen[key] >= MAX_SAME:
        raise Stuck(
            f"The model repeated the same {call.name} call {MAX_SAME} times with the same result",
            why=result.text[:500],
            todo="Try again with a more capable model, or add what it can't find to the issue",
        )
