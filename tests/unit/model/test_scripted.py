"""The scripted server, asked by the real client."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent.errors import UserError
from agent.model import errors
from agent.model.client import ModelClient
from agent.model.script import Script
from agent.model.scripted import serve
from agent.model.types import Finish, Message

Make = Callable[..., ModelClient]
TOOLS = [{"type": "function", "function": {"name": "edit", "parameters": {"type": "object"}}}]


def script(*steps: dict[str, Any], **session: Any) -> dict[str, Any]:
    return {"sessions": [{"name": "fix", "steps": list(steps), **session}]}


def test_the_conversation_is_the_position(client_for: Make) -> None:
    steps = [{"content": "plan"}, {"expect": "go", "tool_calls": [{"name": "edit", "arguments": {"path": "ä"}}]}]
    with serve(script(*steps)) as server:
        client = client_for(server.base_url)
        for _ in range(2):  # a run that is killed and repeated gets the same
            first = client.complete([Message.user("fix it")])
            second = client.complete([Message.user("fix it"), first.as_message(), Message.user("go")], tools=TOOLS)
            assert (first.text, second.finish) == ("plan", Finish.TOOL_CALLS)
            assert json.loads(second.tool_calls[0].arguments) == {"path": "ä"}
        assert len(server.requests) == 4
        assert not first.usage.estimated and first.usage.input_tokens > 0


def test_a_client_may_leave_out_old_replies(client_for: Make) -> None:
    edit = {"tool_calls": [{"name": "edit", "arguments": {"path": "a"}}]}
    with serve(script({"content": "plan"}, edit, {"content": "seen"}, {"content": "end"})) as server:
        client = client_for(server.base_url)
        task, plan = Message.user("fix it"), client.complete([Message.user("fix it")]).as_message()
        edited = client.complete([task, plan, Message.user("go")], tools=TOOLS)
        short = [task, edited.as_message(), Message.tool(edited.tool_calls[0], "done")]
        seen = client.complete(short, tools=TOOLS)
        assert seen.text == "seen"
        assert client.complete([*short, seen.as_message(), Message.user("go on")]).text == "end"


def test_sessions_are_chosen_by_what_stands_at_the_beginning(client_for: Make) -> None:
    sessions = [
        {"name": "one", "when": ["median", "issue"], "steps": [{"content": "1"}, {"content": "1b"}]},
        {"name": "two", "when": "parser", "steps": [{"content": "2"}]},
    ]
    with serve({"sessions": sessions}) as server:
        client = client_for(server.base_url)
        assert client.complete([Message.system("issue"), Message.user("the median")]).text == "1"
        assert client.complete([Message.user("the parser")]).text == "2"
        later = [Message.user("issue: median"), Message.assistant("1"), Message.user("the parser")]
        assert client.complete(later).text == "1b"
        with pytest.raises(errors.RequestRefused, match="no session of the script"):
            client.complete([Message.user("else")])


def test_a_failed_expectation_names_what_was_expected_and_is_asked_once(client_for: Make) -> None:
    with serve(script({"expect": ["2 failed"], "content": "x"})) as server:
        with pytest.raises(errors.RequestRefused, match=r"session 'fix', step 1.*\['2 failed'\].*'1 passed'"):
            client_for(server.base_url).complete([Message.user("1 passed")])
        assert len(server.requests) == 1


def test_the_end_of_the_script(client_for: Make) -> None:
    with serve(script()) as server, pytest.raises(errors.RequestRefused, match="ends after 0 steps"):
        client_for(server.base_url).complete([Message.user("x")])


def test_failures_on_the_way(client_for: Make) -> None:
    attempts = [
        {"status": 502, "raw": "<h1>Bad</h1>", "content_type": "text/html"},
        {"drop": True},
        {"content": "one two three four", "drop_after": 2},
        {"status": 429, "error": {"message": "slow", "code": "rate_limit_exceeded"}, "headers": {"retry-after": "0"}},
        {"raw": {"choices": [{"message": {"content": "ok"}, "finish_reason": "stop"}]}},
    ]
    with serve(script({"attempts": attempts})) as server:
        client = client_for(server.base_url)
        assert [client.complete([Message.user("x")]).text for _ in range(2)] == ["ok", "ok"]
        assert len(server.requests) == 10


def test_parameters_that_are_refused(client_for: Make) -> None:
    reply = {"refuse": ["tools"], "content": '{"tool": "edit", "arguments": {"n": 1}}'}
    with serve(script(reply)) as server:
        assert client_for(server.base_url).complete([Message.user("x")], tools=TOOLS).tool_calls[0].name == "edit"


@pytest.mark.parametrize(
    ("usage", "estimated"), [(True, False), (False, True), (None, True), ({"prompt_tokens": 3}, True)]
)
def test_usage(client_for: Make, usage: Any, estimated: bool) -> None:
    with serve(script({"content": "words", "usage": usage})) as server:
        assert client_for(server.base_url).complete([Message.user("x")]).usage.estimated is estimated


def test_reasoning_finish_and_ids(client_for: Make) -> None:
    cut = {"content": "so f", "reasoning": "hidden", "finish_reason": "length"}
    calls = {"tool_calls": [{"name": "edit", "id": ""}, {"name": "edit", "id": "a"}, {"name": "edit", "id": "a"}]}
    with serve(script(cut, calls)) as server:
        client = client_for(server.base_url)
        first = client.complete([Message.user("x")])
        assert (first.text, first.finish) == ("so f", Finish.LENGTH)
        second = client.complete([Message.user("x"), first.as_message(), Message.user("go")], tools=TOOLS)
        assert len({call.id for call in second.tool_calls}) == 3


def test_without_streaming() -> None:
    with serve(script({"content": "hi"})) as server:
        body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "x"}]}).encode()
        with urllib.request.urlopen(urllib.request.Request(f"{server.base_url}/chat/completions", body)) as response:
            assert json.load(response)["choices"][0]["message"]["content"] == "hi"
        with urllib.request.urlopen(f"{server.base_url}/models") as response:
            assert [model["id"] for model in json.load(response)["data"]] == ["scripted"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "can't be read"),
        ('{"sessions": [{"name": "a", "steps": [{"contents": "x"}]}]}', "wrong at sessions.0.steps.0.contents"),
        ("[]", "wrong at"),
    ],
)
def test_a_wrong_script_is_named(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "script.json"
    file.write_text(text)
    with pytest.raises(UserError, match=says):
        Script.load(file)


def test_a_missing_script(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="can't be read"):
        Script.load(tmp_path / "none.json")
