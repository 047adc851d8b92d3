"""Fixes and tests are read out of two releases as they stand there."""

from __future__ import annotations

import pytest

from tests.real.upstream import Hunk, hunks, only_tests

BEFORE = "def a():\n    x = 1\n    return x\n\n\ndef b():\n    x = 1\n    return x\n"
AFTER = "def a():\n    x = 2\n    return x\n\n\ndef b():\n    x = 3  # sum\n    return x\n"


def test_a_hunk_is_found_by_its_new_lines() -> None:
    """With three lines around it the two would be one; both halves of the file are the same without."""
    before, after = BEFORE.replace("\n\n\n", "\n" * 12), AFTER.replace("\n\n\n", "\n" * 12)
    (hunk,) = hunks(before, after, "# sum")
    assert "x = 3" in hunk.new
    assert "x = 2" not in hunk.new
    assert before.count(hunk.old) == 1


def test_a_hunk_takes_as_much_around_it_as_makes_it_unique() -> None:
    block = "a\n" * 4 + "old\n" + "a\n" * 4
    before = f"one\n{block}two\n{block}"
    after = f"one\n{block}two\n{block.replace('old', 'new')}"
    (hunk,) = hunks(before, after, "new")
    assert before.count(hunk.old) == 1
    assert before.replace(hunk.old, hunk.new) == after


def test_a_hunk_that_is_not_there_is_an_error() -> None:
    with pytest.raises(LookupError, match="absent"):
        hunks(BEFORE, AFTER, "absent")


def test_hunks_are_equal_by_value() -> None:
    assert hunks("a\n", "b\n", "b") == (Hunk("a\n", "b\n"),)


MODULE = '''"""Docstring."""
from __future__ import annotations

import os, sys
from pathlib import (
    Path,
    PurePath as Pure,
)

LIMIT = 3
UNUSED = 4


@fixture
def place():
    return Path(LIMIT)


def helper():
    return sys.path


class Base:
    pass


class TestOne(Base):
    kept = 1

    def setup_method(self):
        helper()

    @mark
    def test_first(self):
        assert UNUSED

    def test_second(self, place):
        assert place


def test_alone():
    assert Pure
'''


def test_a_test_comes_with_what_it_uses_and_nothing_else() -> None:
    made = only_tests(MODULE, ["TestOne.test_second"])
    compile(made, "made", "exec")
    for part in (
        "from __future__ import annotations",
        "import sys\n",
        "import Path\n",
        "LIMIT = 3",
        "@fixture\ndef place",
    ):
        assert part in made
    for part in ("class Base", "class TestOne(Base):", "kept = 1", "def setup_method", "def test_second", "def helper"):
        assert part in made
    for part in ("os", "Pure", "UNUSED", "test_first", "@mark", "test_alone"):
        assert part not in made


def test_a_function_is_found_too() -> None:
    assert only_tests(MODULE, ["test_alone"]).split("\n\n\n")[-1] == "def test_alone():\n    assert Pure\n"


def test_a_test_that_is_not_there_is_an_error() -> None:
    with pytest.raises(LookupError, match="test_third"):
        only_tests(MODULE, ["TestOne.test_third"])
