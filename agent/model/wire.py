"""The OpenAI chat format as pure functions: a request out of messages, a reply out of whatever came back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agent.model import actions
from agent.model.errors import EmptyReply, StreamBroken
from agent.model.jsontext import is_cut
from agent.model.thinking import VisibleText, without_reasoning
from agent.model.tokens import Counter
from agent.model.types import Finish, JsonSchema, Message, Reply, ToolCall, ToolSpec
from agent.types import CallUsage
from sandbox.text import sound


@dataclass(frozen=True)
class Request:
    """One call, apart from the endpoint's dialect."""

    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    schema: JsonSchema | None = None
    max_output_tokens: int | None = None


@dataclass(frozen=True)
class Dialect:
    """Which optional parts of the protocol an endpoint accepts: all, until it refuses one."""

    tools: bool = True
    response_format: bool = True
    stream: bool = True
    stream_options: bool = True
    max_tokens: bool = True
    """False: the endpoint wants the newer name ``max_completion_tokens``."""

    def without(self, parameter: str) -> Dialect:
        return replace(self, **{parameter: False})


def parameters(request: Request, dialect: Dialect, model: str) -> dict[str, Any]:
    """The JSON body of the request."""
    messages = request.messages
    if request.tools and not dialect.tools:
        messages = actions.as_text(messages, request.tools)
    if request.schema is not None and not dialect.response_format:
        messages = actions.with_schema(messages, request.schema)
    body: dict[str, Any] = {"model": model, "messages": [_wire(message) for message in messages]}
    if request.tools and dialect.tools:
        body["tools"] = [dict(tool) for tool in request.tools]
    if request.schema is not None and dialect.response_format:
        schema = {"name": "reply", "schema": dict(request.schema), "strict": False}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    if request.max_output_tokens is not None:
        body["max_tokens" if dialect.max_tokens else "max_completion_tokens"] = request.max_output_tokens
    if dialect.stream:
        body["stream"] = True
        if dialect.stream_options:
            body["stream_options"] = {"include_usage": True}
    return body


def _wire(message: Message) -> dict[str, Any]:
    wire: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        wire["content"] = message.content or None
        wire["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": _object_text(call.arguments)},
            }
            for call in message.tool_calls
        ]
    if message.role == "tool":
        wire["tool_call_id"] = message.tool_call_id
    return wire


def _object_text(arguments: str) -> str:
    """Some endpoints parse the history's arguments: what is no object goes back as one that shows it."""
    try:
        if isinstance(json.loads(arguments), dict):
            return arguments
    except (ValueError, RecursionError):
        pass
    return json.dumps({"unreadable": arguments})


# ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class _Call:
    id: str
    name: str
    arguments: str


class Assembly:
    """Puts one reply together from chunks, or from a whole completion, which is read as one large chunk."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._refusal: list[str] = []
        self._reasoning: list[str] = []
        self._calls: dict[object, _Call] = {}
        self._usage: Mapping[str, Any] | None = None
        self._finish = ""
        self._seen = False
        self._done = False
        self._visible = VisibleText()

    def done(self) -> None:
        """The stream said that it is complete."""
        self._done = True

    @property
    def begun(self) -> bool:
        """Something of a reply has come, so it will be billed."""
        return self._seen

    @property
    def finished(self) -> bool:
        """A finish reason or the end mark has come: what may still follow is only the usage."""
        return bool(self._finish) or self._done

    def feed(self, payload: Mapping[str, Any]) -> str:
        """Take in one payload without an error in it; returns the text that can be shown now."""
        if isinstance(payload.get("usage"), Mapping):
            self._usage = payload["usage"]
        choice = _first_choice(payload.get("choices"))
        if choice is None:
            return ""
        self._seen = True
        self._finish = _string(choice.get("finish_reason")) or self._finish
        whole = isinstance(choice.get("message"), Mapping)
        delta = choice.get("message") if whole else choice.get("delta")
        return (
            self._take(delta, whole)
            if isinstance(delta, Mapping)
            else self._take({"content": choice.get("text")}, whole)
        )

    def _take(self, delta: Mapping[str, Any], whole: bool) -> str:
        text = _content(delta.get("content"))
        self._text.append(text)
        self._refusal.append(_string(delta.get("refusal")))
        self._reasoning.append(_string(delta.get("reasoning_content")) or _string(delta.get("reasoning")))
        calls = delta.get("tool_calls")
        for position, call in enumerate(calls if isinstance(calls, list) else ()):
            if isinstance(call, Mapping):
                index = call.get("index")
                self._take_call(call, position if whole else index if isinstance(index, int) else None, whole)
        legacy = delta.get("function_call")
        if isinstance(legacy, Mapping):
            self._take_call({"function": legacy}, "legacy", whole)
        return sound(self._visible.feed(text))

    def _take_call(self, call: Mapping[str, Any], key: object, whole: bool) -> None:
        function = call.get("function")
        function = function if isinstance(function, Mapping) else call
        name, given_id = _string(function.get("name")), _string(call.get("id"))
        current = self._calls.get(key) if key is not None else next(reversed(self._calls.values()), None)
        # Some servers number every call 0, or none at all: another id together with a name begins another call.
        if current is None or (not whole and name and given_id and current.id and given_id != current.id):
            key = key if key is not None and current is None else ("call", len(self._calls))
            current = self._calls[key] = _Call(given_id, name, "")
            self._calls[key] = self._calls.pop(key)
        current.id = current.id or given_id
        current.name = current.name or name
        arguments = function.get("arguments")
        if isinstance(arguments, str):
            current.arguments += arguments
        elif arguments is not None:
            current.arguments = json.dumps(arguments, ensure_ascii=False)

    def reply(self, request: Request, body: Mapping[str, Any], model: str, count: Counter) -> Reply:
        """The finished reply.

        Raises:
            EmptyReply: no choice came.
            StreamBroken: neither a finish reason nor the end mark came.
        """
        if not self._seen:
            raise EmptyReply("the model returned no choices", todo="Try again later or use another model")
        if not self.finished:
            raise StreamBroken("the reply stopped midway", why="the stream ended without a finish reason")
        text, refusal = without_reasoning("".join(self._text)), "".join(self._refusal)
        calls: Sequence[ToolCall] = [
            ToolCall(id=c.id, name=c.name, arguments=c.arguments) for c in self._calls.values() if c.name
        ]
        cut = any(is_cut(call.arguments) for call in calls)
        if request.tools and "tools" not in body:
            calls, cut = actions.parse(text)
        elif not calls and request.schema is None:
            calls = _written_out(text, request.tools)
        finish = _finish(self._finish, refusal, cut, bool(calls))
        usable = calls if finish is Finish.TOOL_CALLS else ()
        return Reply(
            text=text,
            tool_calls=unique_calls(usable, request.messages),
            finish=finish,
            usage=self.usage(body, model, count),
            refusal=refusal,
        )

    def usage(self, body: Mapping[str, Any], model: str, count: Counter) -> CallUsage:
        """What the call took, also when it has not ended properly."""
        called = (call.name + call.arguments for call in self._calls.values())
        produced = "".join([*self._text, *self._refusal, *self._reasoning, *called])
        return usage_of(self._usage, model, count, body, produced)


def _written_out(text: str, tools: Sequence[ToolSpec]) -> Sequence[ToolCall]:
    """Calls that the model wrote into its text, because its server does not know the model's way of calling."""
    names = {tool["function"]["name"] for tool in tools}
    calls, _ = actions.parse(text)
    return calls if all(call.name in names for call in calls) else ()


def usage_of(
    usage: Mapping[str, Any] | None, model: str, count: Counter, body: Mapping[str, Any], produced: str
) -> CallUsage:
    """The counts that the endpoint gave; what it left out, or calls zero although there was text, is estimated."""
    usage = usage or {}
    details = usage.get("prompt_tokens_details")
    cached = _number(details.get("cached_tokens")) if isinstance(details, Mapping) else 0
    cached = cached or _number(usage.get("prompt_cache_hit_tokens")) or _number(usage.get("cache_read_input_tokens"))
    given_in = _number(usage.get("prompt_tokens")) or _number(usage.get("input_tokens"))
    given_out = _number(usage.get("completion_tokens")) or _number(usage.get("output_tokens"))
    used_in = given_in or input_tokens(body, count)
    used_out = given_out or (count(produced) if produced else 0)
    return CallUsage(
        model=model,
        input_tokens=used_in,
        cached_tokens=min(cached, used_in),
        output_tokens=used_out,
        estimated=not given_in or (not given_out and bool(produced)),
    )


def input_tokens(body: Mapping[str, Any], count: Counter) -> int:
    """Tokens of a request body, estimated: the text of its messages and tools, four more a message for its frame."""
    total = 0
    messages = body.get("messages")
    for message in messages if isinstance(messages, list) else ():
        total += 4
        if isinstance(message, Mapping):
            content = message.get("content")
            total += count(content if isinstance(content, str) else json.dumps(content)) if content else 0
            total += count(json.dumps(message["tool_calls"])) if message.get("tool_calls") else 0
    for extra in ("tools", "response_format"):
        total += count(json.dumps(body[extra])) if body.get(extra) else 0
    return total


def unique_calls(calls: Iterable[ToolCall], history: Sequence[Message]) -> tuple[ToolCall, ...]:
    """The calls with ids that occur nowhere before: a result must name exactly one call."""
    taken = {call.id for message in history for call in message.tool_calls}
    number = len(taken)
    result = []
    for call in calls:
        identity = call.id
        while not identity or identity in taken:
            number += 1
            # Nine letters and digits: the strictest rule for ids among the known endpoints.
            identity = f"call{number:05d}"
        taken.add(identity)
        result.append(ToolCall(id=identity, name=call.name, arguments=call.arguments.strip() or "{}"))
    return tuple(result)


_CUT = {"length", "max_tokens", "max_output_tokens"}
_FILTERED = {"content_filter", "safety", "recitation", "blocklist", "prohibited_content"}


def _finish(said: str, refusal: str, cut: bool, calls: bool) -> Finish:
    said = said.lower()
    if said in _CUT or cut:
        return Finish.LENGTH
    if said in _FILTERED:
        return Finish.CONTENT_FILTER
    if refusal or said == "refusal":
        return Finish.REFUSAL
    return Finish.TOOL_CALLS if calls else Finish.STOP


def _first_choice(choices: object) -> Mapping[str, Any] | None:
    """The choice with the lowest index: the first. Others are never asked for."""
    if not isinstance(choices, list):
        return None
    good = [c for c in choices if isinstance(c, Mapping) and c.get("index") in (None, 0)]
    return good[0] if good else None


def _content(content: object) -> str:
    """Text, or the text parts of a list of parts."""
    if isinstance(content, list):
        return "".join(
            _string(p.get("text")) for p in content if isinstance(p, Mapping) and p.get("type") != "thinking"
        )
    return _string(content)


def _string(value: object) -> str:
    return value if isinstance(value, str) else ""


def _number(value: object) -> int:
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e12 else 0
