"""The tables that tests of other languages than Python go through row by row, and which row may be added to one. Pure.

A list is a table where nothing is done with it but to go through it: one that is expected, or that names what to leave
out, looks just the same and says something else when a row is added.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from agent.verify.blocks import Statement

# It is gone through where it stands, is given to what checks it, or has a name that is used for nothing else.
_THERE: Final = re.compile(
    r"\.each\(\[?$|\bfor\b.*\b(?:of|in) &?(?:vec!)?\[$|\brange (?:\[|map\[).*\{$|^@\w*Source\((?:\w+ ?= ?)?\{$"
)
_THERE_AT_END: Final = re.compile(r"\](?: as const)?\)?\.(?:forEach|each|iter|into_iter)\b")
_CHECKS: Final = r"\b(?:check|test|run|verify)\w*\("
_GIVEN_THERE: Final = re.compile(rf"^{_CHECKS}.*, ?[\w.\[\]]+\{{$")
_NAMED: Final = re.compile(r"(?:^|[\s\]])(\w+)(?:: [^=]+)? ?:?= ?(?=\S)(?!.*=>)")
_GONE_THROUGH: Final = (
    r"\brange NAME\b(?![.\[(])|\bfor\b[^;\n]{0,200} (?:of|in) (?:&mut |&)?NAME\b(?![.\[(])|: NAME\)|\.each\(NAME\)"
    r"|\bNAME\.(?:forEach|each)\(|\bObject\.(?:entries|keys)\(NAME\)(?!\.[^fm])"
    r"|\b(?:in |of )?NAME\s*\.(?:iter|into_iter|entries)\(\)"
    r"(?!\s*\.\s*(?:take|skip|step|rev|last|nth|next|chunks|filter))"
)
_GIVEN: Final = rf"{_CHECKS}(?:[^()\n]*, ?)?NAME\b"
_LEAVES_OUT: Final = re.compile(
    r"skip|ignor|exclu|except|known|allow|todo|fail|flak|broken|expect|pend|unsupported|disab|omit|without|only|but\b",
    re.IGNORECASE,
)
"""How a list is called that says what not to test, or what to find."""
_BESIDE: Final = r"\bNAME(?:: [^=\n]{1,200})? ?:?=(?!=)|\bNAME\[[A-Za-z_]\w*\]"
"""Where it is made, or asked for the row whose turn it is."""
_BODY: Final = r"(?:\bfunc\b[^{}\n]{0,300}|\bfunction\b[^{}\n]{0,300}|=> ?|-> ?|\|[^|{}\n]*\| ?)\{"
"""A function begins, of which nothing runs yet."""
_OPEN_BODY: Final = re.compile(f"{_BODY}$")
_WHOLE_BODY: Final = re.compile(rf"({_BODY})[^{{}}]*\}}")
_ACTS: Final = re.compile(
    r"\b(?:return|throw|break|continue|goto|yield|await|delete)\b|''\$|(?<![=!<>])=(?![=>])|\+\+|--|\}\)?\("
)
"""What a row does beside saying values."""
_CALLED: Final = re.compile(r"\b(?![A-Z])(\w+)\s*(?=[(!.])")
"""But for what is written like a type, which makes a value."""
_KEY: Final = re.compile(r"(?:'([^'\\]*)'|\"([^\"\\]*)\"|(\w+)) ?:")


class Use(Enum):
    """What the tests do with a list."""

    OTHER = 0
    GIVEN = 1
    """It is given to what checks it: fields of one value would look the same."""
    ROWS = 2
    """They go through it row by row, and do nothing else with it."""


def use_of(holder: Statement, number: int, rows: str, scope: str) -> Use:
    """What the tests do with what stands in a block.

    Args:
        holder, number: the statement, and the number of its line behind which the block stands.
        rows: pattern for what opens a list of rows.
        scope: all that can use it, bare.
    """
    opening, first = holder.bare[number], holder.bare[0]
    if not re.search(rows, opening) or _LEAVES_OUT.search(first):
        return Use.OTHER
    if _THERE.search(opening) or _THERE.search(first) or any(map(_THERE_AT_END.match, holder.bare[number + 1 :][:1])):
        return Use.ROWS
    if _GIVEN_THERE.search(opening):
        return Use.GIVEN
    named = _NAMED.search(first)
    if named is None:
        return Use.OTHER
    every, through, given, beside = (
        len(re.findall(pattern.replace("NAME", named[1]), scope))
        for pattern in (r"\bNAME\b", _GONE_THROUGH, _GIVEN, _BESIDE)
    )
    if every != through + given + beside:
        return Use.OTHER
    return Use.ROWS if through else Use.GIVEN if given else Use.OTHER


@dataclass(frozen=True)
class Rows:
    """What the rows of a table are like."""

    kinds: frozenset[str]
    keys: frozenset[str]
    acts: frozenset[str]

    @classmethod
    def of(cls, rows: Sequence[Statement], use: Use) -> Rows | None:
        """``None`` where no row may be added."""
        if use is Use.OTHER or (use is Use.GIVEN and any(map(_key, rows))):
            return None
        acts = (act for row in rows for act in _ACTS.findall(_values(row)))
        return cls(frozenset(map(_kind, rows)), frozenset(filter(None, map(_key, rows))), frozenset(acts))

    def may_have(self, row: Statement, called: frozenset[str]) -> bool:
        """Whether ``row`` begins as they do, has a name of its own, and does nothing that they do not.

        Args:
            called: what it may call.
        """
        said = _values(row)
        named = not self.keys or _key(row) not in {*self.keys, ""}
        return (
            _kind(row) in self.kinds
            and named
            and called.issuperset(_CALLED.findall(said))
            and (self.acts.issuperset(_ACTS.findall(said)))
        )


def _values(row: Statement) -> str:
    """What a row says, without what the functions in it do."""
    lines: list[str] = []
    for line, block in zip(row.bare, row.blocks, strict=True):
        lines += [line, *([] if _OPEN_BODY.search(line) else map(_values, block))]
    return _WHOLE_BODY.sub(r"\1}", "\n".join(lines))


def _kind(row: Statement) -> str:
    """How a row begins."""
    text = row.text
    if _key(row):
        return "key"
    if re.fullmatch(r"[A-Za-z_][\w.:]*,?", text):
        return "name"
    return "0" if re.match(r"-?\d", text) else (re.match(r"(?:new )?[\w.:!&]*\W?", text) or [text[:1]])[0]


def _key(row: Statement) -> str:
    found = _KEY.match(row.lines[0])
    return next(filter(None, found.groups()), "") if found else ""
