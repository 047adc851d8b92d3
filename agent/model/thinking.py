"""Reasoning that models write into their answer: found here, and never handed on."""

from __future__ import annotations

import re

_NAMES = "think|thinking|thought|reasoning"
_OPEN = re.compile(rf"<({_NAMES})>", re.IGNORECASE)
_BLANK = re.compile(r"\s*")
_LONGEST_OPEN = max(len(name) for name in _NAMES.split("|")) + 2
# Some chat templates open the block in the prompt, so that only its end is written, on a line of its own.
_LONE_CLOSE = re.compile(rf"^[ \t]*</(?:{_NAMES})>[ \t]*$", re.IGNORECASE | re.MULTILINE)


def without_reasoning(text: str) -> str:
    """``text`` less the reasoning blocks that it begins with. A block that never ends takes the whole text.

    Tags further on are content: an answer may well be about them.
    """
    start = _visible_from(text)
    if start is None:
        return "" if _OPEN.match(text.lstrip()) else text
    lone = _LONE_CLOSE.search(text, start)
    if lone and not _OPEN.search(text, start, lone.start()):
        start = lone.end()
    return text[start:].lstrip() if start else text


def _visible_from(text: str) -> int | None:
    """Where the answer begins; ``None`` while a block is open or may still be beginning."""
    start = 0
    while True:
        begin = _BLANK.match(text, start).end()  # type: ignore[union-attr]  # it always matches
        opened = _OPEN.match(text, begin)
        if opened:
            closed = re.compile(f"</{opened[1]}>", re.IGNORECASE).search(text, opened.end())
            if closed is None:
                return None
            start = closed.end()
            continue
        head = text[begin : begin + _LONGEST_OPEN]
        if not head or (head[0] == "<" and ">" not in head and len(head) < _LONGEST_OPEN and _may_open(head)):
            return None
        return start


def _may_open(head: str) -> bool:
    return any(f"<{name}>".startswith(head.lower()) for name in _NAMES.split("|"))


class VisibleText:
    """The same for text that arrives in pieces: holds back what may be reasoning."""

    def __init__(self) -> None:
        self._held = ""
        self._open = False
        self._inside = False

    def feed(self, piece: str) -> str:
        """The part of the text so far that can be shown now."""
        if self._open:
            return piece
        self._held += piece
        # Inside a block only the end of a tag can change anything; without this a long one would be quadratic.
        if self._inside and ">" not in piece:
            return ""
        start = _visible_from(self._held)
        if start is None:
            self._inside = bool(_OPEN.match(self._held.lstrip())) and not self._held.rstrip().endswith(">")
            return ""
        self._open = True
        shown, self._held = self._held[start:], ""
        return shown.lstrip() if start else shown
