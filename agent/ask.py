"""Questions about the code: answered from the files of the base commit by a model that can only look."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from agent import prompts
from agent.loop import Conversation, Stuck, Turns
from agent.model.errors import ContentRefused
from agent.model.types import Finish, OnText
from agent.tools import REGISTRY as ALL
from agent.tools import ToolContext
from agent.tree import BaseTree
from agent.types import Place

_READING = ("search", "grep", "find_symbol", "references", "read", "list", "outline")
REGISTRY = {name: ALL[name] for name in _READING}
"""The tools that change nothing and run nothing."""

MAX_CUT = 3
"""Replies in a row that hold neither a whole answer nor a tool call."""
_MAX_PLACES = 50


def _nobody(text: str) -> None:
    return None


@dataclass(frozen=True)
class Asker:
    """Who asks: sees the answer while it is written, and may go on asking."""

    hear: OnText = _nobody
    more: Callable[[str], str] = lambda answer: ""
    """Gets a finished answer and gives the next question; an empty one ends the conversation."""


NOBODY = Asker()
"""One question, and nobody who watches."""


def answer(conversation: Conversation, context: ToolContext, hear: OnText) -> str:
    """Let the model look around until it replies without a tool call: that is the answer.

    Raises:
        Stuck: the same look with the same result four times, or no whole answer in three replies.
        ContentRefused: the model or a filter declined.
        GraftsmithError: whatever the model call raises.
    """
    turns = Turns(conversation, REGISTRY, context, warning="answer_now")
    cut = 0
    while True:
        reply = turns.ask(on_text=hear)
        if reply.finish in (Finish.REFUSAL, Finish.CONTENT_FILTER):
            raise ContentRefused("the model declined the question", why=reply.refusal[:300], todo="Rephrase it")
        if reply.tool_calls:
            cut = 0
            hear("\n" if reply.text else "")
            turns.act(reply)
        elif reply.whole and reply.text.strip():
            return reply.text.strip()
        else:
            cut += 1
            if cut >= MAX_CUT:
                raise Stuck(
                    f"The model gave {cut} replies in a row without an answer",
                    why=f"the last one ended with {reply.finish.value}",
                    todo="Ask for less at once, or use a more capable model",
                )
            hear("\n")
            conversation.say(prompts.render("answer_shorter" if reply.finish is Finish.LENGTH else "answer_now"))


# ── places ───────────────────────────────────────────────────────────────────────────────────────────────────────

_PLACE = re.compile(r"(?<![\w.@+/-])(?P<path>[\w.@+/-]*[\w@+-]):(?P<start>\d{1,7})(?:[-–](?P<end>\d{1,7}))?(?![\w:])")


@dataclass(frozen=True)
class Named:
    """The places that an answer names."""

    there: tuple[Place, ...]
    missing: tuple[str, ...]
    """Lines that a file of the repository does not have, or of a file in one of its folders that is not there."""


def places(text: str, base: BaseTree) -> Named:
    """Every ``path:line`` and ``path:line-line`` in ``text`` that means a file of ``base``, each once."""
    there: dict[Place, None] = {}
    missing: dict[str, None] = {}
    folders = {posixpath.dirname(known) for known in base.entries} - {""}
    for path, start, end in _named(text):
        if path not in base.entries:
            if posixpath.dirname(path) in folders and posixpath.splitext(path)[1]:
                missing[f"{path}:{start}"] = None
            continue  # else a time, a port, a name of something else
        if 1 <= start <= end <= _lines(base, path):
            there[Place(path=path, start=start, end=end)] = None
        else:
            missing[f"{path}:{start}"] = None
    return Named(tuple(there)[:_MAX_PLACES], tuple(missing)[:_MAX_PLACES])


def _named(text: str) -> Iterator[tuple[str, int, int]]:
    for match in _PLACE.finditer(text):
        start = int(match["start"])
        yield match["path"].removeprefix("./"), start, int(match["end"] or start)


def _lines(base: BaseTree, path: str) -> int:
    content = base.content(path)
    return content.count(b"\n") + (not content.endswith(b"\n") and bool(content))
