"""Looking for text finds what git finds, in memory or not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent import grep
from agent.errors import UserError
from agent.git import Git, Match
from agent.grep import search
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
    "late.bin": b"x" * 8_000 + b"\n\0\ntotal\n",
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
    """Without the empty line that git sees after the last line of a file."""
    where = [f":(glob){glob}"] if glob else []
    found = draft.base.git.grep(draft.tree_id(), text, regex=regex, ignore_case=ignore_case, where=where)
    return tuple(match for match in found if match.text or match.line <= draft.content(match.path).count(b"\n"))


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


@settings(max_examples=250)
@given(TEXTS, st.booleans(), GLOBS.map("".join))
def test_a_text_is_found_as_git_finds_it(draft: Draft, text: str, ignore_case: bool, glob: str) -> None:
    try:
        expected = by_git(draft, text, False, ignore_case, glob)
    except UserError:  # a glob that leads out of the repository
        return
    assert search(draft, text, ignore_case=ignore_case, glob=glob) == expected


@settings(max_examples=250)
@given(PATTERNS, st.booleans(), st.sampled_from(["", "**/*.py", "a/**"]))
def test_a_pattern_is_found_as_git_finds_it(draft: Draft, pattern: str, ignore_case: bool, glob: str) -> None:
    try:
        expected = by_git(draft, pattern, True, ignore_case, glob)
    except UserError:
        return
    found = search(draft, pattern, regex=True, ignore_case=ignore_case, glob=glob)
    # Whether `.` stands for a NUL is the one thing on which the two differ.
    assert [match for match in found if match.text != "\0"] == [match for match in expected if match.text != "\0"]


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
    assert len(search(many, "need.e", regex=True)) == grep.MOST


def test_lines_are_counted_in_their_own_file(draft: Draft) -> None:
    found = search(draft.with_file("a/1.py", b"\n\nx total"), "to+tal", regex=True, glob="a/**")
    places = {(match.path, match.line) for match in found}
    assert places == {("a/0.py", 1), ("a/1.py", 3), ("a/b.py", 1), ("a/b.py", 4), ("a/c/d.py", 1)}
