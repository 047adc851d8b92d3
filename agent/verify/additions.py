"""What a change adds to a test file of another language than Python: tests of its own, or something that acts on those
that are there. Pure, by text alone.

The old file has to be in the new one, statement by statement and in its order, with others between them. Those are good
where they are declarations: a test, a helper, an import; so are another assertion, and another row of a table that the
tests go through row by row. Anything else stands inside an existing test, or runs before it.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from agent.verify.blocks import Statement, Writing, bare, statements
from agent.verify.tables import Rows, use_of

_DEEPEST: Final = 50
"""Brackets within brackets."""
_LINE_LIMIT: Final = 2_000
"""Characters of an added line that are looked at; a longer one can hide anything."""
_MOST_WAYS: Final = 300
"""So many ways to tell old statements from added ones are followed at a time."""
_MOST_STEPS: Final = 300_000
"""Statements of one file that are compared with another: what takes more was made to."""
_BOUND: Final = re.compile(
    r"\s*(?:pub |export |default |async |declare )*"
    r"(?:(?P<import>(?:import|use)\b.*)|(?:const|let|var|function|class|func|fn|macro_rules!)(?P<name>[^=(<:]*))",
    re.DOTALL,
)
_METHOD: Final = re.compile(
    r"^(?:(?:public|private|protected|internal|static|final|override|open|suspend|synchronized) )*(?:<[^>]*> )?"
    r"(?!return|new|else|throw|assert)[\w.]+(?:<.*>)?(?:\[\])* (\w+) ?\(",
    re.MULTILINE,
)
_NAME: Final = re.compile(r"\b\w+\b(?!\s*(?:\.|::))")
_CALLED: Final = re.compile(r"\b(\w+)\s*(?=[(!.])")
_IMPORTS: Final = re.compile(r"(?:pub )?(?:import|use|export)\b.*[{(]$")
_IMPORTED: Final = re.compile(r"[\w:{}, .']+,?")
_OF_RUNNER: Final = re.compile(r"\bfrom ['\"](?:vitest|@jest/globals|node:test|bun:test)['\"];?$")
_LEAVES: Final = re.compile(r"\b(?:return|throw|raise|break|continue|goto|next|yield|done)\b|[;,]\s*\S|&&|\|\|")
"""What an assertion that is added to a test must not do beside itself."""
_GROUP: Final = re.compile(r"\([^()]*\)|\{[^{}]*\}|\[[^\[\]]*\]")
_IMPORT: Final = re.compile(r"(?:pub )?(?:import|use)\b")
_ABOVE: Final = re.compile(
    r"#\[(?:(?:\w+::)*(?:case|test_case)(?:::\w+)?|allow|expect)(?:\([^#]*\))?\]"
    r"|@(?:Test|Override|SafeVarargs|Nullable|SuppressWarnings\([^@()]*\))"
)
"""What may be added above a declaration: a row of its table, or what tests do not notice."""


@dataclass(frozen=True)
class Form:
    """How declarations look in a language.

    Args:
        declares: what a test, or another declaration that may stand in a block of tests, begins with.
        outside: what may stand outside of all blocks; everything where it is empty, as only declarations can.
        depth: number of blocks around a line up to which only declarations can stand.
        rows: opens a list of rows.
    """

    declares: str
    outside: str = ""
    depth: int = 0
    rows: str = r"\[$"
    writing: Writing = field(default_factory=Writing)


def strange(old: str, new: str, asserts: str, form: Form) -> tuple[str, ...]:
    """The first line of each statement in ``new`` that ``old`` does not have and that is no declaration by itself, or
    that gives a name which existing lines use another meaning; of ``old`` the first that is not in its place.

    Args:
        asserts: what an assertion begins with.
    """
    plain = bare(old, form.writing)
    reading = _Reading(form, asserts, plain, frozenset(_CALLED.findall(plain)))
    try:
        found = reading.compare(statements(old, form.writing), statements(new, form.writing))
    except _TooMuch:
        return ("the file repeats itself too often to be compared",)
    return tuple(dict.fromkeys(found))


class _TooMuch(Exception):
    pass


class _Block(NamedTuple):
    """The block behind one of a statement's lines."""

    of: Statement
    number: int

    @property
    def holds_imports(self) -> bool:
        return _IMPORTS.match(self.of.bare[self.number]) is not None


@dataclass(frozen=True)
class _Reading:
    form: Form
    asserts: str
    old: str
    """The whole old text, bare."""
    called: frozenset[str]
    """Names that it calls, or looks something up in."""
    steps: Iterator[int] = field(default_factory=itertools.count)
    seen: dict[tuple[int, int], tuple[str, ...]] = field(default_factory=dict)
    """What is strange in one statement if it is another, by their ids. Asked again in each block around them, it would
    take twice as long with each block more."""

    def compare(
        self, old: Sequence[Statement], new: Sequence[Statement], around: tuple[_Block, ...] = ()
    ) -> tuple[str, ...]:
        """What is strange in a block, and in those within.

        Every way to find ``old`` in ``new`` is followed at once, each told by how many old statements it has found.

        Args:
            around: the blocks of the old text in which this one stands, from the outside.

        Raises:
            _TooMuch: it would take too long.
        """
        rows = functools.cache(functools.partial(self._rows, old, around))
        old, new = self._without_equal(old, new, around)
        ways, told = {0}, list[str]()
        for statement in new:
            if len(ways) == 1 and max(ways) < len(old) and old[max(ways)].written == statement.written:
                ways = {max(ways) + 1}
                continue
            found = {way + 1 for way in ways if way < len(old) and not self._within(old[way], statement, around)}
            after = found | (ways if self._is_fine(statement, rows, around) else set())
            if not after:
                open_ = [way for way in ways if way < len(old)]
                same = [way for way in open_ if old[way].lines == statement.lines]
                within = self._within(old[same[0]], statement, around) if same else ()
                told += within or [_telling(statement, [old[way] for way in open_])]
                after = {same[0] + 1} if same else ways
            if len(after) > _MOST_WAYS:
                return (*told, statement.lines[0])
            ways = after
        return tuple(told) if told or len(old) in ways else self._missing(old[max(ways)], new, around)

    def _without_equal(
        self, old: Sequence[Statement], new: Sequence[Statement], around: tuple[_Block, ...]
    ) -> tuple[list[Statement], list[Statement]]:
        """Both without the declarations that they have in common: these mean the same in any order."""
        common = Counter(one.written for one in old) & Counter(one.written for one in new)
        return self._less(old, common.copy(), around), self._less(new, common, around)

    def _less(self, those: Sequence[Statement], common: Counter[str], around: tuple[_Block, ...]) -> list[Statement]:
        kept = []
        for statement in those:
            common[statement.written] -= 1
            if common[statement.written] < 0 or not self._declares(statement, around):
                kept.append(statement)
        return kept

    def _missing(self, old: Statement, new: Sequence[Statement], around: tuple[_Block, ...]) -> tuple[str, ...]:
        """What to tell of an old statement that was not found among ``new``."""
        words = {line for line in old.lines if re.search(r"\w", line)}
        alike = (statement for statement in new if not words.isdisjoint(statement.lines))
        return next(filter(None, (self._within(old, statement, around) for statement in alike)), (old.lines[0],))

    def _within(self, old: Statement, new: Statement, around: tuple[_Block, ...]) -> tuple[str, ...]:
        """What is strange in ``new`` if it is ``old`` with something in it."""
        if old.written == new.written:
            return ()
        pair = id(old), id(new)
        if pair not in self.seen:
            self.seen[pair] = self._added(old, new, around)
        return self.seen[pair]

    def _added(self, old: Statement, new: Statement, around: tuple[_Block, ...]) -> tuple[str, ...]:
        if next(self.steps) > _MOST_STEPS:
            raise _TooMuch
        kept = new.without(lambda line: line not in old.bare and _ABOVE.fullmatch(line) is not None)
        if old.lines != kept.lines:
            return (_telling(kept, [old]),)
        pairs = enumerate(zip(old.blocks, kept.blocks, strict=True))
        return tuple(line for at, (a, b) in pairs for line in self.compare(a, b, (*around, _Block(old, at))))

    def _declares(self, statement: Statement, around: tuple[_Block, ...]) -> bool:
        """Whether a statement only makes something known, so that it may stand anywhere in its block."""
        first = statement.bare[0]
        if around and around[-1].holds_imports:
            return _IMPORTED.fullmatch(first) is not None
        if re.match(self.form.declares, first):
            return not (around and _IMPORT.match(first) and "*" in first)
        return len(around) <= self.form.depth and re.match(self.form.outside or r"[^{]", first) is not None

    def _is_fine(self, statement: Statement, rows: Callable[[], Rows | None], around: tuple[_Block, ...]) -> bool:
        """Whether a statement that is added changes nothing for those that were there.

        Args:
            rows: gives those of the table that it is added to, if it is one.
        """
        first = statement.bare[0]
        if any(len(line) > _LINE_LIMIT for line in statement.text.split("\n")):
            return False
        if self._declares(statement, around):
            imported = bool(around) and around[-1].holds_imports
            names = frozenset(_NAME.findall(first)) if imported else _names(statement)
            return names.isdisjoint(self.called) or _OF_RUNNER.search(statement.lines[-1]) is not None
        if re.match(self.asserts, first):
            return not _LEAVES.search(_outermost("\n".join(statement.bare)))
        those = rows()
        return those is not None and those.may_have(statement, self.called)

    def _rows(self, beside: Sequence[Statement], around: tuple[_Block, ...]) -> Rows | None:
        """What the rows of a block are like; ``None`` where it is no table."""
        scope = around[0].of.text if len(around) > 1 else self.old
        return Rows.of(beside, use_of(*around[-1], self.form.rows, scope)) if around else None


def _telling(statement: Statement, olds: Sequence[Statement]) -> str:
    """The line of a statement that says most of what is strange in it."""
    known = {line for old in olds for line in old.lines}
    return next((line for line in statement.lines if line not in known), statement.lines[0])


def _names(statement: Statement) -> frozenset[str]:
    """What a declaration gives a meaning to."""
    found = _BOUND.match(statement.text)
    if found:
        return frozenset(_NAME.findall(found["import"] or found["name"] or ""))
    return frozenset(_METHOD.findall("\n".join(statement.bare)))


def _outermost(text: str) -> str:
    """The text without what is in brackets, as far as these are no deeper than any program's."""
    for _ in range(_DEEPEST):
        text = _GROUP.sub("", text)
    return text
