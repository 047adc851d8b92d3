"""Objects, differences and odd names, through git itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.devhub.git import EMPTY_TREE, GitRepository
from app.devhub.gitobjects import ZERO, Person, TreeChange, seconds, stamp

SOMEBODY = Person("Some <Body>\n", "some@example.com", "2026-01-02T03:04:05Z")


@pytest.fixture
def git(tmp_path: Path) -> GitRepository:
    repository = GitRepository(tmp_path / "repository.git")
    repository.init("main")
    return repository


def commit(git: GitRepository, scratch: Path, parent: str | None, message: str = "x", **files: bytes | None) -> str:
    """``_`` in a keyword stands for a dot."""
    changes = [
        TreeChange(name.replace("_", "."), "100644", None if content is None else git.write_blob(content))
        for name, content in files.items()
    ]
    (scratch / "index").unlink(missing_ok=True)
    return git.write_commit(
        tree=git.write_tree(parent, changes, scratch),
        parents=[parent] if parent else [],
        author=SOMEBODY,
        committer=SOMEBODY,
        message=message,
    )


def test_a_difference_names_what_happened_to_each_file(git: GitRepository, tmp_path: Path) -> None:
    text = b"".join(b"line %d\n" % number for number in range(30))
    one = commit(git, tmp_path, None, old_py=text, gone_py=b"x\n", same_py=b"s\n", image_png=b"\0\1", edit_py=b"a\nb\n")
    two = commit(
        git, tmp_path, one, old_py=None, new_py=text, gone_py=None, image_png=b"\0\2", edit_py=b"a\nc\nd\n", add_py=b""
    )
    found = {file.path: file for file in git.diff(one, two)}
    assert {path: file.status for path, file in found.items()} == {
        "add.py": "added",
        "edit.py": "modified",
        "gone.py": "removed",
        "image.png": "modified",
        "new.py": "renamed",
    }
    assert found["new.py"].previous == "old.py"
    assert (found["edit.py"].additions, found["edit.py"].deletions) == (2, 1)
    assert found["edit.py"].patch == "@@ -1,2 +1,3 @@\n a\n-b\n+c\n+d"
    assert found["image.png"].patch is found["new.py"].patch is found["add.py"].patch is None
    assert git.diff(two, two) == []
    assert {file.status for file in git.diff(EMPTY_TREE, one)} == {"added"}


def test_lines_that_look_like_a_difference_do_not_confuse(git: GitRepository, tmp_path: Path) -> None:
    one = commit(git, tmp_path, None, a_txt=b"x\n", b_txt=b"y\n")
    two = commit(git, tmp_path, one, a_txt=b"diff --git a/q b/q\n@@ -1 +1 @@\n", b_txt=b"z\0\n")
    first, second = git.diff(one, two)
    assert first.patch == "@@ -1 +1,2 @@\n-x\n+diff --git a/q b/q\n+@@ -1 +1 @@"
    assert second.patch is None


@pytest.mark.parametrize("name", ["doc/fänny/überblick.md", 'sp ace "q".py', "a\nb", "tab\t", "-x", "*", "\udcff.py"])
def test_odd_names_stay_what_they_are(git: GitRepository, tmp_path: Path, name: str) -> None:
    tree = git.write_tree(None, [TreeChange(name, "100755", git.write_blob(b"1\n"))], tmp_path)
    entry = git.at(tree, name)
    assert entry is not None and (entry.path, entry.mode, entry.size) == (name, "100755", 2)
    assert [file.path for file in git.diff(EMPTY_TREE, tree)] == [name]
    assert git.at(tree, "nothing") is None


def test_a_commit_comes_back_as_it_was_written(git: GitRepository, tmp_path: Path) -> None:
    sha = commit(git, tmp_path, None, message="Subject\n\n\nBody # not a comment\n\n", a=b"1")
    found = git.commit(sha)
    assert found.message == "Subject\n\n\nBody # not a comment\n\n"
    assert found.author == Person("Some Body", "some@example.com", "2026-01-02T03:04:05Z")
    assert stamp(seconds("2026-01-02T05:04:05+02:00")) == found.author.date


def test_names_of_revisions_are_resolved_and_never_options(git: GitRepository, tmp_path: Path) -> None:
    sha = commit(git, tmp_path, None, a=b"1")
    assert git.set_ref("refs/heads/feature/x", sha, ZERO)
    assert git.set_ref("refs/tags/v1", sha)
    for name in ("feature/x", "v1", "refs/heads/feature/x", sha):
        assert git.resolve(name) == sha
    assert git.resolve(sha, "tree") == git.commit(sha).tree
    for name in ("--all", "-h", "nothing", "a b", f"nothing\n{sha}", "", "0" * 40):
        assert git.resolve(name) is None


def test_a_ref_moves_only_from_where_it_is_believed_to_be(git: GitRepository, tmp_path: Path) -> None:
    one = commit(git, tmp_path, None, a=b"1")
    two = commit(git, tmp_path, one, a=b"2")
    assert git.set_ref("refs/heads/main", one, ZERO)
    assert not git.set_ref("refs/heads/main", two, ZERO)
    assert not git.set_ref("refs/heads/main", two, two)
    assert git.set_ref("refs/heads/main", two, one)


def test_a_merge_is_a_tree_or_a_conflict(git: GitRepository, tmp_path: Path) -> None:
    base = commit(git, tmp_path, None, a=b"1\n", b=b"1\n")
    ours, theirs = commit(git, tmp_path, base, a=b"2\n"), commit(git, tmp_path, base, b=b"2\n")
    tree = git.merge(ours, theirs)
    assert tree is not None and {git.read_blob(entry.sha) for entry in git.tree(tree)} == {b"2\n"}
    assert git.merge(ours, commit(git, tmp_path, base, a=b"3\n")) is None
