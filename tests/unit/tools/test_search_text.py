"""Looking for text finds what git finds, in memory or not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent import grep
from agent.errors import UserError
from agent.git import Git, Match
from agent.grep import literal_in, search
from agent.tree import MAX_KEPT_BYTES, BaseTree, Draft
from tests.support.repository import Repository

FILES: dict[str, str | bytes] = {
    "a.py": "def total(a):\n    return a\n",
    "a-b.txt": "Total total\r\nTOTAL",
    "a/b.py": "total = 1\n\n\ntotal = total\n",
    "a/c/d.py": "x = [1]\nfoo(bar)\n",
    "a/c/e.md": "# Total\n",
    "empty.py": "",
    "latin.txt": b"caf\xe9 total\n",
    "late.bin": b"x" * 8_000 + b"\0total\n",
    "logo.png": b"\0total\n",
    "naïve/ü.py": "größe total\n",
    "b[1].py": "total\n",
}


@pytest.fixture(scope="module")
def draft(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Draft]:
    root = tmp_path_factory.mktemp("grep")
    origin = Repository(root / "origin")
    origin.write(FILES)
    (origin.path / "link.py").symlink_to("a.py")
    origin.commit()
    with Git.init(root / "own.git") as git:
        base = BaseTree.load(git, git.fetch(origin.url, "refs/heads/main"))
        yield base.draft().without("a.py").with_file("a/c/d.py", b"total here\nfoo\n").with_file("a/0.py", b"total\n")


def by_git(draft: Draft, text: str, regex: bool, ignore_case: bool, glob: str) -> tuple[Match, ...]:
    where = [f":(glob){glob}"] if glob else []
    return tuple(draft.base.git.grep(draft.tree_id(), text, regex=regex, ignore_case=ignore_case, where=where))


GLOBS = st.lists(
    st.sampled_from(["a", "b", "c", "d.py", "*", "**", "?", "/", ".py", "naïve", "[1]", "e.md"]), max_size=6
)
TEXTS = st.text(st.sampled_from("totalTOTL a=(1)[]#ößé\\.*"), min_size=1, max_size=6)
PATTERNS = st.lists(
    st.sampled_from(
        ["total", "tot", "al", "a", ".", "*", "+", "?", "(", ")", "[a-z]", "[]x]", "^", "$", "|", "{2}", "\\(", "o"]
    ),
    min_size=1,
    max_size=6,
).map("".join)


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(TEXTS, st.booleans(), GLOBS.map("".join))
def test_a_text_is_found_as_git_finds_it(draft: Draft, text: str, ignore_case: bool, glob: str) -> None:
    try:
        expected = by_git(draft, text, False, ignore_case, glob)
    except UserError:  # a glob that leads out of the repository
        return
    assert search(draft, text, ignore_case=ignore_case, glob=glob) == expected


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(PATTERNS, st.booleans(), st.sampled_from(["", "**/*.py", "a/**"]))
def test_a_pattern_is_found_as_git_finds_it(draft: Draft, pattern: str, ignore_case: bool, glob: str) -> None:
    try:
        expected = by_git(draft, pattern, True, ignore_case, glob)
    except UserError:
        return
    assert search(draft, pattern, regex=True, ignore_case=ignore_case, glob=glob) == expected


@pytest.mark.parametrize(
    ("pattern", "literal"),
    [
        ("def total", "def total"),
        (r"def \w+_connect\(", "_connect("),
        ("tota?l", "tot"),
        ("totals*", "total"),
        ("(total)?", ""),
        ("one|other", ""),
        ("[[:alpha:]]total[]x]y", "total"),
        (r"a{2,3}bcd", "bcd"),
        (r"\btotal\b", "total"),
        ("to", ""),
        ("(total", ""),
    ],
)
def test_what_a_pattern_must_hold(pattern: str, literal: str) -> None:
    assert literal_in(pattern) == literal


@settings(max_examples=300, deadline=None)
@given(PATTERNS, st.text(st.sampled_from("total ()"), max_size=12))
def test_what_matches_holds_the_literal(pattern: str, line: str) -> None:
    try:
        matches = re.search(pattern, line) is not None
    except re.error:
        return
    assert not matches or literal_in(pattern) in line


def test_a_repository_that_is_too_large_is_left_to_git(tmp_path: Path) -> None:
    origin = Repository(tmp_path / "origin")
    origin.commit({"a.py": "total\n", "big.bin": bytes(MAX_KEPT_BYTES)})
    with Git.init(tmp_path / "own.git") as git:
        large = BaseTree.load(git, git.fetch(origin.url, "refs/heads/main")).draft()
        assert large.texts is None
        changed = large.with_file("b.py", b"total\n")
        assert [match.path for match in search(changed, "total")] == ["a.py", "b.py"]


def test_matches_are_counted_up_to_a_bound(draft: Draft) -> None:
    many = draft.with_file("many.txt", b"needle\n" * (grep.MOST + 5))
    assert len(search(many, "needle")) == grep.MOST
