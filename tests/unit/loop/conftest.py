"""A conversation with a scripted model, and tools on a small repository."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from agent.budget import Meter
from agent.events import EventLog
from agent.loop import Conversation, Finished
from agent.model.client import ModelClient
from agent.model.scripted import serve
from agent.model.types import Message
from agent.tools import Conclusion
from agent.types import Budget, ModelEndpoint
from tests.unit.model.conftest import FAST
from tests.unit.tools.conftest import base, context, index  # noqa: F401

Converse = Callable[..., Conversation]


@pytest.fixture
def converse(tmp_path: Path) -> Iterator[Converse]:
    """A conversation whose model gives the steps as replies; ``budget`` bounds it."""
    with ExitStack() as stack:

        def make(*steps: Mapping[str, Any], budget: Budget | None = None) -> Conversation:
            endpoint = stack.enter_context(serve({"sessions": [{"name": "only", "steps": list(steps)}]}))
            events = EventLog(tmp_path / "events.jsonl")
            stack.callback(events.close)
            meter = Meter(budget or Budget())
            where = ModelEndpoint(base_url=endpoint.base_url, api_key="key-0123456789", model="scripted")
            client = ModelClient(where, meter=meter, events=events, limits=FAST)
            stack.callback(client.close)
            return Conversation(client, meter, events, [Message.system("You work."), Message.user("The task.")])

        yield make


def call(name: str, /, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


def reply(*calls: Mapping[str, Any]) -> dict[str, Any]:
    return {"tool_calls": list(calls)}


def answers(conversation: Conversation) -> list[str]:
    """The results that the model was given, in order."""
    return [message.content for message in conversation.messages if message.role == "tool"]


def said(conversation: Conversation) -> list[str]:
    """What was said to the model after the task."""
    return [message.content for message in conversation.messages if message.role == "user"][1:]


def concluded(finished: Finished | None) -> Conclusion:
    """What the model said when it called ``finish``."""
    assert finished is not None
    assert isinstance(finished.said, Conclusion)
    return finished.said
