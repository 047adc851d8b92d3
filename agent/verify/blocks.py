"""A program's text as statements within statements, told by its brackets or its indentation. Pure; there is no parser.

What is read is what decides whether one text is another with more in it: which lines belong together, and what stands
around them. Comments and blank lines are left out, a string of several lines is one line.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

_DEEPEST: Final = 60
"""Blocks within blocks; what is deeper is taken as if it stood side by side."""
_EMPTY: Final = "''"
_WITH_CODE: Final = "''$"
# What is not closed goes on to the end: to look for the end again from each place behind it would take the square.
_RAW: Final = r"(?<!\w)[bc]?r(?P<raw>#*)\"(?:.*?\"(?P=raw)|.*)"
_LITERAL: Final = r"`(?:\\.|[^`\\])*(?:`|\\?\Z)"
_LONG: Final = r"\"(?:\\.|[^\"\\])*(?:\"|\\?\Z)"
_SHORT: Final = r"\"(?:\\[^\n]|[^\"\\\n])*\"?"
_SIGN: Final = r"'(?:\\[^'\n]+|[^'\\\n])'"
_QUOTED: Final = r"'(?:\\[^\n]|[^'\\\n])*'?"
_COMMENTS: Final = {"//": r"/\*(?:.*?\*/|.*)|//[^\n]*", "#": r"(?<![$\w])#[^\n]*"}
_PATTERN: Final = r"(?<=[=(,:\[!&|?])[ \t]*/(?![/*])(?:\\[^\n]|\[(?:\\[^\n]|[^\]\\\n]){0,200}\]|[^/\\\n\[]){1,500}/"
_GOES_ON: Final = re.compile(r"\??\.(?!\.)|&&|\|\||[?:+*/-] |=")
"""How a line begins that belongs to the one before."""
_UNFINISHED: Final = re.compile(
    r"(?:[=*/%^:.]|(?<!\+)\+|(?<!-)-|=>| \?|&&|\|\||\b(?:return|else|do|await|new|throw|and|or|not|typeof))$"
    r"|^#!?\[.*\]$|^@\w[\w.]*(?:\(.*\))?$"
    r"|(?:\}\s*)?(?:else\s+)?(?:if|for|while)\b.*\)$"
)
"""A line to which the next one belongs."""
_CLOSES: Final = re.compile(r"(?:end|else|elsif|elif|rescue|ensure|when|in|fi|done|esac|then|do)\b|[)\]}]")
"""How a line begins that belongs to the block above it, where indentation tells."""


@dataclass(frozen=True)
class Writing:
    """How a language is written.

    Args:
        comment: begins a comment.
        brackets: blocks are told by brackets, otherwise by their indentation.
        quoted: single quotes hold strings, not one sign.
        long: double quotes may hold several lines.
        patterns: patterns stand between slashes.
    """

    comment: str = "//"
    brackets: bool = True
    quoted: bool = False
    long: bool = False
    patterns: bool = False


@dataclass
class Statement:
    """Lines of its own, with a block behind each (mostly an empty one): ``if (a) {`` … ``} else {`` … ``}``."""

    lines: list[str] = field(default_factory=list)
    """As they are written, but for indentation and a comma at the end."""
    bare: list[str] = field(default_factory=list)
    """The same without strings and comments."""
    blocks: list[list[Statement]] = field(default_factory=list)

    @cached_property
    def text(self) -> str:
        """All of it, bare."""
        return "\n".join(self._through(self.bare, lambda inner: inner.text))

    @cached_property
    def written(self) -> str:
        """All of it, as it is written; equal for two statements that are."""
        return "\n".join(self._through(self.lines, lambda inner: f" {inner.written}"))

    def without(self, drop: Callable[[str], bool]) -> Statement:
        """The same without those of its own lines, with no block behind them, that ``drop`` names by what is bare."""
        kept = [at for at, line in enumerate(self.bare) if self.blocks[at] or not drop(line)]
        return Statement(
            [self.lines[at] for at in kept], [self.bare[at] for at in kept], [self.blocks[at] for at in kept]
        )

    def _through(self, lines: Sequence[str], told: Callable[[Statement], str]) -> Iterator[str]:
        for line, block in zip(lines, self.blocks, strict=True):
            yield line
            yield from map(told, block)

    def _add(self, line: _Line) -> None:
        self.lines.append(line.written)
        self.bare.append(line.bare)
        self.blocks.append([])


def statements(text: str, writing: Writing) -> list[Statement]:
    """What stands side by side in ``text``, each with what is in it."""
    root = Statement([""], [""], [[]])
    opened: list[tuple[float, Statement]] = [(float("-inf"), root)]
    for line in _lines(text, writing):
        while opened[-1][0] > line.level:
            opened.pop()
        level, above = opened[-1]
        if level == line.level:
            if line.joins or _is_unfinished(above, line):
                above._add(line)
                continue
            opened.pop()
        made = Statement()
        made._add(line)
        opened[-1][1].blocks[-1].append(made)
        if len(opened) < _DEEPEST:
            opened.append((line.level, made))
    return root.blocks[0]


def bare(text: str, writing: Writing) -> str:
    """The text without its strings and comments."""
    return _tokens(writing).sub(_without, text)


def in_its_lines(text: str, writing: Writing) -> str:
    """The text without what is in its strings and comments, each line where it was."""
    return _tokens(writing).sub(lambda token: _without(token) + "\n" * token[0].count("\n"), text)


@dataclass(frozen=True)
class _Line:
    written: str
    bare: str
    level: int
    """How deep it reaches out: of brackets, the fewest that are open anywhere in it."""
    joins: bool
    """It goes on with the statement above it on the same level."""


def _lines(text: str, writing: Writing) -> Iterator[_Line]:
    tokens = _tokens(writing)
    together = tokens.sub(lambda token: token[0].replace("\n", "\0"), text.replace("\0", " "))
    depth = 0
    for line in together.split("\n"):
        plain = tokens.sub(_without, line).strip()
        if not plain:
            continue
        written = line.replace("\0", "\n").strip().removesuffix(",")
        goes_on = _GOES_ON.match(plain) is not None
        if writing.brackets:
            lowest, end = _reach(plain, depth)
            yield _Line(written, plain, lowest, goes_on or lowest < depth)
            depth = end
        else:
            yield _Line(written, plain, len(line) - len(line.lstrip()), goes_on or _CLOSES.match(plain) is not None)


def _reach(line: str, depth: int) -> tuple[int, int]:
    """How many brackets are open where the fewest are, and at the end."""
    lowest = depth
    for sign in re.findall(r"[(\[{}\])]", line):
        depth += 1 if sign in "([{" else -1
        lowest = min(lowest, depth)
    return lowest, depth


def _is_unfinished(above: Statement, line: _Line) -> bool:
    last = above.bare[-1]
    opens = line.bare.startswith("{") and last[-1] not in ",;{}"
    return not above.blocks[-1] and (opens or _UNFINISHED.search(last) is not None)


@functools.cache
def _tokens(writing: Writing) -> re.Pattern[str]:
    strings: Sequence[str] = (
        *((_RAW, _LONG) if writing.long else (_SHORT,)),
        *(_LITERAL, _QUOTED if writing.quoted else _SIGN),
        *([_PATTERN] if writing.patterns else []),
    )
    return re.compile(f"(?P<comment>{_COMMENTS[writing.comment]})|{'|'.join(strings)}", re.DOTALL)


def _without(token: re.Match[str]) -> str:
    if token["comment"] is not None:
        is_open = token[0].startswith("/*") and (len(token[0]) < 4 or not token[0].endswith("*/"))
        return "/*" if is_open else ""
    return _WITH_CODE if token[0].startswith("`") and "${" in token[0] else _EMPTY
