"""Tests that stand inside the product's own files, as Rust's do. Pure, by text alone: laid out as rustfmt does.

A test is an item under an attribute that says so, ``#[test]`` and its kin or ``#[cfg(test)]``, with the comments and
attributes above it. It ends where the bracket that it opens is closed at its own indentation.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Final

from agent.verify.blocks import Writing, in_its_lines

_MARK: Final = re.compile(r"#\[(?:cfg\((?:all\()?test\b|(?:\w+::)*(?:test|rstest|test_case|quickcheck|bench)\b)")
_ABOVE: Final = re.compile(r"#\[|//")
_RUST: Final = Writing(long=True)


def may_hold_tests(path: str) -> bool:
    """Whether files of this language can hold tests beside the product."""
    return path.endswith(".rs")


def lines_of_tests(path: str, source: str) -> frozenset[int]:
    """Numbers of the lines that belong to tests, from 1; none for a language that keeps them in files of their own."""
    return frozenset(line + 1 for start, end in _items(path, source.split("\n")) for line in range(start, end))


def inner_tests(path: str, source: str) -> str:
    """The tests that stand in a source file."""
    return _where(source, lines_of_tests(path, source), inside=True)


def product_in(path: str, source: str) -> str:
    """The rest of it."""
    return _where(source, lines_of_tests(path, source), inside=False)


def exchanged(path: str, base: str, change: str) -> str:
    """``base`` with the tests of ``change`` in place of its own. They come last: the order of items means nothing.

    Those that are indented, in a module that is no test itself, stay as they are: they would not be themselves
    elsewhere.
    """
    old, new = base.split("\n"), change.split("\n")
    gone = {line for start, end in _items(path, old) if not _indent(old[start]) for line in range(start, end)}
    kept = [text for line, text in enumerate(old) if line not in gone]
    come = [new[start:end] for start, end in _items(path, new) if not _indent(new[start])]
    return "\n".join(itertools.chain(kept, *come))


def _where(source: str, lines: frozenset[int], *, inside: bool) -> str:
    return "\n".join(line for number, line in enumerate(source.split("\n"), 1) if (number in lines) is inside)


def _items(path: str, lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    """First line of each test, and the line behind its last, from 0; none within another."""
    if not may_hold_tests(path):
        return
    bare = in_its_lines("\n".join(lines), _RUST).split("\n")  # what stands in a string opens and closes nothing
    number = 0
    while number < len(bare):
        if _MARK.match(bare[number].lstrip()):
            end = _end(bare, number)
            yield _start(lines, number), end
            number = end
        else:
            number += 1


def _start(lines: Sequence[str], mark: int) -> int:
    """Comments and attributes above an item belong to it: without it they would stand above nothing."""
    start = mark
    while start and _ABOVE.match(lines[start - 1].lstrip()) and _indent(lines[start - 1]) == _indent(lines[mark]):
        start -= 1
    return start


def _end(lines: Sequence[str], mark: int) -> int:
    """Of lines without strings and comments."""
    indent = _indent(lines[mark])
    item = mark
    while item < len(lines) and (not lines[item].strip() or _ABOVE.match(lines[item].lstrip())):
        item += 1
    if item < len(lines) and lines[item].rstrip().endswith((";", "}", "},")):
        return item + 1
    for number in range(item + 1, len(lines)):
        code = lines[number].strip()
        if _indent(lines[number]) == indent and code.startswith(("}", "]", ")")) and not code.endswith(("{", "[", "(")):
            return number + 1
    return len(lines)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
