"""Tools without tool calls: what an endpoint that refuses ``tools`` is sent instead, and how its answers are read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from agent import prompts
from agent.model.jsontext import is_cut, json_objects
from agent.model.types import JsonSchema, Message, ToolCall, ToolSpec


def as_text(messages: Sequence[Message], tools: Sequence[ToolSpec]) -> tuple[Message, ...]:
    """The conversation with tool calls and results as plain text.

    The rules go to the end of the first system message, so that the prefix stays the same from call to call.
    Neighbours of one role become one message: many chat templates insist on turns.
    """
    rules = prompts.render("actions", tools=[_one_line(tool["function"]) for tool in tools])
    first, rest = _head(messages)
    names = {call.id: call.name for message in messages for call in message.tool_calls}
    return _joined([Message.system(f"{first}\n\n{rules}".strip()), *(_plain(message, names) for message in rest)])


def with_schema(messages: Sequence[Message], schema: JsonSchema) -> tuple[Message, ...]:
    """The conversation with the demand for JSON in words, at its end."""
    return _joined([*messages, Message.user(prompts.render("schema", schema=_one_line(schema)))])


def parse(text: str) -> tuple[tuple[ToolCall, ...], bool]:
    """The actions in a reply (their ids empty), and whether the reply was cut inside of them."""
    start = text.find("{")
    objects = json_objects(text)
    if start >= 0 and is_cut(text[start:]) and not text.rstrip().endswith("}"):
        return (), True
    lists = [value for value in objects if "actions" in value]
    # An answer may think aloud in single actions before it gives the list, which is what was asked for.
    return tuple(call for value in (lists[-1:] or objects) for call in _calls(value)), False


def _calls(value: dict[str, Any]) -> tuple[ToolCall, ...]:
    actions = value.get("actions", [value])
    if not isinstance(actions, list):
        return ()
    calls = [_call(action) for action in actions]
    return tuple(call for call in calls if call) if all(calls) else ()


def _call(action: object) -> ToolCall | None:
    if not isinstance(action, dict):
        return None
    # The form we ask for, or the one that models know from their training.
    name = action.get("tool", action.get("name") if "arguments" in action else None)
    if not isinstance(name, str) or not name:
        return None
    arguments = action.get("arguments", {})
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False)
    return ToolCall(id="", name=name, arguments=arguments)


def _head(messages: Sequence[Message]) -> tuple[str, Sequence[Message]]:
    if messages and messages[0].role == "system":
        return messages[0].content, messages[1:]
    return "", messages


def _plain(message: Message, names: dict[str, str]) -> Message:
    if message.role == "tool":
        return Message.user(f"Result of {names.get(message.tool_call_id, 'the action')}:\n{message.content}")
    if message.tool_calls:
        actions = [{"tool": call.name, "arguments": _value(call.arguments)} for call in message.tool_calls]
        said = f"{message.content}\n\n" if message.content else ""
        return Message.assistant(said + json.dumps({"actions": actions}, ensure_ascii=False))
    return message


def _value(arguments: str) -> object:
    try:
        return json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments


def _joined(messages: Iterable[Message]) -> tuple[Message, ...]:
    result: list[Message] = []
    for message in messages:
        last = result[-1] if result else None
        if last and last.role == message.role == "user":
            result[-1] = Message.user(f"{last.content}\n\n{message.content}")
        else:
            result.append(message)
    return tuple(result)


def _one_line(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
