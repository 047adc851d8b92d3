"""Replaying a run: where it stops saying what the record says."""

from __future__ import annotations

from typing import Any

import pytest

from agent.model.errors import EmptyReply
from agent.model.recorded import CallLog, RecordedModel, RecordEnded
from agent.model.types import Finish, Message, Reply
from agent.model.wire import Request
from agent.types import CallUsage

HELLO = Message.user("hello")


class Log:
    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = [{"kind": "stage", "stage": "plan"}]

    def emit(self, kind: str, **data: Any) -> None:
        self.events.append({"kind": kind, **data})


def reply(text: str) -> Reply:
    return Reply(text=text, finish=Finish.STOP, usage=CallUsage(model="m", input_tokens=1))


def recorded(*turns: tuple[list[Message], str]) -> RecordedModel:
    log = Log()
    calls = CallLog(log)
    for messages, text in turns:
        calls.begin(Request(tuple(messages)), "m").answered(reply(text))
    return RecordedModel(log.events)


def test_a_faithful_replay() -> None:
    second = [HELLO, Message.assistant("one"), Message.user("tests: 3 passed in 0.12s")]
    model = recorded(([HELLO], "one"), (second, "two"))
    assert model.complete([HELLO]).text == "one"
    assert model.unused == 1
    again = [*second[:2], Message.user("tests: 3 passed in 1.7 s")]
    assert model.complete(again).text == "two"
    assert (model.divergences, model.unused) == ([], 0)


def test_where_it_diverges() -> None:
    model = recorded(([HELLO], "one"), ([HELLO, Message.assistant("one"), Message.user("3 passed")], "two"))
    model.complete([HELLO])
    model.complete([HELLO, Message.assistant("one"), Message.user("1 failed")])
    (divergence,) = model.divergences
    assert (divergence.call, divergence.message) == (2, 2)
    assert str(divergence) == "call 2, message 2: recorded 'user: 3 passed', replayed 'user: 1 failed'"


@pytest.mark.parametrize("messages", [[], [HELLO, HELLO]])
def test_more_or_fewer_messages(messages: list[Message]) -> None:
    model = recorded(([HELLO], "one"))
    model.complete(messages)
    assert model.divergences[0].message == min(len(messages), 1)


def test_a_history_that_was_shortened_in_between() -> None:
    long = [HELLO, Message.assistant("one"), Message.user("x" * 1000)]
    short = [HELLO, Message.assistant("one"), Message.user("[shortened]"), Message.user("go on")]
    model = recorded((long, "a"), (short, "b"))
    model.complete(long)
    assert model.complete(short).text == "b" and model.divergences == []


def test_the_end_of_the_record() -> None:
    with pytest.raises(RecordEnded, match="0 model calls"):
        recorded().complete([HELLO])


def test_a_recorded_failure_is_raised_again() -> None:
    log = Log()
    CallLog(log).begin(Request((HELLO,)), "m").failed(EmptyReply("the model returned no choices", why="w", todo="t"))
    with pytest.raises(EmptyReply, match=r"no choices\. w\. t"):
        RecordedModel(log.events).complete([HELLO])
