"""What is left of a conversation when there is no room for it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache

from hypothesis import given, settings
from hypothesis import strategies as st

from agent.history import cut_back, settled, tokens
from agent.model.tokens import estimate_tokens
from agent.model.types import Message, ToolCall

COUNT = cache(estimate_tokens)
"""As the loop counts: the same texts over and over."""

HEAD = [Message.system("You work."), Message.user("The task is this."), Message.user("Begin with the plan.")]


def turn(number: int, *sizes: int) -> list[Message]:
    """One reply whose calls have results of so many words."""
    arguments = json.dumps({"path": f"f{number}.py", "content": "x y " * 50})
    calls = [ToolCall(id=f"{number}.{at}", name="read", arguments=arguments) for at, _ in enumerate(sizes)]
    pairs = zip(calls, sizes, strict=True)
    results = [Message.tool(call, f"result of {call.id}\n" + "word " * size) for call, size in pairs]
    return [Message.assistant(f"Turn {number}.", calls), *results]


CONVERSATIONS = st.lists(st.lists(st.integers(0, 800), max_size=3), max_size=12).map(
    lambda sizes: [*HEAD, *(message for number, each in enumerate(sizes) for message in turn(number, *each))]
)


def unanswered(messages: Sequence[Message]) -> set[str]:
    """Ids of calls without a result after them, and of results without a call before them."""
    open_calls: set[str] = set()
    wrong: set[str] = set()
    for message in messages:
        open_calls |= {call.id for call in message.tool_calls}
        if message.role == "tool":
            wrong |= {message.tool_call_id} - open_calls
            open_calls.discard(message.tool_call_id)
    return wrong | open_calls


@settings(max_examples=120)
@given(CONVERSATIONS, st.integers(50, 6_000), st.data())
def test_whatever_is_cut_the_conversation_is_sound(messages: list[Message], room: int, data: st.DataObject) -> None:
    kept = data.draw(st.lists(st.sampled_from(messages), max_size=2))
    cut = cut_back(messages, room, COUNT, kept=kept, seed="seed")
    assert (cut == messages) if tokens(messages, COUNT) <= room else (len(cut) <= len(messages))
    assert cut[:3] == HEAD
    assert all(message in cut for message in kept)
    assert unanswered(cut) == set()
    assert cut_back(messages, room, COUNT, kept=kept, seed="seed") == cut, "the same in a replay"


def test_large_results_go_first_the_largest_before_the_oldest() -> None:
    messages = [*HEAD, *turn(1, 300), *turn(2, 1_500), *turn(3, 10), *turn(4, 400), *turn(5, 400)]
    room = tokens(messages, COUNT) - 1
    cut = cut_back(messages, room, COUNT)
    assert len(cut) == len(messages)
    shortened = [message.tool_call_id for message in cut if "left out to save room" in message.content]
    assert shortened == ["2.0"]


def test_then_the_oldest_turns_become_a_digest() -> None:
    messages = [*HEAD, *(message for number in range(20) for message in turn(number, 60))]
    plan, verdict = messages[len(HEAD)], messages[-8]
    cut = cut_back(messages, 2_500, COUNT, kept=(plan, verdict), seed="seed")
    digest = cut[3].content
    assert digest.startswith("Earlier turns, left out to save room")
    assert "<<<turns " in digest
    assert "- you said: Turn 1." in digest
    assert "- read(path=f1.py): result of 1.0" in digest
    assert "Turn 0." not in digest, "the plan's turn is there itself"
    assert cut[4] == plan
    assert cut[-4:] == messages[-4:]


def test_arguments_that_nobody_can_read_have_a_line_too() -> None:
    odd = [ToolCall(id=text[:9], name="read", arguments=text) for text in ("[" * 100_000, '{"path": ', "5", "")]
    turns = [[Message.assistant("", [call]), Message.tool(call, "wrong arguments")] for call in odd]
    messages = [*HEAD, *(message for each in turns for message in each), *turn(1, 60), *turn(2, 60)]
    digest = cut_back(messages, 600, COUNT)[3].content
    assert digest.count("- read(): wrong arguments") == 4


def lines_of(messages: Sequence[Message]) -> list[str]:
    (digest,) = (message.content for message in messages if message.content.startswith("Earlier turns"))
    head, *lines, _ = digest.splitlines()[1:]
    assert head.startswith("<<<turns ")
    return lines


def test_a_line_of_the_digest_says_what_the_call_was_about_and_what_was_said_with_it() -> None:
    told = {
        "name": "C.add",
        "to": "plus",
        "query": "adding",
        "text": "a + b",
        "glob": "*.py",
        "command": "make lint",
        "tests": ["test_a"],
        "step": "2",
        "claim": "done",
        "start": 3,
        "end": 9,
        "content": "not this",
    }
    long = ToolCall(id="long", name="read", arguments=json.dumps({"path": "x" * 60, "query": "y" * 61}))
    call = ToolCall(id="a", name="any", arguments=json.dumps(told))
    turns = [
        *(Message.assistant("", [call]), Message.user("- a remark of ours"), Message.tool(call, "- a list\nof two")),
        *(Message.assistant("", [long]), Message.tool(long, "r" * 201)),
    ]
    messages = [*HEAD, *turns, *turn(1, 60), *turn(2, 60)]
    once = cut_back(messages, 500, COUNT)
    line = (
        "- any(name=C.add, to=plus, query=adding, text=a + b, glob=*.py, command=make lint, tests=['test_a'], step=2, "
        "claim=done, start=3, end=9): - a list"
    )
    other = f"- read(path={'x' * 60}, query={'y' * 60}…): {'r' * 200}…"
    assert lines_of(once) == [line, other]
    again = cut_back([*once, *turn(3, 60), *turn(4, 60)], 500, COUNT)
    assert lines_of(again)[:3] == [line, other, "- you said: Turn 1."]


def test_digests_are_joined_and_stay_short() -> None:
    messages = list(HEAD)
    for number in range(200):
        messages += turn(number, 60)
        messages = cut_back(messages, 6_000, estimate_tokens, seed="seed")
    digests = [message for message in messages if message.content.startswith("Earlier turns")]
    assert len(digests) == 1
    assert "calls before them" in digests[0].content
    assert digests[0].content.count("\n- ") <= 81
    assert "result of 150.0" in digests[0].content


def test_at_last_the_newest_results_are_shortened() -> None:
    messages = [*HEAD, *turn(1, 2_000)]
    cut = cut_back(messages, 500, COUNT)
    assert "left out" in cut[-1].content
    assert cut[:-1] == messages[:-1]


def test_what_was_looked_up_for_an_answered_question_is_cut_and_what_comes_before_and_after_stays() -> None:
    first, second = turn(1, 400, 3), turn(2, 400)
    question = Message.user("And where?")
    cut = settled([*HEAD, *first, question, *second], 6, COUNT)
    assert cut[:4] == [*HEAD, first[0]] and cut[5:] == [first[2], question, *second]
    assert cut[4].content.endswith("call again for it]") and len(cut[4].content) < 300
    assert settled(cut, 6, COUNT) == cut, "a provider's cache is lost once"
