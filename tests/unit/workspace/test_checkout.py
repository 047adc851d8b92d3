"""Checkouts hold exactly a draft, whatever a test run did to them before, and are never a way out."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.git import Git
from agent.tree import Draft
from agent.types import ModelEndpoint, RunSpec, Task
from agent.workspace import Checkout, Workspace
from sandbox import Command, Sandbox, open_sandbox, remove_tree
from tests.support.repository import Repository


@pytest.fixture(scope="module")
def sandbox() -> Sandbox:
    return open_sandbox()


def spec(tmp_path: Path, sha: str) -> RunSpec:
    return RunSpec(
        run_id="r",
        task=Task(title="t"),
        git_dir=str(tmp_path / "own.git"),
        base_sha=sha,
        work_dir=str(tmp_path / "work"),
        cache_dir=str(tmp_path / "cache"),
        model=ModelEndpoint(base_url="http://localhost", api_key="k", model="m"),
        seed="s",
    )


@pytest.fixture
def workspace(tmp_path: Path, sandbox: Sandbox) -> Iterator[Workspace]:
    origin = Repository(tmp_path / "origin")
    origin.write(
        {
            "a.py": b"a = 1\r\n",
            "sub/b.py": "b = 1\n",
            "run.sh": "#!/bin/sh\necho hi\n",
            "ü/sp ace.txt": "x",
            "eol.bat": "one\n",
            ".gitattributes": "*.bat eol=crlf\n*.txt filter=lfs ident\n",
        }
    )
    (origin.path / "run.sh").chmod(0o755)
    (origin.path / "inner").symlink_to("sub/b.py")
    (origin.path / "outer").symlink_to("/etc/passwd")
    (origin.path / "up").symlink_to("../..")
    sha = origin.commit()
    origin.git("update-index", "--add", "--cacheinfo", f"160000,{sha},vendor")
    origin.git("commit", "-q", "-m", "submodule")
    with Git.init(tmp_path / "own.git") as git:
        sha = git.fetch(origin.url, "refs/heads/main")
    with Workspace.open(spec(tmp_path, sha), sandbox) as workspace:
        yield workspace


def listing(path: Path) -> dict[str, bytes | str]:
    """Path → bytes, or the target of a link."""
    found: dict[str, bytes | str] = {}
    for entry in sorted(path.rglob("*")):
        name = entry.relative_to(path).as_posix()
        if entry.is_symlink():
            found[name] = os.readlink(entry)  # noqa: PTH115 - as text, unchanged
        elif entry.is_file():
            found[name] = entry.read_bytes()
    return found


def test_a_checkout_holds_the_bytes_that_git_stores(workspace: Workspace) -> None:
    checkout = workspace.checkout(workspace.base.draft(), "one")
    files = listing(checkout.path)
    assert files.pop("inner") == "sub/b.py"
    assert files == {
        path: workspace.base.content(path)
        for path, entry in workspace.base.entries.items()
        if entry.mode in ("100644", "100755")
    }
    assert (checkout.path / "run.sh").stat().st_mode & 0o777 == 0o755
    assert (checkout.path / "a.py").stat().st_mode & 0o777 == 0o644
    assert (checkout.path / "vendor").is_dir()
    assert not (checkout.path / ".git").exists()
    assert any("outer" in note and "up" in note for note in workspace.notes)


def run(sandbox: Sandbox, checkout: Checkout, script: str) -> bytes:
    command = Command(argv=("/bin/sh", "-c", script), cwd=checkout.view, mounts=checkout.mounts)
    finished = sandbox.run(command)
    sandbox.reclaim(checkout.path)
    return finished.output


def test_commands_see_it_and_may_write(workspace: Workspace, sandbox: Sandbox) -> None:
    draft = workspace.base.draft().with_file("new.py", b"n\n").without("sub/b.py")
    checkout = workspace.checkout(draft, "one")
    output = run(sandbox, checkout, "./run.sh && cat new.py && ls sub; echo x > made.txt && echo ok")
    assert b"hi" in output
    assert b"n\n" in output
    assert output.endswith(b"ok\n")
    assert (checkout.path / "made.txt").exists()


def test_sync_restores_what_tests_touched(workspace: Workspace, sandbox: Sandbox) -> None:
    checkout = workspace.checkout(workspace.base.draft(), "one")
    run(
        sandbox,
        checkout,
        "echo evil > a.py; rm sub/b.py; chmod 644 run.sh; mkdir keep; echo built > keep/lib.so;"
        "touch -d 2001-01-01 a.py; rm inner; ln -s a.py inner;"
        "rm eol.bat; mkdir -p eol.bat/deep; echo x > eol.bat/deep/x",
    )
    checkout.sync(workspace.base.draft())
    files = listing(checkout.path)
    assert files.pop("keep/lib.so") == b"built\n"
    assert files == listing(workspace.checkout(workspace.base.draft(), "two").path)
    assert (checkout.path / "run.sh").stat().st_mode & 0o777 == 0o755


def test_sync_sees_a_change_behind_a_restored_time(workspace: Workspace) -> None:
    checkout = workspace.checkout(workspace.base.draft(), "one")
    file = checkout.path / "sub" / "b.py"
    before = file.stat()
    file.write_bytes(b"b = 2\n")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    checkout.sync(workspace.base.draft())
    assert file.read_bytes() == b"b = 1\n"


def test_sync_moves_from_draft_to_draft(workspace: Workspace) -> None:
    base = workspace.base.draft()
    drafts: list[Draft] = [
        base.with_file("a.py", b"a = 2\r\n").with_file("deep/er/c.py", b"c"),
        base.without("sub/b.py").with_file("sub/b.py/inner.py", b"now a folder"),
        base.move("run.sh", "bin/run.sh").without("ü/sp ace.txt"),
        base,
    ]
    checkout = workspace.checkout(base, "one")
    for number, draft in enumerate(drafts):
        checkout.sync(draft)
        assert listing(checkout.path) == listing(workspace.checkout(draft, f"fresh{number}").path)
    assert not (checkout.path / "deep").exists()
    assert not (checkout.path / "bin").exists()


def test_sync_writes_nothing_through_planted_links(workspace: Workspace, sandbox: Sandbox, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "b.py").write_text("mine")
    (outside / "a.py").write_text("mine")
    checkout = workspace.checkout(workspace.base.draft(), "one")
    run(
        sandbox,
        checkout,
        f"rm -r sub a.py ü; ln -s {outside} sub; ln -s {outside}/a.py a.py; ln -s {outside}/new ü;"
        "rm run.sh; mkfifo run.sh",
    )
    checkout.sync(workspace.base.draft().with_file("sub/new.py", b"x"))
    assert {p.name: p.read_text() for p in outside.iterdir()} == {"a.py": "mine", "b.py": "mine"}
    assert (checkout.path / "sub" / "b.py").read_bytes() == b"b = 1\n"
    assert (checkout.path / "a.py").read_bytes() == b"a = 1\r\n"
    checkout.close()
    assert {p.name for p in outside.iterdir()} == {"a.py", "b.py"}


def test_a_hard_link_to_a_file_outside_is_not_written_through(workspace: Workspace, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    checkout = workspace.checkout(workspace.base.draft(), "one")
    (checkout.path / "a.py").unlink()
    (checkout.path / "a.py").hardlink_to(victim)
    checkout.sync(workspace.base.draft())
    assert victim.read_text() == "mine"


def test_two_states_of_a_file_never_share_a_second(workspace: Workspace) -> None:
    """Compiled Python names its source by size and second; a stale one would be run in place of the new code."""
    checkout = workspace.checkout(workspace.base.draft(), "one")
    seen = {int((checkout.path / "a.py").stat().st_mtime)}
    for value in (b"a = 2\r\n", b"a = 3\r\n", b"a = 4\r\n"):
        checkout.sync(workspace.base.draft().with_file("a.py", value))
        seen.add(int((checkout.path / "a.py").stat().st_mtime))
    assert len(seen) == 4


def test_a_tree_deeper_than_any_recursion_is_removed(workspace: Workspace) -> None:
    checkout = workspace.checkout(workspace.base.draft(), "one")
    (checkout.path / "a.py").unlink()
    (checkout.path / "a.py").mkdir()
    folder = os.open(checkout.path / "a.py", os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("d", dir_fd=folder)
        below = os.open("d", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = below
    os.close(folder)
    assert (checkout.path / "a.py" / "d").is_dir()
    checkout.sync(workspace.base.draft())
    assert (checkout.path / "a.py").read_bytes() == b"a = 1\r\n"
    assert not [path for path in checkout.path.iterdir() if path.name.startswith(".removed")]


def test_what_a_run_wrote_never_enters_the_change(workspace: Workspace, sandbox: Sandbox) -> None:
    draft = workspace.base.draft().with_file("a.py", b"a = 2\r\n")
    checkout = workspace.checkout(draft, "one")
    run(sandbox, checkout, "echo x >> a.py; echo x > planted.py; mkdir -p .git/hooks; echo x > .git/hooks/pre-commit")
    assert [c.path for c in draft.change_set().changes] == ["a.py"]
    assert draft.change_set().changes[0].content == b"a = 2\r\n"


def test_closing_removes_everything(workspace: Workspace, sandbox: Sandbox, tmp_path: Path) -> None:
    checkout = workspace.checkout(workspace.base.draft(), "one")
    run(
        sandbox,
        checkout,
        "mkdir -p locked/in; chmod 0 locked/in locked; i=0; while [ $i -lt 50 ]; do mkdir d; cd d; i=$((i+1)); done",
    )
    workspace.close()
    workspace.close()
    assert list((tmp_path / "work" / "checkouts").iterdir()) == []


def test_closing_after_someone_else_removed_the_folder(workspace: Workspace) -> None:
    checkout, other = (workspace.checkout(workspace.base.draft(), name) for name in ("one", "two"))
    remove_tree(checkout.path)
    workspace.close()
    assert not other.path.exists(), "the rest is removed all the same"


@pytest.mark.parametrize("name", ["", "..", "a/b", "-x", ".hidden"])
def test_names_of_checkouts(workspace: Workspace, name: str) -> None:
    with pytest.raises(ValueError, match="no name"):
        workspace.checkout(workspace.base.draft(), name)


Facts = dict[str, tuple[object, ...]]


def facts(checkout: Checkout) -> Facts:
    """All that a test run could tell two checkouts apart by."""
    return {str(path.relative_to(checkout.path)): tuple(_facts(path)) for path in sorted(checkout.path.rglob("*"))}


def _facts(path: Path) -> Iterator[object]:
    status = path.lstat()
    yield from (oct(status.st_mode), status.st_uid, status.st_nlink)
    if path.is_symlink():
        yield path.readlink()
    elif path.is_file():
        yield from (path.read_bytes(), int(status.st_mtime))


MESSES = {
    "new file": "echo x > sub/new.py",
    "new folder": "mkdir -p sub/deep/er __pycache__ && touch sub/deep/er/x __pycache__/y.pyc",
    "changed": "echo x >> a.py",
    "changed as if not": "cp -p a.py /tmp/a && sed -i 's/1/2/' a.py && touch -r /tmp/a a.py",
    "older": "touch -d 2001-01-01 a.py",
    "mode": "chmod 000 a.py && chmod 777 sub && chmod 000 ü",
    "removed": "rm -r sub a.py",
    "link in place of a file": "rm a.py && ln -s /etc/passwd a.py",
    "link in place of a folder": "rm -r sub && ln -s /etc sub",
    "folder in place of a file": "rm a.py && mkdir -p a.py/x && touch a.py/x/y",
    "file in place of a folder": "rm -r sub && touch sub",
    "second name": "ln a.py sub/same.py",
    "where a link was left out": "mkdir outer && touch outer/x",
    "in a submodule": "touch vendor/x",
    "pipe and socket": "mkfifo pipe && touch 'strange\n\tname'",
    "another link": "ln -sfn a.py inner",
}


@pytest.mark.parametrize("mess", MESSES)
def test_a_reset_checkout_is_as_a_fresh_one(workspace: Workspace, sandbox: Sandbox, mess: str) -> None:
    first = workspace.base.draft().with_file("a.py", b"a = 1\n").with_file("new/c.py", b"")
    second = workspace.base.draft().with_file("sub/b.py", b"b = 2\n")
    with workspace.checkout(workspace.base.draft(), "fresh") as fresh, workspace.checkout(first, "used") as used:
        for draft in (workspace.base.draft(), second, workspace.base.draft()):
            command = Command(("/bin/bash", "-c", MESSES[mess]), used.view, mounts=used.mounts)
            assert sandbox.run(command).ok
            used.reset(draft)
            assert (used.path / "sub/b.py").read_bytes() == draft.content("sub/b.py")
        assert facts(used) == facts(fresh)
