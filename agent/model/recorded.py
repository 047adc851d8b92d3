"""Model calls in a run's log: written as they happen, and replayed without any endpoint.

A ``model_call`` event holds what is new since the call before it, so that a log grows with the conversation and
not with its square::

    {"kind": "model_call", "number": 1, "model": str, "request": digest, "kept": 0, "messages": [Message, ...],
     "tools": {"digest": str, "names": [str, ...]}, "schema": digest or null, "max_output_tokens": int or null,
     "reply": Reply or null, "error": {"class", "what", "why", "todo"} or null, "seconds": float,
     "attempts": [str, ...]}

``kept`` messages of the call before stay in front of ``messages``; ``attempts`` are the failed tries and dropped
parameters on the way, in order.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent.budget import Meter
from agent.errors import GraftsmithError, UserError
from agent.events import Events
from agent.model.errors import RECOVERIES, Unsupported
from agent.model.tokens import estimate_tokens
from agent.model.types import JsonSchema, Message, OnText, Reply, ToolSpec
from agent.model.wire import Dialect, Request, input_tokens, parameters
from agent.secrets import redact
from agent.types import CallUsage


class CallLog:
    """Writes the calls of one client, in order."""

    def __init__(self, events: Events | None) -> None:
        self._events = events
        self._before: tuple[Message, ...] = ()
        self._number = 0

    def begin(self, request: Request, model: str) -> OpenCall:
        """The next call; it is written when it has ended."""
        self._number += 1
        kept = _common(self._before, request.messages)
        self._before = request.messages
        return OpenCall(self._events, request, self._number, kept, model)


class OpenCall:
    """A call under way. ``model``, ``attempts`` and ``lost`` are filled in by the client."""

    def __init__(self, events: Events | None, request: Request, number: int, kept: int, model: str) -> None:
        self.model = model
        self.attempts: list[str] = []
        self.lost: list[CallUsage] = []
        """Usage of replies that broke off; a provider bills those too."""
        self._events = events
        self._request = request
        self._number = number
        self._kept = kept
        self._started = time.monotonic()

    def answered(self, reply: Reply) -> None:
        self._emit(reply=reply.model_dump(mode="json"), error=None)

    def failed(self, error: GraftsmithError) -> None:
        text = {"class": type(error).__name__, "what": error.what, "why": error.why, "todo": error.todo}
        self._emit(reply=None, error=text)

    def _emit(self, *, reply: dict[str, Any] | None, error: dict[str, str] | None) -> None:
        if self._events is None:
            return
        request = self._request
        self._events.emit(
            "model_call",
            number=self._number,
            model=self.model,
            request=digest(request),
            kept=self._kept,
            messages=[message.model_dump(mode="json") for message in request.messages[self._kept :]],
            tools={
                "digest": _digest(list(request.tools)),
                "names": list(_names(request)),
            },
            schema=_schema(request),
            max_output_tokens=request.max_output_tokens,
            reply=reply,
            error=error,
            seconds=round(time.monotonic() - self._started, 3),
            attempts=self.attempts,
        )


def digest(request: Request) -> str:
    """Sixteen hex digits of everything that the model is shown."""
    messages = [message.model_dump(mode="json") for message in request.messages]
    return _digest([messages, list(request.tools), request.schema])


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=dict).encode()).hexdigest()[:16]


def _common(before: Sequence[Message], now: Sequence[Message]) -> int:
    same = 0
    for old, new in zip(before, now, strict=False):
        if old != new:
            break
        same += 1
    return same


# ── replay ───────────────────────────────────────────────────────────────────────────────────────────────────────


class RecordEnded(UserError):
    """The replay asked for more calls than the record holds."""


@dataclass(frozen=True)
class Divergence:
    """Where a replay stopped saying what the record says."""

    call: int
    """Number of the model call, from 1."""
    message: int
    """Index of the first message that differs; the length of the shorter conversation when one only goes on."""
    recorded: str
    replayed: str

    def __str__(self) -> str:
        said = f"recorded {self.recorded[:200]!r}, replayed {self.replayed[:200]!r}"
        return f"call {self.call}, message {self.message}: {said}"


class RecordedModel:
    """Answers with the replies of an earlier run, in order.

    Args:
        events: the lines of the run's log, decoded; other kinds are passed over.
        meter: told of each call as the recorded run's was, so that the same bounds are reached.

    A request that differs from the recorded one is noted in ``divergences`` and answered all the same. Durations and
    memory addresses in the messages may differ: they always do.
    """

    def __init__(self, events: Iterable[Mapping[str, Any]], *, meter: Meter | None = None) -> None:
        self._calls = tuple(_recorded(events))
        self._meter = meter
        self._next = 0
        self.divergences: list[Divergence] = []

    @property
    def used(self) -> int:
        """Recorded calls that the replay asked for."""
        return self._next

    @property
    def unused(self) -> int:
        """Recorded calls that the replay did not ask for."""
        return len(self._calls) - self._next

    def complete(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[ToolSpec] = (),
        schema: JsonSchema | None = None,
        max_output_tokens: int | None = None,
        on_text: OnText | None = None,
    ) -> Reply:
        """See ``Model.complete``; an error in the record is raised again.

        Raises:
            RecordEnded: every recorded call has been used.
        """
        request = Request(tuple(messages), tuple(tools), schema)
        if self._meter:
            self._meter.check(input_tokens(parameters(request, Dialect(), ""), estimate_tokens))
        if self._next >= len(self._calls):
            raise RecordEnded(
                "the record ends here",
                why=f"it holds {len(self._calls)} model calls and the replay asked for another",
                todo="Compare the last messages: the code or the repository has changed since",
            )
        call = self._calls[self._next]
        self._next += 1
        self._compare(call, request)
        if call.error is not None:
            raise call.error
        assert call.reply is not None, "a recorded call has a reply or an error"
        if self._meter:
            self._meter.record(call.reply.usage)
        if on_text and call.reply.text:
            on_text(call.reply.text)
        return call.reply

    def _compare(self, call: _Recorded, request: Request) -> None:
        if call.digest == digest(request):
            return
        messages = request.messages
        for index in range(max(len(messages), len(call.messages))):
            then = _shown(call.messages, index)
            now = redact(_shown(messages, index))  # as the record is
            if _timeless(then) != _timeless(now):
                self.divergences.append(Divergence(self._next, index, then, now))
                return
        then, now = call.asks_for, _asks_for(list(_names(request)), _digest(list(request.tools)), _schema(request))
        if then != now:
            self.divergences.append(Divergence(self._next, len(messages), then, now))


@dataclass(frozen=True)
class _Recorded:
    digest: str
    messages: tuple[Message, ...]
    asks_for: str
    """The tools that were offered and the form of the reply, in short."""
    reply: Reply | None
    error: GraftsmithError | None


def _asks_for(names: Sequence[str], tools: str, schema: str | None) -> str:
    return f"tools: {', '.join(names) or 'none'}\ntheir description: {tools}\nform of the reply: {schema or 'free'}"


def _names(request: Request) -> Iterable[str]:
    return (tool["function"]["name"] for tool in request.tools)


def _schema(request: Request) -> str | None:
    return None if request.schema is None else _digest(request.schema)


def _recorded(events: Iterable[Mapping[str, Any]]) -> Iterable[_Recorded]:
    before: tuple[Message, ...] = ()
    for event in events:
        if event.get("kind") != "model_call":
            continue
        before = (*before[: event["kept"]], *(Message.model_validate(message) for message in event["messages"]))
        reply = None if event["reply"] is None else Reply.model_validate(event["reply"])
        asks_for = _asks_for(event["tools"]["names"], event["tools"]["digest"], event["schema"])
        yield _Recorded(event["request"], before, asks_for, reply, None if reply else _error(event["error"]))


def _error(data: Mapping[str, str]) -> GraftsmithError:
    known = {rule.error.__name__: rule.error for rule in RECOVERIES if rule.error is not Unsupported}
    return known.get(data["class"], GraftsmithError)(data["what"], why=data["why"], todo=data["todo"])


def _shown(messages: Sequence[Message], index: int) -> str:
    if index >= len(messages):
        return "[no message]"
    message = messages[index]
    calls = "".join(f"\n{call.name}({call.arguments})" for call in message.tool_calls)
    return f"{message.role}: {message.content}{calls}"


_FLEETING = (
    (re.compile(r"\b\d+(?:\.\d+)?\s?(?:s|ms|seconds?)\b"), "0s"),
    (re.compile(r"\b0x[0-9a-f]{6,16}\b"), "0x0"),  # where an object lay in memory
)


def _timeless(text: str) -> str:
    for pattern, same in _FLEETING:
        text = pattern.sub(same, text)
    return text
