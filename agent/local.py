"""The user's own checkout: read as a base for a run, and changed only by :func:`apply`, all or nothing."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from agent.disk import Found, Root
from agent.errors import OperatorError, UserError
from agent.git import LINK, Git
from agent.git_errors import NotARepository, ObjectMissing, RefMissing
from agent.git_process import user_git
from agent.tree import BaseTree
from agent.types import ChangeSet, FileChange


class NotApplied(UserError):
    """The change was not made because the user's files differ from what it was made for. ``patch`` holds it."""

    def __init__(self, problems: tuple[str, ...], patch: Path) -> None:
        self.problems = problems
        self.patch = patch
        shown = "; ".join(problems[:5]) + (f"; and {len(problems) - 5} more" if len(problems) > 5 else "")
        super().__init__(
            "The change was not applied, your files are as they were",
            why=shown,
            todo=f"Commit or set aside your own changes, then run: git apply --3way {quote(str(patch))}",
        )


def clone_local(origin: Path, git_dir: Path) -> str:
    """Make a bare repository at ``git_dir`` that sees the objects of the checkout ``origin``; nothing is copied, and
    nothing is written into the user's repository. Uncommitted work stays outside.

    Returns:
        The id of the commit that is checked out: the base of a run.

    Raises:
        NotARepository: no checkout, or not the top of one.
        RefMissing: there is no commit yet.
        ObjectMissing: there is one, but git can't read it.
        UserError: a repository with SHA-256 object ids.
    """
    origin = origin.resolve()
    top = Path(os.fsdecode(user_git(origin, ["rev-parse", "--show-toplevel"]).rstrip(b"\n")))
    if top.resolve() != origin:
        raise NotARepository(f"{origin} is a folder inside the checkout {top}", todo=f"Use --repo {top}")
    if user_git(origin, ["rev-parse", "--show-object-format"]).strip() != b"sha1":
        raise UserError("The repository uses SHA-256 object ids, which are not supported")
    try:
        sha = user_git(origin, ["rev-parse", "--verify", "--quiet", "HEAD^{commit}"]).decode().strip()
    except NotARepository as error:
        raise _without_commit(origin) from error
    objects = _git_path(origin, "objects")
    if b"\n" in objects:
        raise UserError("The repository's path holds a line break, which git can't refer to", todo="Rename the folder")
    Git.init(git_dir)
    (git_dir / "objects" / "info").mkdir(exist_ok=True)
    (git_dir / "objects" / "info" / "alternates").write_bytes(objects + b"\n")
    with suppress(FileNotFoundError):  # where a shallow clone's history ends is not written in its objects
        (git_dir / "shallow").write_bytes(Path(os.fsdecode(_git_path(origin, "shallow"))).read_bytes())
    return sha


def _without_commit(origin: Path) -> UserError:
    try:
        sha = user_git(origin, ["rev-parse", "--verify", "--quiet", "HEAD"]).decode().strip()
    except NotARepository:
        return RefMissing("The repository has no commit yet", todo="Make a first commit, then run again")
    return ObjectMissing(
        "The repository is damaged", why=f"The commit {sha} that is checked out is not in it", todo="Look at git fsck"
    )


def _git_path(origin: Path, name: str) -> bytes:
    """Where ``name`` of the repository's own folder is, also in a linked work tree."""
    return user_git(origin, ["rev-parse", "--path-format=absolute", "--git-path", name]).removesuffix(b"\n")


def came_with_repository(path: Path) -> bool:
    """Whether git tracks the file ``path``: then it is the repository's word, not the word of who works in it."""
    try:
        return bool(user_git(path.absolute().parent, ["ls-files", "-z", "--", path.name]))
    except NotARepository:
        return False


def apply(origin: Path, change_set: ChangeSet, *, base: BaseTree, patch: Path) -> tuple[str, ...]:
    """Make ``change_set`` in the user's checkout: every file, or none.

    A file is touched only when it stands exactly as the base has it, on disk and in the index. Each one is replaced in
    one step; when the disk fails in the middle, what was done is undone. The index is left alone.

    Args:
        base: the tree that the change was made for.
        patch: where the change is kept as a patch; outside the checkout. Removed again when all is done.

    Returns:
        The paths that were changed.

    Raises:
        NotApplied: the user's files differ; the patch is kept.
        OperatorError: the disk failed; the files are as before and the patch is kept.
        ToolRefusal: the change set holds what no draft of ``base`` can.
    """
    _keep(change_set, base, patch)
    with Root(origin) as root:
        steps = [_Step(change, root.find(change.path)) for change in change_set.changes]
        index = _index(origin, change_set)
        problems = ((step, _problem(root, step, base, index)) for step in steps)
        told = tuple(f"{step.change.path} {problem}" for step, problem in problems if problem)
        if told:
            raise NotApplied(told, patch)
        done: list[_Step] = []
        try:
            for step in steps:
                done.append(step)
                _make(root, step, base)
        except OSError as error:
            _undo(root, done)
            raise OperatorError(
                "The change was not applied, your files are as they were",
                why=str(error),
                todo=f"Repair the disk, then run: git apply {patch}",
            ) from error
    patch.unlink()
    return tuple(change.path for change in change_set.changes)


@dataclass(frozen=True)
class _Step:
    change: FileChange
    before: Found | None
    """What is on disk now."""


def _problem(root: Root, step: _Step, base: BaseTree, index: Mapping[str, str]) -> str:
    """Why the file must not be touched; empty when it may be."""
    change, found = step.change, step.before
    entry = base.entries.get(change.path)
    staged = index.get(change.path)
    if staged != (entry.blob if entry else None):
        return "has changes in the index" if staged else "was removed from the index"
    if entry is None:
        return "" if found is None and root.reachable(change.path) else "exists already, or its folder is a link"
    if found is None:
        return "was deleted or is behind a link"
    if found.is_link != (entry.mode == LINK) or not _is_as(base.content(change.path), found.content):
        return "has uncommitted changes"
    if found.is_link and change.content is not None:
        return "is a symbolic link"
    return ""


def _make(root: Root, step: _Step, base: BaseTree) -> None:
    change, found = step.change, step.before
    if change.content is None:
        root.clear(change.path)
        root.prune(change.path)
    elif found is not None:
        content = _ended_alike(change.content, base.content(change.path), found.content)
        same_mode = base.entries[change.path].mode == change.mode
        mode = found.status.st_mode & 0o777 if same_mode else _mode(change, found.status.st_mode & 0o666)
        root.replace(change.path, content, mode)
    else:
        root.replace(change.path, change.content, _mode(change, 0o666 & ~_umask()))


def _mode(change: FileChange, readable: int) -> int:
    """Executable for whoever may read it, where the change says so."""
    return readable | (readable & 0o444) >> 2 if change.mode == "100755" else readable


def _is_as(committed: bytes, found: bytes | None) -> bool:
    """Whether a file stands as it was committed. Git may have been told to end its lines with CRLF on disk (``eol``,
    ``core.autocrlf``); who gave it those by hand loses nothing, as they stay."""
    return found in (committed, _with_crlf(committed))


def _ended_alike(content: bytes, committed: bytes, found: bytes | None) -> bytes:
    return content if found == committed else _with_crlf(content)


def _with_crlf(content: bytes) -> bytes:
    return content if b"\r" in content else content.replace(b"\n", b"\r\n")


def _umask() -> int:
    with suppress(OSError, ValueError, StopIteration):
        status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
        return int(next(line for line in status.splitlines() if line.startswith("Umask:")).split()[1], 8)
    return 0o022


def _undo(root: Root, done: list[_Step]) -> None:
    for step in reversed(done):
        path, before = step.change.path, step.before
        with suppress(OSError):
            if before is None:
                root.clear(path)
                root.prune(path)
            elif before.is_link:
                root.clear(path)
                root.link(path, before.content or b"")
            else:
                root.replace(path, before.content or b"", before.status.st_mode & 0o777)


def _index(origin: Path, change_set: ChangeSet) -> dict[str, str]:
    """Path → blob in the user's index, for the paths of the change."""
    wanted = {change.path for change in change_set.changes}
    index = {}
    for line in user_git(origin, ["ls-files", "--stage", "-z"]).split(b"\0"):
        head, _, name = line.partition(b"\t")
        path = os.fsdecode(name)
        if path in wanted:
            index[path] = head.split()[1].decode()
    return index


def _keep(change_set: ChangeSet, base: BaseTree, patch: Path) -> None:
    content = base.applied(change_set).diff(binary=True)
    patch.parent.mkdir(parents=True, exist_ok=True)
    patch.write_bytes(content)
