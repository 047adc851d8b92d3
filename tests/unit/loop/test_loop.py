"""The conversation: every call gets one answer, and it always ends."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest

from agent import loop
from agent.budget import BudgetReached
from agent.history import tokens
from agent.loop import MAX_IDLE, MAX_SAME, Conversation, Stuck
from agent.model.errors import ContextTooLong
from agent.model.tokens import estimate_tokens
from agent.model.types import Finish, Message, Reply, ToolCall
from agent.tools import REGISTRY, Claim, ToolContext
from agent.types import Budget, CallUsage
from tests.unit.loop.conftest import Converse, answers, call, concluded, reply, said

FIX = call("edit", path="src/calc.py", edits=[{"search": "a - b", "replace": "a + b"}])
WRONG = call("edit", path="src/calc.py", edits=[{"search": "nowhere", "replace": "x"}])
DONE = call("finish", summary="It adds.", files={"src/calc.py": "the sign"})


def test_edits_and_finish_in_one_reply(converse: Converse, context: ToolContext) -> None:
    conversation = converse(reply(call("read", path="README.md"), FIX, DONE))
    finished = loop.work(conversation, REGISTRY, context)
    assert concluded(finished).claim is Claim.DONE
    assert b"a + b" in context.draft.read("src/calc.py")
    assert conversation.meter.usage.calls == 1
    assert len(answers(conversation)) == 2
    # The call of finish waits for the harness.
    conversation.answer(finished.call, "Not accepted.")
    assert conversation.messages[-1].tool_call_id == finished.call.id


def test_a_failed_call_keeps_the_reply_from_finishing(converse: Converse, context: ToolContext) -> None:
    conversation = converse(reply(FIX, WRONG, DONE), reply(DONE))
    loop.work(conversation, REGISTRY, context)
    assert conversation.meter.usage.calls == 2
    made, refused, not_finished = answers(conversation)
    assert made.startswith("src/calc.py changed")
    assert "No match" in refused
    assert "a call before it in the same reply failed" in not_finished
    assert b"a + b" in context.draft.read("src/calc.py")


def test_a_failed_call_stops_only_what_ends_the_reply(converse: Converse, context: ToolContext) -> None:
    wrong, look = call("read", path="nowhere.py"), call("read", path="README.md")
    conversation = converse(reply(wrong, FIX, look, DONE), reply(DONE))
    assert concluded(loop.work(conversation, REGISTRY, context)).summary == "It adds."
    told = answers(conversation)
    assert told[2].startswith("README.md\n1|") and told[3].startswith("Not taken: a call before it")
    assert context.draft.edits, "what could be done is done"


def test_what_comes_after_finish_is_not_run(converse: Converse, context: ToolContext) -> None:
    conversation = converse(reply(FIX, DONE, call("delete", path="README.md")))
    loop.work(conversation, REGISTRY, context)
    assert "README.md" in context.draft
    assert answers(conversation)[-1].startswith("Not run")


def test_the_same_call_with_the_same_result_ends(converse: Converse, context: ToolContext) -> None:
    conversation = converse(*[reply(WRONG)] * (MAX_SAME + 1))
    with pytest.raises(Stuck, match="edit call 4 times"):
        loop.work(conversation, REGISTRY, context)
    assert conversation.meter.usage.calls == MAX_SAME


def test_the_same_call_with_another_result_goes_on(converse: Converse, context: ToolContext) -> None:
    look = call("diff")
    edits = [call("write", path="a.txt", content=f"{n}\n") for n in range(MAX_SAME + 2)]
    conversation = converse(*[reply(edit, look) for edit in edits], reply(DONE))
    assert concluded(loop.work(conversation, REGISTRY, context)).summary == "It adds."


def test_nothing_of_a_truncated_reply_is_done(converse: Converse, context: ToolContext) -> None:
    cut = {**reply(FIX), "finish_reason": "length"}
    conversation = converse(cut, reply(FIX, DONE))
    loop.work(conversation, REGISTRY, context)
    assert "cut off at the output limit" in said(conversation)[0]
    assert len(answers(conversation)) == 1


def test_replies_without_an_action_end(converse: Converse, context: ToolContext) -> None:
    conversation = converse(*[{"content": "I think about it."}] * (MAX_IDLE + 1))
    with pytest.raises(Stuck, match="3 replies in a row") as caught:
        loop.work(conversation, REGISTRY, context)
    assert caught.value.why == "I think about it."
    assert all("no tool call" in text for text in said(conversation))


def test_an_action_in_between_starts_the_count_again(converse: Converse, context: ToolContext) -> None:
    idle, look = {"content": "Hm."}, reply(call("diff"))
    conversation = converse(idle, look, idle, look, idle, reply(FIX, DONE))
    loop.work(conversation, REGISTRY, context)
    assert conversation.meter.usage.calls == 6


def test_the_model_is_told_once_to_wrap_up(converse: Converse, context: ToolContext) -> None:
    conversation = converse(
        *[reply(call("read", path="README.md", end=n)) for n in range(1, 7)], budget=Budget(steps=5)
    )
    with pytest.raises(BudgetReached):
        loop.work(conversation, REGISTRY, context)
    assert conversation.meter.usage.calls == 5
    (told,) = said(conversation)
    assert "1 of 5 model calls are left" in told
    at = next(n for n, message in enumerate(conversation.messages) if message.content == told)
    assert sum(message.role == "assistant" for message in conversation.messages[:at]) == 4


class Narrow:
    """A model that can hold so many characters of messages."""

    def __init__(self, window: int) -> None:
        self.window = window
        self.seen: list[Sequence[Message]] = []

    def complete(self, messages: Sequence[Message], **_: Any) -> Reply:
        if sum(len(message.content) for message in messages) > self.window:
            raise ContextTooLong("the conversation is too long")
        self.seen.append(tuple(messages))
        return Reply(text="ok", finish=Finish.STOP, usage=CallUsage(model="narrow"))


def _with_results(converse: Converse, model: Narrow, *sizes: int) -> Conversation:
    """A turn for each result of so many characters."""
    conversation = converse({"content": "unused"})
    conversation.model = model
    for number, size in enumerate(sizes):
        asked = ToolCall(id=str(number), name="read", arguments='{"path": "a.py"}')
        conversation.messages += [Message.assistant("", [asked]), Message.tool(asked, "some text " * (size // 10))]
    return conversation


def test_a_model_that_holds_less_than_thought_is_asked_again_with_less(converse: Converse) -> None:
    model = Narrow(6_000)
    conversation = _with_results(converse, model, 5_000, 100, 3_000, 500)
    conversation.ask()
    first, small, late, last = [message.content for message in model.seen[0] if message.role == "tool"]
    assert "left out" in first
    assert (len(small), len(late), len(last)) == (100, 3_000, 500)
    # What was learnt holds for the next call, which is not refused first.
    conversation.messages += _with_results(converse, model, 5_000).messages[-2:]
    conversation.ask()
    assert len(model.seen) == 2


def test_as_many_rounds_as_it_takes(converse: Converse) -> None:
    model = Narrow(3_000)
    conversation = _with_results(converse, model, *[5_000] * 8)
    conversation.ask()
    assert [message.content for message in model.seen[0]][:2] == ["You work.", "The task."]
    assert model.seen[0][2].content.startswith("Earlier turns")


def test_a_conversation_that_can_not_be_shortened_ends(converse: Converse) -> None:
    conversation = _with_results(converse, Narrow(10), 100, 100)
    with pytest.raises(ContextTooLong):
        conversation.ask()


def test_while_there_is_room_requests_only_grow(converse: Converse) -> None:
    """The stable prefix: all of the request before, but for the few requests that follow a cut."""
    model = Narrow(10**9)
    conversation = converse({"content": "unused"})
    conversation.model, conversation.room = model, 5_000
    for _ in range(60):
        conversation.messages += _with_results(converse, model, 1_000).messages[-2:]
        conversation.ask()
    pairs = list(pairwise(model.seen))
    cuts = sum(tuple(later[: len(earlier)]) != tuple(earlier) for earlier, later in pairs)
    assert 1 <= cuts <= 12
    assert all(tokens(messages, estimate_tokens) <= 5_000 for messages in model.seen)
