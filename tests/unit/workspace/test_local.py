"""Runs on a user's own checkout: their work is never touched, and a change arrives whole or not at all."""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent import carry
from agent.errors import OperatorError, ToolRefusal, UserError
from agent.git import Git
from agent.git_errors import NotARepository, ObjectMissing, RefMissing
from agent.local import NotApplied, apply, clone_local
from agent.tree import BaseTree
from agent.types import ChangeSet, FileChange, ModelEndpoint, RunSpec, Task
from agent.workspace import Workspace
from sandbox import Command, open_sandbox
from tests.support.repository import Repository


@pytest.fixture
def user(tmp_path: Path) -> Repository:
    """A checkout with everything that people have lying around."""
    user = Repository(tmp_path / "user")
    user.commit(
        {
            "a.py": "a = 1\n",
            "b.py": "b = 1\n",
            "pkg/c.py": "c = 1\n",
            ".gitignore": "build/\n*.so\n.env\nnode_modules/\n__pycache__/\ngenerated.py\n*.key\n",
        }
    )
    return user


@pytest.fixture
def base(user: Repository, tmp_path: Path) -> Iterator[BaseTree]:
    sha = clone_local(user.path, tmp_path / "own.git")
    with Git(tmp_path / "own.git") as git:
        yield BaseTree.load(git, sha)


def state(path: Path) -> dict[str, tuple[bytes, int]]:
    return {
        str(entry.relative_to(path)): (entry.read_bytes(), entry.stat().st_mode)
        for entry in path.rglob("*")
        if entry.is_file() and not entry.is_symlink()
    }


# ── reading ──


def test_the_base_is_the_commit_and_nothing_is_written(user: Repository, tmp_path: Path) -> None:
    user.write({"a.py": "uncommitted\n", "untracked.py": "mine\n"})
    user.git("add", "b.py")
    before = state(user.path)
    sha = clone_local(user.path, tmp_path / "own.git")
    with Git(tmp_path / "own.git") as git:
        base = BaseTree.load(git, sha)
        assert base.read("a.py") == b"a = 1\n"
        assert "untracked.py" not in base.paths()
        base.draft().with_file("a.py", b"new").tree_id()
    assert state(user.path) == before
    assert sha == user.git("rev-parse", "HEAD")


def test_linked_worktree(user: Repository, tmp_path: Path) -> None:
    user.git("worktree", "add", "-q", str(tmp_path / "linked"), "-b", "other")
    sha = clone_local(tmp_path / "linked", tmp_path / "own.git")
    with Git(tmp_path / "own.git") as git:
        assert BaseTree.load(git, sha).read("a.py") == b"a = 1\n"


def test_unusable_checkouts_are_named(user: Repository, tmp_path: Path) -> None:
    with pytest.raises(NotARepository, match="inside the checkout"):
        clone_local(user.path / "pkg", tmp_path / "x.git")
    (tmp_path / "plain").mkdir()
    with pytest.raises(NotARepository, match="not a usable git checkout"):
        clone_local(tmp_path / "plain", tmp_path / "x.git")
    with pytest.raises(RefMissing, match="no commit yet"):
        clone_local(Repository(tmp_path / "empty").path, tmp_path / "x.git")
    damaged = Repository(tmp_path / "damaged")
    damaged.commit({"a.py": "a = 1\n"})
    shutil.rmtree(damaged.git_dir / "objects")
    (damaged.git_dir / "objects").mkdir()
    with pytest.raises(ObjectMissing, match="git fsck"):
        clone_local(damaged.path, tmp_path / "x.git")
    with pytest.raises(UserError, match="SHA-256"):
        clone_local(Repository(tmp_path / "sha256", "--object-format=sha256").path, tmp_path / "x.git")
    bare = tmp_path / "bare"
    Git.init(bare)
    for alone in (bare, user.git_dir):
        with pytest.raises(NotARepository, match="Name a checkout"):
            clone_local(alone, tmp_path / "x.git")


def test_no_program_of_the_checkout_is_started(user: Repository, tmp_path: Path) -> None:
    witness = tmp_path / "ran"
    user.commit({".gitattributes": "* filter=evil\n"})
    for key in ("core.fsmonitor", "core.pager", "core.sshCommand", "filter.evil.clean", "filter.evil.smudge"):
        user.git("config", key, f"touch {witness}")
    witness.unlink(missing_ok=True)
    sha = clone_local(user.path, tmp_path / "own.git")
    with Git(tmp_path / "own.git") as git:
        base = BaseTree.load(git, sha)
        carry.survey(user.path, base)
        apply(user.path, base.draft().with_file("a.py", b"a = 2\n").change_set(), base=base, patch=tmp_path / "p")
    assert not witness.exists()


# ── what git ignores but tests need ──


def test_ignored_files_are_sorted(user: Repository, base: BaseTree) -> None:
    user.write(
        {
            "pkg/fast.so": b"\x7fELF",
            "generated.py": "x = 1\n",
            "build/lib/out.txt": "built",
            "build/__pycache__/x.pyc": b"",
            "pkg/__pycache__/x.pyc": b"",
            ".env": "TOKEN=sentinel",
            "build/.env": "TOKEN=sentinel",
            "server.key": "sentinel",
            **{f"node_modules/m/{n}.js": "" for n in range(carry.COPY_FILES + 10)},
            "untracked.py": "mine",
        }
    )
    carried = carry.survey(user.path, base)
    assert set(carried.copied) == {"pkg/fast.so", "generated.py", "build"}
    assert carried.mounted == ("node_modules",)
    assert set(carried.left_out) == {".env", "server.key"}


def test_a_local_checkout_has_what_tests_need_and_no_secret(user: Repository, tmp_path: Path) -> None:
    user.write(
        {
            "pkg/fast.so": b"\x7fELF",
            "build/.env": "TOKEN=sentinel",
            "build/out.txt": "built",
            ".env": "TOKEN=sentinel",
            **{f"node_modules/m/{n}.js": "ok" for n in range(carry.COPY_FILES + 10)},
            "a.py": "uncommitted\n",
        }
    )
    (user.path / "build" / "link").symlink_to("/etc/hostname")
    sandbox = open_sandbox()
    spec = RunSpec(
        run_id="r",
        task=Task(title="t"),
        git_dir=str(tmp_path / "own.git"),
        base_sha=clone_local(user.path, tmp_path / "own.git"),
        view=str(user.path),
        origin=str(user.path),
        work_dir=str(tmp_path / "work"),
        cache_dir=str(tmp_path / "cache"),
        model=ModelEndpoint(base_url="http://localhost", api_key="k", model="m"),
        seed="s",
    )
    with Workspace.open(spec, sandbox) as workspace:
        assert any(".env" in note for note in workspace.notes)
        draft = workspace.base.draft().with_file("b.py", b"b = 2\n")
        checkout = workspace.checkout(draft, "one")
        script = (
            f"cat {user.path}/a.py b.py build/out.txt node_modules/m/7.js; ls pkg; cat .env build/.env;"
            "echo x > node_modules/x; echo done"
        )
        command = Command(argv=("/bin/sh", "-c", script), cwd=checkout.view, mounts=checkout.mounts)
        output = sandbox.run(command).output
        assert output.startswith(b"a = 1\nb = 2\nbuiltok")
        assert b"fast.so" in output
        assert b"sentinel" not in output
        assert output.endswith(b"done\n")
        checkout.sync(workspace.base.draft())
        assert (checkout.path / "pkg" / "fast.so").exists()
        outside = tmp_path / "outside"
        outside.mkdir()
        (checkout.path / "node_modules").rmdir()
        (checkout.path / "node_modules").symlink_to(outside)
        checkout.sync(draft)
        assert sandbox.run(command).output.startswith(b"a = 1\nb = 2\nbuiltok")
        assert list(outside.iterdir()) == []
        checkout.sync(draft.with_file("node_modules/own.js", b"x"))
        assert len(checkout.mounts) == 1
        with_own = workspace.checkout(draft.with_file("node_modules/own.js", b"x"), "two")
        assert len(with_own.mounts) == 1
    assert not (user.path / "node_modules" / "x").exists()
    assert (user.path / "b.py").read_text() == "b = 1\n"
    assert {change.path for change in draft.change_set().changes} == {"b.py"}


# ── applying ──


def change(base: BaseTree) -> ChangeSet:
    draft = (
        base.draft().with_file("a.py", b"a = 2\n").with_file("new/deep.py", b"n\n").with_file("run.sh", b"", "100755")
    )
    return draft.without("pkg/c.py").change_set()


def test_a_change_arrives_in_the_checkout(user: Repository, base: BaseTree, tmp_path: Path) -> None:
    user.write({"b.py": "mine\n", "untracked.py": "mine\n"})
    (user.path / "a.py").chmod(0o640)
    assert apply(user.path, change(base), base=base, patch=tmp_path / "p") == (
        "a.py",
        "new/deep.py",
        "pkg/c.py",
        "run.sh",
    )
    assert (user.path / "a.py").read_text() == "a = 2\n"
    assert (user.path / "a.py").stat().st_mode & 0o777 == 0o640
    assert (user.path / "run.sh").stat().st_mode & 0o100
    assert not (user.path / "new/deep.py").stat().st_mode & 0o111
    assert not (user.path / "pkg").exists()
    assert (user.path / "b.py").read_text() == "mine\n"
    assert not (tmp_path / "p").exists()
    assert not [p for p in user.path.rglob(".*") if p.name.startswith(".a.py")]


@pytest.mark.parametrize("told", [{".gitattributes": "*.py text eol=crlf\n"}, {"core.autocrlf": "true"}])
def test_lines_end_as_the_checkout_has_them(user: Repository, tmp_path: Path, told: dict[str, str]) -> None:
    for name, value in told.items():
        if name.startswith("core."):
            user.git("config", name, value)
        else:
            user.commit({name: value})
    for name in ("a.py", "pkg/c.py"):
        (user.path / name).unlink()
    user.git("checkout", "-q", ".")
    assert (user.path / "a.py").read_bytes() == b"a = 1\r\n"
    sha = clone_local(user.path, tmp_path / "own.git")
    with Git(tmp_path / "own.git") as git:
        base = BaseTree.load(git, sha)
        draft = base.draft().with_file("a.py", b"a = 2\nb = 2\n").without("pkg/c.py")
        apply(user.path, draft.change_set(), base=base, patch=tmp_path / "p")
    assert (user.path / "a.py").read_bytes() == b"a = 2\r\nb = 2\r\n"
    assert not (user.path / "pkg").exists()
    assert user.git("diff", "--numstat") == "2\t1\ta.py\n0\t1\tpkg/c.py"


def edit(user: Repository) -> None:
    user.write({"a.py": "mine\n"})


def stage(user: Repository) -> None:
    user.write({"a.py": "mine\n"})
    user.git("add", "a.py")
    user.write({"a.py": "a = 1\n"})


def remove(user: Repository) -> None:
    (user.path / "a.py").unlink()


def occupy(user: Repository) -> None:
    user.write({"new/deep.py": "mine\n"})


def link_folder(user: Repository) -> None:
    outside = user.path.parent / "outside"
    outside.mkdir()
    (user.path / "new").symlink_to(outside)


def link_file(user: Repository) -> None:
    outside = user.path.parent / "outside.py"
    outside.write_text("a = 1\n")
    (user.path / "a.py").unlink()
    (user.path / "a.py").symlink_to(outside)


def unstage(user: Repository) -> None:
    user.git("rm", "-q", "--cached", "a.py")


@pytest.mark.parametrize("meddle", [edit, stage, remove, occupy, link_folder, link_file, unstage])
def test_own_work_is_never_overwritten(user: Repository, base: BaseTree, tmp_path: Path, meddle: object) -> None:
    meddle(user)  # type: ignore[operator]
    before = state(tmp_path / "user")
    patch = tmp_path / "kept" / "change.patch"
    with pytest.raises(NotApplied) as caught:
        apply(user.path, change(base), base=base, patch=patch)
    assert state(tmp_path / "user") == before
    assert str(patch) in str(caught.value)
    if (tmp_path / "outside").exists():
        assert list((tmp_path / "outside").iterdir()) == []
    clean = Repository(tmp_path / "clean")
    clean.git("fetch", "-q", str(user.path), "HEAD")
    clean.git("reset", "-q", "--hard", "FETCH_HEAD")
    clean.git("apply", str(patch))
    assert (clean.path / "a.py").read_text() == "a = 2\n"
    assert (clean.path / "run.sh").stat().st_mode & 0o100


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can work on other people's files")
def test_root_leaves_a_checkout_to_its_owner(user: Repository, base: BaseTree, tmp_path: Path) -> None:
    for folder, _, names in os.walk(user.path):
        for path in (Path(folder), *(Path(folder, name) for name in names)):
            os.chown(path, 12345, 12346)
    apply(user.path, change(base), base=base, patch=tmp_path / "p")
    for path in ("a.py", "new", "new/deep.py", "run.sh"):
        status = (user.path / path).stat()
        assert (status.st_uid, status.st_gid) == (12345, 12346), path


@contextmanager
def unwritable(folder: Path) -> Iterator[None]:
    """A folder in which no file can be made, also not by root."""
    if os.geteuid() != 0:
        folder.chmod(0o500)
        yield
        folder.chmod(0o700)
        return
    descriptor = os.open(folder, os.O_RDONLY)
    set_flags, immutable = 0x40086602, 0x10
    try:
        fcntl.ioctl(descriptor, set_flags, struct.pack("l", immutable))
    except OSError:
        pytest.skip("this file system has no immutable folders")
    try:
        yield
    finally:
        fcntl.ioctl(descriptor, set_flags, struct.pack("l", 0))
        os.close(descriptor)


def test_a_disk_that_fails_in_the_middle_leaves_everything_as_it_was(
    user: Repository, base: BaseTree, tmp_path: Path
) -> None:
    (user.path / "zz").mkdir()
    before = state(user.path)
    draft = base.applied(change(base)).with_file("zz/last.py", b"x")
    with unwritable(user.path / "zz"), pytest.raises(OperatorError, match="git apply"):
        apply(user.path, draft.change_set(), base=base, patch=tmp_path / "p")
    assert state(user.path) == before
    user.git("apply", str(tmp_path / "p"))
    assert (user.path / "a.py").read_text() == "a = 2\n"


def test_a_change_that_no_draft_can_hold_is_refused_before_anything(
    user: Repository, base: BaseTree, tmp_path: Path
) -> None:
    before = state(user.path)
    for path in ("../x", ".git/hooks/pre-commit", "a/.GIT/x", "/tmp/x"):
        changes = (FileChange(path="a.py", content=b"a = 2\n"), FileChange(path=path, content=b"x"))
        with pytest.raises(ToolRefusal):
            apply(user.path, ChangeSet(base_sha=base.sha, changes=changes), base=base, patch=tmp_path / "p")
    assert state(user.path) == before


def test_binary_changes_are_kept_in_the_patch(user: Repository, base: BaseTree, tmp_path: Path) -> None:
    draft = base.draft().with_file("a.py", b"a = 2\n").with_file("x.bin", bytes(range(256)))
    user.write({"a.py": "mine\n"})
    with pytest.raises(NotApplied):
        apply(user.path, draft.change_set(), base=base, patch=tmp_path / "p")
    user.write({"a.py": "a = 1\n"})
    user.git("apply", str(tmp_path / "p"))
    assert (user.path / "x.bin").read_bytes() == bytes(range(256))
