"""What a change adds to a test file of another language than Python: tests of its own, or something that acts on those
that are there. Pure, by text alone.

Lines that are added are good where they are whole declarations between the others: a test, a helper, an import, a row
of a table; so is another assertion. Anything else stands inside an existing test, or runs before it. Which lines are
new is not always told in one way (a closing bracket above or below is the same), so a group of lines may be taken a few
lines higher or lower.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from agent.verify.lines import changed, places

_LINE_LIMIT: Final = 2_000
_FARTHEST: Final = 20
"""So many lines higher or lower."""
_EMPTY: Final = "''"
# What is not closed goes on to the end: to look for the end again from each place behind it would take the square.
_TEXTS: Final = r"r(?P<raw>#*)\"(?:.*?\"(?P=raw)|.*)|\"(?:\\.|[^\"\\])*\"|`(?:\\.|[^`\\])*`"
_SIGN: Final = r"'(?:\\[^'\n]+|[^'\\\n])'"
_QUOTED: Final = r"'(?:\\.|[^'\\\n])*'"
_COMMENTS: Final = {"//": r"(?P<comment>/\*(?:.*?\*/|.*)|//[^\n]*)", "#": r"(?P<comment>(?<![$\w])#[^\n]*)"}
_PATTERN: Final = re.compile(r"(?<=[=(,:\[!&|?])\s*/(?![/*])(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n\[])+/")
_BOUND: Final = re.compile(
    r"\s*(?:pub |export |default |async |declare )*"
    r"(?:(?P<import>(?:import|use)\b.*)|(?:const|let|var|function|class|func|fn|macro_rules!)(?P<name>[^=(<:]*))",
    re.DOTALL,
)
_NAME: Final = re.compile(r"\b\w+\b(?!\s*(?:\.|::))")
_CALLED: Final = re.compile(r"\b(\w+)\s*(?=[(!.])")
_ROW: Final = re.compile(r"[\[{(\"'`\d&-].*,$|\w+( as \w+)?,$", re.DOTALL)


@dataclass(frozen=True)
class Form:
    """How declarations look in a language.

    Args:
        declares: what a test, or another declaration that may stand in a block of tests, begins with.
        outside: what may stand outside of all blocks; everything where it is empty, as only declarations can.
        depth: number of blocks around a line up to which only declarations can stand.
        comment: begins a comment.
        brackets: blocks are told by brackets, otherwise by their indentation.
        quoted: single quotes hold strings, not one sign.
    """

    declares: str
    outside: str = ""
    depth: int = 0
    comment: str = "//"
    brackets: bool = True
    quoted: bool = False


def strange(old: str, new: str, form: Form) -> Iterator[str]:
    """The first line of each group of added lines that is no declaration by itself, or that gives a name which existing
    lines use another meaning."""
    before, lines = _cut(old), _cut(new)
    added = changed("\n".join(before).encode("utf-8", "replace"), "\n".join(lines).encode("utf-8", "replace"))
    called = frozenset(_CALLED.findall(_bare("\n".join(before), form)))
    depths = _depths(lines, form)
    for place in places("", added):
        ways = _ways(lines, place.start - 1, place.end)
        found = [_first_strange(lines[start:end], depths[start], form, called) for start, end in ways]
        if all(found):
            yield found[0]


def _cut(text: str) -> list[str]:
    return [line[:_LINE_LIMIT].rstrip() for line in text.splitlines()]


def _ways(lines: Sequence[str], start: int, end: int) -> Iterator[tuple[int, int]]:
    """The same addition, told as other lines: from 0, ``end`` behind the last."""
    yield start, end
    for by in range(1, _FARTHEST + 1):
        if start < by or lines[start - by] != lines[end - by]:
            break
        yield start - by, end - by
    for by in range(_FARTHEST):
        if end + by >= len(lines) or lines[start + by] != lines[end + by]:
            break
        yield start + by + 1, end + by + 1


def _first_strange(lines: Sequence[str], around: int, form: Form, called: frozenset[str]) -> str:
    """
    Args:
        around: how many blocks are around them, where brackets tell.
    """
    text = _bare("\n".join(lines), form)
    if "/*" in text or "*/" in text:
        return "a comment that hides what is there"
    around = around if form.brackets else _indent(text)
    statements = _statements(text, form) if form.brackets else _indented(text)
    if statements is None:
        return next(filter(None, map(str.strip, text.splitlines())), "")
    for statement in statements:
        names = _names(statement) if around <= form.depth or form.declares else frozenset()
        if not _is_declaration(statement, around, form) or names & called:
            return statement.strip().splitlines()[0]
    return ""


def _is_declaration(statement: str, around: int, form: Form) -> bool:
    text = statement.strip()
    if re.match(form.declares, text) or _ROW.match(text):
        return True
    if around > form.depth:
        return False
    return not form.outside or re.match(form.outside, text) is not None


def _names(statement: str) -> frozenset[str]:
    """What a declaration gives a meaning to."""
    found = _BOUND.match(statement)
    return frozenset(_NAME.findall(found["import"] or found["name"] or "")) if found else frozenset()


def _bare(text: str, form: Form) -> str:
    """The same lines without strings and comments; of a comment that does not end here, where it begins."""
    single = _QUOTED if form.quoted else _SIGN
    tokens = re.compile(f"{_TEXTS}|{single}|{_COMMENTS[form.comment]}", re.DOTALL)
    plain = tokens.sub(_without, text)
    return _PATTERN.sub(lambda found: _EMPTY + "\n" * found[0].count("\n"), plain) if form.outside else plain


def _without(token: re.Match[str]) -> str:
    said = token["comment"]
    is_open = said is not None and said.startswith("/*") and (len(said) < 4 or not said.endswith("*/"))
    kept = _EMPTY if said is None else "/*" if is_open else ""
    return kept + "\n" * token[0].count("\n")


def _depths(lines: Sequence[str], form: Form) -> list[int]:
    """How many brackets are open before each line, and after the last."""
    return [0, *itertools.accumulate(map(_depth, _bare("\n".join(lines), form).split("\n")))]


def _depth(text: str) -> int:
    return sum(map(text.count, "([{")) - sum(map(text.count, ")]}"))


def _statements(text: str, form: Form) -> list[str] | None:
    """What stands side by side; ``None`` where brackets are not closed in it, or not opened."""
    found: list[list[str]] = []
    depth = 0
    for line in text.splitlines():
        goes_on = found and line.lstrip().startswith("{") and not form.outside
        if not depth and line.strip() and not goes_on:
            found.append([])
        if found:
            found[-1].append(line)
        depth += _depth(line)
        if depth < 0:
            return None
    return None if depth else ["\n".join(lines) for lines in found]


def _indented(text: str) -> list[str]:
    """The same where blocks have no brackets: lines that are indented least, but for those that end a block."""
    lines = [line for line in text.splitlines() if line.strip()]
    least = _indent(text)
    return [line for line in lines if len(line) - len(line.lstrip()) == least and line.strip() not in ("end", "}")]


def _indent(text: str) -> int:
    return min((len(line) - len(line.lstrip()) for line in text.splitlines() if line.strip()), default=0)
