"""Whatever JSON comes, reading it ends in a reply or in one of our errors."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.errors import GraftsmithError
from agent.model.errors import MalformedReply
from agent.model.stream import Lines, ServerSentEvents, payloads
from agent.model.tokens import estimate_tokens
from agent.model.types import Message, Reply, ToolCall
from agent.model.wire import Assembly, Dialect, Request, input_tokens, parameters

KEYS = [
    *("choices", "delta", "message", "content", "text", "refusal", "reasoning", "index", "finish_reason"),
    *("tool_calls", "function", "function_call", "arguments", "name", "id"),
    *("usage", "prompt_tokens", "completion_tokens", "prompt_tokens_details", "cached_tokens"),
]
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just("length"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5),
    max_leaves=20,
)
CHOICE = st.fixed_dictionaries(
    {},
    optional={
        "index": ANYTHING,
        "finish_reason": ANYTHING,
        "delta": st.dictionaries(st.sampled_from(KEYS), ANYTHING, max_size=5),
        "message": ANYTHING,
        "text": ANYTHING,
    },
)
PAYLOAD = st.fixed_dictionaries({"choices": st.lists(CHOICE, max_size=2) | ANYTHING}, optional={"usage": ANYTHING})
TOOLS = ({"type": "function", "function": {"name": "edit", "parameters": {}}},)


@settings(max_examples=150)
@given(st.lists(PAYLOAD, max_size=4))
def test_any_payload_is_a_reply_or_a_named_error(chunks: list[dict[str, Any]]) -> None:
    request = Request((Message.user("x"),), TOOLS)
    assembly = Assembly()
    for chunk in chunks:
        assembly.feed(chunk)
    assembly.done()
    try:
        answer = assembly.reply(request, parameters(request, Dialect(), "m"), "m", estimate_tokens)
    except GraftsmithError:
        return
    assert Reply.model_validate_json(answer.model_dump_json()) == answer
    assert answer.usage.input_tokens > 0 and answer.usage.output_tokens >= 0


@settings(max_examples=200)
@given(
    st.binary(max_size=200),
    st.lists(st.integers(1, 40)),
    st.sampled_from(["text/event-stream", "application/json", ""]),
)
def test_any_bytes_are_payloads_or_a_named_error(data: bytes, sizes: list[int], kind: str) -> None:
    def pieces() -> Any:
        rest = data
        for size in sizes:
            yield rest[:size]
            rest = rest[size:]
        yield rest

    try:
        assert all(isinstance(payload, dict | str) for payload in payloads(pieces(), kind, 1000))
    except GraftsmithError:
        return


@given(st.lists(st.text(st.characters(exclude_characters="\r\n", codec="utf-8")), max_size=5), st.integers(1, 7))
def test_lines_are_the_same_however_they_are_cut(lines: list[str], size: int) -> None:
    data = "".join(f"{line}\r\n" for line in lines).encode()
    cutter, got = Lines(1000), []
    for at in range(0, len(data), size):
        got += cutter.feed(data[at : at + size])
    assert [*got, *cutter.end()] == lines


def test_all_that_is_sent_is_counted() -> None:
    call = ToolCall(id="a", name="edit", arguments='{"path": "a.py"}')
    parts = [Message.user("a task"), Message.assistant("", [call]), Message.tool(call, "a result")]
    counts = [input_tokens(parameters(Request(tuple(parts[:n])), Dialect(), "m"), len) for n in range(4)]
    assert counts[1] - counts[0] == 4 + len("a task") and counts[3] - counts[2] == 4 + len("a result")
    assert counts[2] - counts[1] > 4 + len(call.name) + len(call.arguments)
    with_tools = parameters(Request(tuple(parts), TOOLS, schema={"type": "object"}), Dialect(), "m")
    assert input_tokens(with_tools, len) > counts[3] + len(json.dumps(TOOLS))
    odd = {"messages": [None, "x", {"content": [{"text": "abc"}]}]}
    assert input_tokens(odd, len) == 12 + len('[{"text": "abc"}]')


def test_a_line_without_an_end_is_refused() -> None:
    cutter = Lines(10)
    assert cutter.feed(b"0123456789") == []
    with pytest.raises(MalformedReply, match="endless line"):
        cutter.feed(b"x")


def test_a_long_line_may_come_byte_by_byte() -> None:
    cutter = Lines(3_000_000)  # would take an hour if what has come were copied or looked through with each
    assert not any(cutter.feed(b"x") for _ in range(2_000_000))
    assert cutter.feed(b"\n") == ["x" * 2_000_000]


def test_events_over_several_lines_and_with_comments() -> None:
    events = ServerSentEvents()
    lines = [": ping", "event: x", 'data: {"a":', 'data: {"b": 1}', "data: }", "", "", "data:[DONE]", 'data: {"c": 2}']
    assert [data for line in lines if (data := events.feed(line))] == ['{"a":\n{"b": 1}\n}', "[DONE]", '{"c": 2}']


def test_a_longer_history_begins_with_the_bytes_of_the_shorter() -> None:
    call = ToolCall(id="a", name="edit", arguments='{"path": "a.py"}')
    history = [Message.system("rules"), Message.user("task"), Message.assistant("", [call]), Message.tool(call, "ok")]
    for dialect in (Dialect(), Dialect(tools=False)):
        longer = json.dumps(parameters(Request((*history, Message.assistant("so")), TOOLS), dialect, "m")["messages"])
        for length in range(1, len(history) + 1):
            shorter = json.dumps(parameters(Request(tuple(history[:length]), TOOLS), dialect, "m")["messages"])
            assert longer.startswith(shorter[:-1])
