"""Structured output: validated, corrected once, then given up by name."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict

from agent.model import errors
from agent.model.client import ModelClient
from agent.model.scripted import serve
from agent.model.structured import structured
from agent.model.types import Message

Make = Callable[..., ModelClient]
ASK = [Message.user("plan it")]


class Wanted(BaseModel):
    model_config = ConfigDict(extra="forbid")

    kind: Literal["a", "b"]
    steps: tuple[str, ...] = ()


def play(*steps: dict[str, Any]) -> Any:
    return serve({"sessions": [{"name": "plan", "steps": list(steps)}]})


def test_a_good_reply(client_for: Make) -> None:
    with play({"content": 'Sure:\n```json\n{"kind": "a", "steps": ["x"]}\n```'}) as server:
        result = structured(client_for(server.base_url), ASK, Wanted)
        sent = server.requests[0]["response_format"]["json_schema"]["schema"]
    assert result == Wanted(kind="a", steps=("x",))
    assert sent == Wanted.model_json_schema()


def test_an_example_before_the_answer_is_passed_over(client_for: Make) -> None:
    text = 'A thought {"kind": "zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz"} and {"kind": "b"}'
    with play({"content": text}) as server:
        assert structured(client_for(server.base_url), ASK, Wanted).kind == "b"


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"content": '{"kind": "c"}'}, "`kind`: Input should be 'a' or 'b' (given: 'c')"),
        ({"content": '{"kind": "a", "more": 1}'}, "`more`: Extra inputs are not permitted"),
        ({"content": '{"kind": "a",}'}, "The JSON object is broken"),
        ({"content": "I would rather talk."}, "The reply holds no JSON object"),
        ({"content": '{"kind": "a"', "finish_reason": "length"}, "It was cut off at the output limit"),
        ({"tool_calls": [{"name": "edit"}]}, "It holds tool calls"),
        ({"content": '{"kind": "z"}', "tool_calls": [{"name": "edit"}]}, "`kind`: Input should be 'a' or 'b'"),
        ({"content": ""}, "The reply holds no JSON object"),
        ({"content": f'{{"kind": "{"z" * 79}"}}'}, f"(given: '{'z' * 78}…)"),
        ({"content": f'{{"kind": "{"z" * 78}"}}'}, f"(given: '{'z' * 78}')"),
    ],
)
def test_the_model_is_told_exactly_what_is_wrong(client_for: Make, wrong: dict[str, Any], told: str) -> None:
    with play(wrong, {"expect": told, "content": '{"kind": "b"}'}) as server:
        assert structured(client_for(server.base_url), ASK, Wanted).kind == "b"
        again = server.requests[1]["messages"]
    assert [message["role"] for message in again] == ["user", "assistant", "user"]
    assert all(message["content"] and not message.get("tool_calls") for message in again)


def test_twice_wrong_is_a_named_failure(client_for: Make) -> None:
    with play({"content": "no"}, {"content": '{"kind": "z"}'}) as server:
        with pytest.raises(errors.InvalidOutput, match=r"no usable wanted.*kind"):
            structured(client_for(server.base_url), ASK, Wanted)
        assert len(server.requests) == 2


def test_a_refusal_is_no_wrong_output(client_for: Make) -> None:
    refusal = {"choices": [{"message": {"content": None, "refusal": "I will not"}, "finish_reason": "stop"}]}
    with play({"raw": refusal}) as server, pytest.raises(errors.ContentRefused, match="I will not"):
        structured(client_for(server.base_url), ASK, Wanted)


def test_an_endpoint_without_response_format(client_for: Make) -> None:
    with play({"refuse": ["response_format"], "content": json.dumps({"kind": "a"})}) as server:
        assert structured(client_for(server.base_url), ASK, Wanted).kind == "a"
        assert "JSON schema" in server.requests[1]["messages"][-1]["content"]
