"""Find ``/agent …`` in a comment, where a person reading it would see a command.

The comment is read as Markdown: a command stands at the start of a line of a plain paragraph. In quotes (the lazy
continuation of one included), code, lists, headings, HTML comments or a longer word it is talk about commands.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token

from app.jobs.types import Word

_TRIGGER = re.compile(r"^ {0,3}/agent(?=[ \t]|$)", re.MULTILINE)
_MARK = "\ue000"  # private use: stands for a trigger while Markdown is parsed
_PARAGRAPH_LIMIT = 8_000  # characters; inline Markdown is quadratic in hostile text, and anybody may comment
_WORDS = {word.value: word for word in Word}


class Found(NamedTuple):
    """The first command of a comment. ``word`` is ``None`` when the word after ``/agent`` is none of ours."""

    word: Word | None
    text: str
    details: str
    before: str = ""
    """What is said in the comment before the command."""


def find(body: str) -> Found | None:
    """The first command in ``body``, or ``None``."""
    body = body.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "\ufffd")
    if not _TRIGGER.search(body) or _MARK in body:
        return None
    lines = body.strip("\n").split("\n")
    # A single line that begins with a command is one, whatever Markdown follows in it.
    blocks = [] if len(lines) == 1 else _blocks("\n".join(lines))
    for number in _paragraph_lines(blocks) if blocks else (0,):
        if match := _TRIGGER.match(lines[number]):
            text = lines[number][match.end() :].strip()
            first = text.split(maxsplit=1)[0].lower() if text else ""
            before = "\n".join(lines[:number]).strip()
            return Found(_WORDS.get(first), text, _details(lines, number + 1, blocks), before)
    return None


def talk(body: str) -> str:
    """What ``body`` says to people: all but its command, and what belongs to that."""
    found = find(body)
    return body if found is None else found.before


def _blocks(body: str) -> list[Token]:
    # Inline parsing is left to the paragraphs that hold a candidate: it is the expensive part of hostile Markdown.
    return _parser(inline=False).parse(body)


@cache
def _parser(*, inline: bool) -> MarkdownIt:
    parser = MarkdownIt("commonmark")
    return parser if inline else parser.disable("inline")


def _paragraph_lines(blocks: list[Token]) -> Iterator[int]:
    """Numbers of the source lines that begin with a trigger in plain text of a top-level paragraph."""
    for before, token in pairwise(blocks):
        if before.type == "paragraph_open" and before.level == 0 and token.map and _TRIGGER.search(token.content):
            for offset in _live_lines(token.content):
                yield token.map[0] + offset


def _live_lines(paragraph: str) -> Iterator[int]:
    """Numbers of the lines whose trigger Markdown shows as plain text, not inside code, HTML or a link."""
    lines = paragraph[:_PARAGRAPH_LIMIT].split("\n")
    marked = "\n".join(_TRIGGER.sub(f"{_MARK}{number}{_MARK}", line) for number, line in enumerate(lines))
    for token in _parser(inline=True).parseInline(marked)[0].children or []:
        if token.type == "text" and token.level == 0 and (match := re.match(f"{_MARK}(\\d+){_MARK}", token.content)):
            yield int(match[1])


def _details(lines: list[str], start: int, blocks: list[Token]) -> str:
    """What follows the command, without quotes (other people's words) and HTML blocks (unseen words)."""
    left_out = {
        number
        for token in blocks
        if token.level == 0 and token.map and token.type in ("blockquote_open", "html_block")
        for number in range(*token.map)
    }
    return "\n".join(line for number, line in enumerate(lines[start:], start) if number not in left_out).strip()
