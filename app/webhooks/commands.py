"""Find ``/agent …`` in a comment, where a person reading it would see a command.

The comment is read as Markdown: a command stands at the start of a line of a plain paragraph. In quotes (the lazy
continuation of one included), code, lists, headings, HTML comments or a longer word it is talk about commands.
Capital letters, a colon or an odd space, as phones put them there, make no difference.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import islice, pairwise
from typing import NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token

from app.jobs.types import Word

_TRIGGER = re.compile(r"^ {0,3}/agent[:,]?(?=\s|$)", re.MULTILINE | re.IGNORECASE)
_MARK = "\ue000"  # private use: stands for a trigger while Markdown is parsed
_PARAGRAPH_LIMIT = 8_000  # characters; inline Markdown is quadratic in hostile text, and anybody may comment


class Found(NamedTuple):
    """The command of a comment. ``word`` is ``None`` when the word after ``/agent`` is none of ours, and when there are
    several commands: only who wrote them knows what is to come of each."""

    word: Word | None
    text: str
    details: str
    before: str = ""
    """What is said in the comment before the command."""


def find(body: str) -> Found | None:
    """The command in ``body``, or ``None``."""
    body = body.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "\ufffd")
    if not _TRIGGER.search(body) or _MARK in body:
        return None
    lines = body.strip("\n").split("\n")
    # A single line that begins with a command is one, whatever Markdown follows in it.
    blocks = [] if len(lines) == 1 else _blocks("\n".join(lines))
    candidates = _paragraph_lines(blocks) if blocks else (0,)
    found = list(islice(((at, match) for at in candidates if (match := _TRIGGER.match(lines[at]))), 2))
    if not found:
        return None
    number, match = found[0]
    text = lines[number][match.end() :].strip()
    word = Word.named(text) if len(found) == 1 else None
    return Found(word, text, _details(lines, number + 1, blocks), "\n".join(lines[:number]).strip())


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
