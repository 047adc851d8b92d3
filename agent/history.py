"""Keeps a conversation within what the model can hold. Pure.

While there is room, nothing is touched: a history that only grows is what a provider's prompt cache hits on. When
there is none, it is cut back well below the bound at once, so that the cache is lost seldom. In this order, until it is
enough:

1. of the results of older turns, the largest lose all but their beginning;
2. the oldest turns become a digest: what was called and what came of it, a line each. It is made from the history
   itself, costs no call and is the same in a replay;
3. the largest results of the newest turns lose all but their beginning.

What comes before the first reply (the rules, the task) stays as it is, and so do the turns that the caller names.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Iterable, Sequence

from agent.context.fence import fence
from agent.model.tokens import Counter
from agent.model.types import Message, ToolCall

GOAL = 0.6
"""Share of the room that is filled after a cut."""
_NEWEST = 2
"""Turns that are worked with right now."""
_BEGINNING = 200
_LARGE = 2 * _BEGINNING
"""Characters; what is shorter frees next to nothing."""
_LEFT_OUT = "[the rest is left out to save room; call again for it]"
_DIGEST = "Earlier turns, left out to save room; a line for each call, and how what came of it begins:"
_LINES = 80
_LINE = 200
_TELLING = ("path", "name", "to", "query", "text", "glob", "command", "tests", "step", "claim", "start", "end")
"""Arguments that say what a call was about."""


def tokens(messages: Iterable[Message], count: Counter) -> int:
    """What ``messages`` take of a request, four a message for its frame."""
    return sum(4 + count(m.content) + sum(count(c.name + c.arguments) for c in m.tool_calls) for m in messages)


def cut_back(
    messages: Sequence[Message], room: int, count: Counter, *, kept: Collection[Message] = (), seed: str = ""
) -> list[Message]:
    """``messages`` as they are when they fit into ``room`` tokens, else cut back to ``GOAL`` of it, as far as it goes.

    Args:
        kept: messages that stay whole, with the turn that they are part of.
        seed: the run's secret, for the fence around what came from outside.
    """
    out = list(messages)
    if tokens(out, count) <= room:
        return out

    def excess() -> int:
        return tokens(out, count) - int(room * GOAL)

    newest = sum(map(len, _turns(out)[1][-_NEWEST:]))
    out = _shortened(out, len(out) - newest, excess(), count, kept)
    out = _digested(out, excess(), count, kept, seed)
    return _shortened(out, len(out), excess(), count, kept)


def settled(messages: Sequence[Message], end: int, count: Counter) -> list[Message]:
    """``messages`` with every large result before ``end`` cut to its beginning: what was looked up for a question that
    is answered, and would be sent again with each call for the next ones."""
    return _shortened(messages, end, sys.maxsize, count, ())


def _shortened(
    messages: Sequence[Message], end: int, excess: int, count: Counter, kept: Collection[Message]
) -> list[Message]:
    """The largest results before ``end`` without their rest, until ``excess`` tokens are freed."""
    out = list(messages)
    results = [i for i in range(end) if out[i].role == "tool" and len(out[i].content) > _LARGE and out[i] not in kept]
    for place in sorted(results, key=lambda i: -count(out[i].content)):
        if excess <= 0:
            break
        before = out[place]
        out[place] = before.model_copy(update={"content": f"{before.content[:_BEGINNING]}\n{_LEFT_OUT}"})
        excess -= count(before.content) - count(out[place].content)
    return out


def _digested(
    messages: Sequence[Message], excess: int, count: Counter, kept: Collection[Message], seed: str
) -> list[Message]:
    """The oldest turns as a digest, until ``excess`` tokens are freed."""
    head, turns = _turns(messages)
    lines: list[str] = []
    staying: list[Message] = []
    for turn in turns[:-_NEWEST]:
        if excess <= 0 or any(message in kept for message in turn):
            staying += turn
        else:
            excess -= tokens(turn, count)
            lines += _lines(turn)
    if not lines:
        return list(messages)
    if head and head[-1].content.startswith(_DIGEST):
        lines = [*_lines_of(head.pop()), *lines]
    left = len(lines) - _LINES
    lines = [f"- … {left} calls before them", *lines[left:]] if left > 0 else lines
    digest = Message.user(f"{_DIGEST}\n{fence('turns', '', chr(10).join(lines), seed)}")
    return [*head, digest, *staying, *(message for turn in turns[-_NEWEST:] for message in turn)]


def _turns(messages: Sequence[Message]) -> tuple[list[Message], list[list[Message]]]:
    """What comes before the first reply; then each reply with everything up to the next one."""
    head: list[Message] = []
    turns: list[list[Message]] = []
    for message in messages:
        if message.role == "assistant":
            turns.append([message])
        elif turns:
            turns[-1].append(message)
        else:
            head.append(message)
    return head, turns


def _lines(turn: Sequence[Message]) -> list[str]:
    results = {message.tool_call_id: message.content for message in turn if message.role == "tool"}
    said = [f"- you said: {_short(turn[0].content)}"] if turn[0].content.strip() else []
    return said + [f"- {_called(call)}: {_short(results.get(call.id, ''))}" for call in turn[0].tool_calls]


def _lines_of(digest: Message) -> list[str]:
    return [line for line in digest.content.splitlines() if line.startswith("- ")]


def _called(call: ToolCall) -> str:
    try:
        given = json.loads(call.arguments, strict=False)
    except (ValueError, RecursionError):
        given = {}
    known = given if isinstance(given, dict) else {}
    shown = ", ".join(f"{name}={_short(str(known[name]), 60)}" for name in _TELLING if known.get(name))
    return f"{call.name[:60]}({shown})"


def _short(text: str, limit: int = _LINE) -> str:
    """The first line, cut."""
    line = text.strip().partition("\n")[0]
    return line if len(line) <= limit else f"{line[:limit]}…"
