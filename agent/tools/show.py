"""Text of the repository as the model sees it: numbered, cut where it is too long, nothing invisible."""

from __future__ import annotations

import re
from difflib import SequenceMatcher

from agent.edit.text import Text, shown
from agent.tools.base import Limits, ToolContext

_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028\u2029\u202a-\u202e\u2060-\u2069\U000e0000-\U000e007f]"
)

_COMPARED_LINES = 2_000
"""Up to so many, lines that often recur are compared too."""
_MOST_LINES = 50_000
_SPANS = 8
_CLOSE = 5


def text_of(context: ToolContext, path: str) -> str:
    """The text of a file in the draft, line ends as ``\\n``.

    Raises:
        ToolRefusal: no such file, or no text.
    """
    return shown(Text.decode(context.draft.read(path)).text)


def lines_of(text: str) -> list[str]:
    """The lines without their ends; a final newline starts no line."""
    return text.removesuffix("\n").split("\n") if text else []


def moved(context: ToolContext, path: str) -> str:
    """What is said behind a line that the index names: it knows files as the base has them."""
    return " (edited since: lines may have moved)" if path in context.draft.edits else ""


def visible(text: str) -> str:
    """``text`` with control characters, signs that turn the reading direction and hidden tags spelled out."""
    return _INVISIBLE.sub(lambda match: f"\\u{{{ord(match[0]):x}}}", text)


def line(text: str, limits: Limits) -> str:
    """One line, cut when it is very long."""
    if len(text) > limits.line_chars:
        text = f"{text[: limits.line_chars]}…[{len(text) - limits.line_chars} more characters]"
    return visible(text)


def numbered(lines: list[str], first: int, last: int, limits: Limits) -> tuple[str, int]:
    """Lines ``first`` to ``last`` (from 1) with their numbers, and the last one that fitted in."""
    out: list[str] = []
    room = limits.result_chars
    for number in range(first, last + 1):
        one = f"{number}|{line(lines[number - 1], limits)}"
        room -= len(one) + 1
        if room < 0 and out:
            break
        out.append(one)
    return "\n".join(out), first + len(out) - 1


def _joined(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Spans that are close to each other as one."""
    out: list[tuple[int, int]] = []
    for first, end in spans:
        if out and first - out[-1][1] <= _CLOSE:
            out[-1] = (out[-1][0], end)
        else:
            out.append((first, end))
    return out


def changed_lines(before: str, after: str) -> str:
    """Which lines of ``after`` differ, as ``12-15, 40``; empty when lines were only taken away."""
    old, new = before.split("\n"), after.split("\n")
    head = 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    last = len(new) - tail
    size = max(len(old), len(new)) - head - tail
    matcher = SequenceMatcher(None, old[head : len(old) - tail], new[head:last], autojunk=size > _COMPARED_LINES)
    if size > _MOST_LINES:
        spans = [(head + 1, last)]
    else:
        spans = [
            (head + at + 1, head + to) for kind, _, _, at, to in matcher.get_opcodes() if kind != "equal" and to > at
        ]
    spans = _joined(spans)
    if len(spans) > _SPANS:
        spans = [(spans[0][0], spans[-1][1])]
    return ", ".join(f"{first}" if first == end else f"{first}-{end}" for first, end in spans if end >= first)
