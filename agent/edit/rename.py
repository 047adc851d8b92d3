"""A new name for a symbol in one file, changing only what can hardly mean something else."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from agent.edit.text import Text

_QUOTES = "\"'`"
_DEFINES = re.compile(
    r"(?:^|\s)(?:def|class|func|function|fn|fun|type|struct|interface|trait|enum)\s+(?:\([^)]*\)\s*)?$"
)
_OWNER = re.compile(r"(\w+)\s*(?:\.|->|::)\s*$")
_LOOKED_BACK = 120
"""Characters of a line before a use: enough for a definition or an owner, and a file in one line takes no hours."""
_ITSELF = frozenset({"self", "cls", "this"})
_ASSIGNED = re.compile(r"\s*=(?![=>])|\s*:(?!:)[^=]*=(?!=)")


@dataclass(frozen=True)
class Meaning:
    """What a name stands for."""

    name: str
    member: bool = False
    """Reached through a dot: a method or an attribute."""
    variable: bool = False
    owners: Collection[str] = ()
    """Names before the dot that lead to it although it is no member, its module's; of a shared one its class's."""
    shared: bool = False
    """Other classes have members of this name: only what says that it is this class's own is sure."""
    within: Collection[int] = ()
    """Lines of this file that belong to the class of a shared one."""


@dataclass(frozen=True)
class Renamed:
    """The file afterwards, how many places were changed, and the lines of those that were left for a decision."""

    content: bytes
    changed: int
    undecided: tuple[int, ...]


def renamed(data: bytes, meaning: Meaning, to: str) -> Renamed:
    """Give every sure use of a symbol the name ``to``, and name the others.

    Left undecided: the word in quotes (a key, a name looked up at run time), as a keyword argument or an assigned
    variable, and where it is reached through a dot although it is no member, or the other way round.

    Raises:
        NotText: binary.
    """
    file = Text.decode(data)
    pieces = []
    undecided = []
    last = changed = 0
    for place, line in _places(file.text, meaning.name):
        if not _is_sure(file.text, place, meaning, line):
            undecided.append(line)
            continue
        pieces += [file.text[last : place.start()], to]
        last = place.end()
        changed += 1
    content = file.with_text("".join(pieces) + file.text[last:]).encode()
    return Renamed(content, changed, tuple(dict.fromkeys(undecided)))


def lines_with(data: bytes, name: str) -> tuple[int, ...]:
    """The lines that hold the word.

    Raises:
        NotText: binary.
    """
    return tuple(dict.fromkeys(line for _, line in _places(Text.decode(data).text, name)))


def _places(text: str, name: str) -> Iterator[tuple[re.Match[str], int]]:
    """Each with its line, from 1."""
    line, at = 1, 0
    for place in re.finditer(rf"(?<!\w){re.escape(name)}(?!\w)", text):
        line, at = line + text.count("\n", at, place.start()), place.start()
        yield place, line


def _is_sure(text: str, place: re.Match[str], meaning: Meaning, line: int) -> bool:
    before = text[max(0, place.start() - _LOOKED_BACK) : place.start()].rpartition("\n")[2]
    after = text[place.end() : place.end() + 80].split("\n", 1)[0]
    if before and before[-1] in _QUOTES and after[:1] == before[-1]:
        return False
    if meaning.shared:
        return _is_its_own(before, meaning, line)
    if _DEFINES.search(before):
        return True
    if _ASSIGNED.match(after):
        return meaning.variable and not before
    owner = _OWNER.search(before)
    if owner is None:
        return not meaning.member
    return meaning.member or owner[1] in meaning.owners


def _is_its_own(before: str, meaning: Meaning, line: int) -> bool:
    """Where other classes share the name: the definition in the class, what it reaches through itself (not through
    something that it holds), and whatever is reached by the name of the class."""
    owner = _OWNER.search(before)
    if owner is None:
        return line in meaning.within and _DEFINES.search(before) is not None
    itself = owner[1] in _ITSELF and not before[: owner.start()].rstrip().endswith((".", "->"))
    return owner[1] in meaning.owners or (itself and line in meaning.within)
