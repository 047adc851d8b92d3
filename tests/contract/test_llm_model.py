"""What every ``Model`` does: the endpoint's client, and the record of what that client did."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.errors import GraftsmithError
from agent.events import EventLog
from agent.model.client import ModelClient
from agent.model.errors import ContextTooLong
from agent.model.link import CallLimits
from agent.model.recorded import RecordedModel
from agent.model.scripted import serve
from agent.model.types import Finish, Message, Model, Reply
from agent.types import ModelEndpoint

KEY = "sk-secret-0123456789"
TOOLS = [{"type": "function", "function": {"name": "edit", "parameters": {"type": "object"}}}]
SCRIPT = {
    "sessions": [
        {
            "name": "fix",
            "steps": [
                {"attempts": [{"status": 503}, {"content": f"the plan, with {KEY}"}]},
                {"tool_calls": [{"name": "edit", "arguments": {"path": "a.py"}}]},
                {"content": "so f", "finish_reason": "length"},
                {"status": 400, "error": "maximum context length is 10"},
            ],
        }
    ]
}


class Conversation:
    """The same calls on any model."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.messages = [Message.system("be brief"), Message.user("fix it")]
        self.replies: list[Reply] = []
        self.shown: list[str] = []
        self.failure: GraftsmithError | None = None

    def hold(self, result: str = "3 passed in 0.12s") -> Conversation:
        for text in ("go on", result, "again", "once more"):
            try:
                reply = self.model.complete(self.messages, tools=TOOLS, on_text=self.shown.append)
            except GraftsmithError as error:
                self.failure = error
                break
            self.replies.append(reply)
            answers = [Message.tool(call, text) for call in reply.tool_calls] or [Message.user(text)]
            self.messages += [reply.as_message(), *answers]
        return self


def events(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Path]:
    """The log of one real conversation."""
    file = tmp_path / "events.jsonl"
    record = EventLog(file, secrets=[KEY])
    with serve(SCRIPT) as server:
        endpoint = ModelEndpoint(base_url=server.base_url, api_key=KEY, model="m")
        with ModelClient(endpoint, events=record, limits=CallLimits(pause_s=0.01)) as client:
            Conversation(client).hold()
    record.close()
    yield file


@pytest.fixture(params=["client", "record"])
def model(request: pytest.FixtureRequest, log: Path) -> Iterator[Model]:
    if request.param == "record":
        yield RecordedModel(events(log))
        return
    with serve(SCRIPT) as server:
        endpoint = ModelEndpoint(base_url=server.base_url, api_key=KEY, model="m")
        with ModelClient(endpoint, limits=CallLimits(pause_s=0.01)) as client:
            yield client


def test_the_same_conversation(model: Model) -> None:
    held = Conversation(model).hold()
    first, second, third = held.replies
    assert first.text.startswith("the plan, with ") and first.finish is Finish.STOP
    assert second.tool_calls[0].name == "edit" and second.finish is Finish.TOOL_CALLS
    assert (third.text, third.whole, third.tool_calls) == ("so f", False, ())
    assert isinstance(held.failure, ContextTooLong) and "HTTP 400" in str(held.failure)
    assert "".join(held.shown) == first.text + third.text
    assert all(reply.usage.output_tokens > 0 and not reply.usage.estimated for reply in held.replies)


def test_the_log_says_everything_and_no_secret(log: Path) -> None:
    assert KEY not in log.read_text()
    first, second, third, fourth = events(log)
    assert [e["kept"] for e in (first, second, third, fourth)] == [0, 2, 4, 6]
    assert [len(e["messages"]) for e in (first, second, third, fourth)] == [2, 2, 2, 2]
    assert len(first["attempts"]) == 1 and "HTTP 503" in first["attempts"][0]
    assert first["tools"]["names"] == ["edit"] and first["model"] == "m" and first["seconds"] >= 0
    assert fourth["reply"] is None and fourth["error"]["class"] == "ContextTooLong"
