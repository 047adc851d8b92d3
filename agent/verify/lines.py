"""Which lines of a text hold code, and which differ from another. Pure."""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from agent.types import Place

T = TypeVar("T")

DIFF_LINES: Final = 6_000
"""The time of a diff grows with the square of the lines; above this all between the common head and tail counts."""
_NOTE: Final = re.compile(r"\s*(//|/\*|\*)")


@dataclass(frozen=True)
class Lines:
    """Of one file, from 1."""

    code: frozenset[int]
    """Those that hold code."""
    ran: frozenset[int]


Seen = Mapping[str, Lines]
"""Path → its lines."""


def code_lines(text: str) -> frozenset[int]:
    """Lines with a word in them that is no comment, where ``//`` and ``/*`` begin one."""
    lines = enumerate(text.split("\n"), 1)
    return frozenset(number for number, line in lines if re.search(r"\w", line) and not _NOTE.match(line))


def changed(old: bytes, new: bytes) -> frozenset[int]:
    """Lines of ``new``, from 1, that ``old`` does not have in their place."""
    head, left, right = between(old.splitlines(), new.splitlines())
    if len(left) + len(right) > DIFF_LINES:
        return frozenset(range(head + 1, head + len(right) + 1))
    blocks = difflib.SequenceMatcher(None, left, right, autojunk=False).get_opcodes()
    return frozenset(head + 1 + at for tag, _, _, b, e in blocks if tag != "equal" for at in range(b, e))


def between(before: Sequence[T], after: Sequence[T]) -> tuple[int, Sequence[T], Sequence[T]]:
    """How many lines both begin with, and what each has between these and those that both end with."""
    head = _common(before, after)
    tail = _common(before[head:][::-1], after[head:][::-1])
    return head, before[head : len(before) - tail], after[head : len(after) - tail]


def _common(one: Sequence[T], other: Sequence[T]) -> int:
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def places(path: str, lines: Iterable[int]) -> tuple[Place, ...]:
    """Lines as places, neighbours together."""
    ordered = sorted(lines)
    groups = itertools.groupby(enumerate(ordered), key=lambda item: item[1] - item[0])
    runs = ([line for _, line in group] for _, group in groups)
    return tuple(Place(path=path, start=run[0], end=run[-1]) for run in runs)
