"""Drafts: what may be changed, what is refused and why, and that nothing else ever changes."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.errors import ToolRefusal, UserError
from agent.git import Git
from agent.git_errors import RepositoryTooLarge
from agent.paths import PathRefused
from agent.tree import BaseTree, Draft, Quota
from agent.tree_errors import Binary, CaseTwin, NotAFile, NotFound
from agent.types import ChangeSet, FileChange
from tests.support.repository import Repository


def load(git: Git, origin: Repository, quota: Quota | None = None) -> BaseTree:
    sha = git.fetch(origin.url, "refs/heads/main")
    return BaseTree.load(git, sha, quota or Quota())


@pytest.fixture
def tree(git: Git, origin: Repository, tmp_path: Path) -> BaseTree:
    """A tree with every kind of entry."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text("hello")
    origin.write(
        {
            "src/a.py": "a = 1\n",
            "run.sh": "echo\n",
            "README.md": "Big\n",
            "readme.md": "small\n",
            "logo.png": b"\x89PNG\0",
        }
    )
    (origin.path / "run.sh").chmod(0o755)
    (origin.path / "doc.txt").symlink_to(outside / "secret.txt")
    (origin.path / "lib").symlink_to("../../outside")
    (origin.path / "inner").symlink_to("src/a.py")
    sha = origin.commit()
    origin.git("update-index", "--add", "--cacheinfo", f"160000,{sha},vendor")
    origin.git("commit", "-q", "-m", "submodule")
    return load(git, origin)


def test_a_draft_without_edits_is_the_base(tree: BaseTree) -> None:
    draft = tree.draft()
    assert list(draft.paths()) == list(tree.paths())
    assert draft.tree_id() == tree.tree_id
    assert not draft.change_set()
    assert draft.diff() == b""


def test_a_change_is_kept_apart_from_the_draft_before(tree: BaseTree) -> None:
    first = tree.draft()
    second = first.with_file("src/a.py", b"a = 2\n").with_file("new/b.py", b"")
    assert first.read("src/a.py") == b"a = 1\n"
    assert second.read("src/a.py") == b"a = 2\n"
    assert "new/b.py" in second.paths()
    assert "new/b.py" not in first
    assert second.is_folder("new")
    assert second.without("new/b.py").is_folder("new") is False
    assert [(c.path, c.mode, c.content) for c in second.change_set().changes] == [
        ("new/b.py", "100644", b""),
        ("src/a.py", "100644", b"a = 2\n"),
    ]


def test_going_back_to_the_base_leaves_no_change(tree: BaseTree) -> None:
    draft = tree.draft().with_file("src/a.py", b"x").with_file("src/a.py", b"a = 1\n")
    draft = draft.without("run.sh").with_file("run.sh", b"echo\n", "100755")
    draft = draft.with_file("new.py", b"x").without("new.py")
    assert not draft.change_set()
    assert draft.tree_id() == tree.tree_id
    assert tree.draft().with_file("src/a.py", b"x").restored("src/a.py") == tree.draft()


def test_the_mode_stays(tree: BaseTree, git: Git) -> None:
    draft = tree.draft().with_file("run.sh", b"echo 2\n").with_file("tool.py", b"x = 1\n")
    made = git.tree(draft.tree_id())
    assert made["run.sh"].mode == "100755"
    assert made["tool.py"].mode == "100644"
    assert b"mode change" not in draft.diff()
    moved = draft.move("run.sh", "bin/run.sh")
    assert moved.mode("bin/run.sh") == "100755"
    assert "run.sh" not in moved


def test_links_and_submodules_stay_as_they_are(tree: BaseTree, git: Git) -> None:
    made = git.tree(tree.draft().with_file("src/a.py", b"new").tree_id())
    for path in ("doc.txt", "lib", "inner", "vendor"):
        assert made[path] == tree.entries[path]


@pytest.mark.parametrize(
    ("path", "error", "says"),
    [
        ("doc.txt", NotAFile, "symbolic link"),
        ("inner", NotAFile, "symbolic link"),
        ("lib/new.py", NotAFile, "symbolic link"),
        ("vendor/x.py", NotAFile, "inside a submodule"),
        ("vendor", NotAFile, "submodule"),
        ("src", NotAFile, "folder"),
        ("src/a.py/b", NotAFile, "is a file"),
        ("../x.py", PathRefused, ".."),
        ("/etc/x", PathRefused, "absolute"),
        (".git/config", PathRefused, "git's own"),
        (".git/hooks/pre-commit", PathRefused, "git's own"),
        ("sub/../../x", PathRefused, ".."),
        ("Readme.md", CaseTwin, "README.md, readme.md"),
    ],
)
def test_what_can_not_be_touched(tree: BaseTree, path: str, error: type[ToolRefusal], says: str) -> None:
    draft = tree.draft()
    for act in (
        lambda: draft.read(path),
        lambda: draft.with_file(path, b"x"),
        lambda: draft.move("run.sh", path),
        lambda: draft.move(path, "moved"),
    ):
        with pytest.raises(error, match=says) as caught:
            act()
        assert "hello" not in str(caught.value)
        assert caught.value.todo


def test_names_that_differ_only_in_case(tree: BaseTree) -> None:
    draft = tree.draft().with_file("README.md", b"Bigger\n")
    assert draft.read("readme.md") == b"small\n"
    with pytest.raises(CaseTwin, match="src"):
        draft.with_file("Src/a.py", b"x")
    with pytest.raises(CaseTwin, match="src/NEW"):
        tree.draft().without("src/a.py").with_file("SRC/new.py", b"x").with_file("src/NEW.py", b"x")
    renamed = draft.without("readme.md").move("README.md", "ReadMe.md")
    assert renamed.read("ReadMe.md") == b"Bigger\n"


@pytest.mark.parametrize("path", ["src/aux.py", "con/x.py", "src/a.py:stream", "docs./x", "src/last "])
def test_no_new_name_that_some_systems_cannot_hold(tree: BaseTree, path: str) -> None:
    with pytest.raises(PathRefused, match="Windows"):
        tree.draft().with_file(path, b"x")
    with pytest.raises(PathRefused, match="Windows"):
        tree.draft().move("run.sh", path)


def test_an_odd_name_that_is_there_can_be_worked_on(git: Git, origin: Repository) -> None:
    origin.commit({"con/aux.py": "x = 1\n"})
    draft = load(git, origin).draft().with_file("con/aux.py", b"x = 2\n").with_file("con/new.py", b"")
    assert len(draft.change_set().changes) == 2


def test_a_link_itself_may_go(tree: BaseTree, git: Git) -> None:
    draft = tree.draft().without("doc.txt")
    assert "doc.txt" not in git.tree(draft.tree_id())
    assert draft.change_set().changes == (FileChange(path="doc.txt", mode="120000", content=None),)
    with pytest.raises(NotAFile):
        tree.draft().without("vendor")


def test_missing_files_are_named_with_what_is_near(tree: BaseTree) -> None:
    with pytest.raises(NotFound, match=r"src/a\.py"):
        tree.draft().read("lib2/a.py")
    with pytest.raises(NotFound, match="list or search"):
        tree.draft().without("nothing.py")


def test_too_large(tree: BaseTree) -> None:
    with pytest.raises(Binary, match="bytes"):
        tree.draft().with_file("big.txt", b"x" * 3_000_000)


def test_no_change_set_makes_a_link(tree: BaseTree) -> None:
    link = FileChange(path="x", mode="120000", content=b"/etc/passwd")
    with pytest.raises(NotAFile, match="symbolic link"):
        tree.applied(ChangeSet(base_sha=tree.sha, changes=(link,)))


def test_odd_names_are_read_but_never_written(git: Git, origin: Repository) -> None:
    origin.write({"new\nline": "1", "back\\slash": "2", "bad\udcff": "3"})
    origin.commit()
    base = load(git, origin)
    assert [base.read(path) for path in ("new\nline", "back\\slash", "bad\udcff")] == [b"1", b"2", b"3"]
    for path in base.paths():
        with pytest.raises(PathRefused):
            base.draft().with_file(path, b"x")
    assert git.tree(base.draft().with_file("ok", b"").tree_id()).keys() == {*base.paths(), "ok"}


def test_a_repository_over_its_quota(git: Git, origin: Repository) -> None:
    origin.commit({"a": "1", "b": "2"})
    with pytest.raises(RepositoryTooLarge, match="2 files"):
        load(git, origin, Quota(files=1))
    with pytest.raises(RepositoryTooLarge):
        load(git, origin, Quota(total_bytes=1))


def test_a_tree_with_names_that_no_checkout_may_hold(git: Git, origin: Repository) -> None:
    origin.commit({"a": "1"})
    blob = origin.git("hash-object", "-w", "--stdin", stdin=b"x")
    tree = b"100644 ..\0" + bytes.fromhex(blob)
    evil = origin.git("hash-object", "-t", "tree", "-w", "--literally", "--stdin", stdin=tree)
    commit = origin.git("commit-tree", "-m", "evil", evil)
    with pytest.raises(UserError, match="no checkout may hold"):
        BaseTree.load(Git(origin.git_dir), commit)


def test_a_path_longer_than_any_system_takes(git: Git, origin: Repository) -> None:
    blob = origin.git("hash-object", "-w", "--stdin", stdin=b"x")
    tree = origin.git("mktree", stdin=f"100644 blob {blob}\tfile\n".encode())
    for _ in range(30):
        tree = origin.git("mktree", stdin=f"040000 tree {tree}\t{'d' * 200}\n".encode())
    commit = origin.git("commit-tree", "-m", "deep", tree)
    with pytest.raises(UserError, match="no checkout may hold") as caught:
        BaseTree.load(Git(origin.git_dir), commit)
    assert len(str(caught.value)) < 1000


# ── properties ──

_PATHS = st.sampled_from(["a", "b/c", "b/d", "b", "e/f/g", "run.sh", "A", "src/a.py"])
_STEPS = st.lists(
    st.tuples(st.sampled_from(["write", "delete", "move"]), _PATHS, _PATHS, st.binary(max_size=3)), max_size=8
)


@settings(max_examples=40)
@given(_STEPS)
def test_the_stored_tree_is_exactly_the_draft(tree: BaseTree, steps: list[tuple[str, str, str, bytes]]) -> None:
    draft: Draft = tree.draft()
    for kind, path, target, content in steps:
        try:
            if kind == "write":
                draft = draft.with_file(path, content)
            elif kind == "delete":
                draft = draft.without(path)
            else:
                draft = draft.move(path, target)
        except ToolRefusal:
            continue
    stored = tree.git.tree(draft.tree_id())
    assert stored == dict(draft.entries)
    assert tree.applied(draft.change_set()) == draft
    assert {p for p in stored if stored[p] != tree.entries.get(p)} == {
        c.path for c in draft.change_set().changes if c.content is not None
    }


def test_a_diff_names_files_as_they_are_called(git: Git, origin: Repository) -> None:
    names = ("doc/fänny/überblick.md", "日本語.py")
    origin.commit(dict.fromkeys(names, "old\n"))
    draft = load(git, origin).draft()
    for name in names:
        draft = draft.with_file(name, b"new\n")
    diff = draft.diff().decode()
    assert all(f"+++ b/{name}" in diff for name in names)
