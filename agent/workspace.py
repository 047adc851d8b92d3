"""The files of a run: the base tree, and checkouts of drafts on disk for the sandbox to run tests in.

A checkout is written from git objects by us (no filter, no hook, no line-ending change) and holds no ``.git``. It is
only ever an output: nothing that a test run writes into it is read back into a draft.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
import stat
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TypeVar

from agent import carry
from agent.disk import Root
from agent.errors import UserError
from agent.git import GITLINK, LINK, Entry, Git, blob_id
from agent.listing import listed
from agent.paths import link_stays_inside
from agent.tree import DEFAULT_QUOTA, BaseTree, Draft, Quota
from agent.types import RunSpec
from sandbox import ownership
from sandbox.closing import Closing
from sandbox.types import Mount, Sandbox

T = TypeVar("T")

CHECKOUTS = "checkouts"
"""Where they are, in a run's folder."""
_FOLDER_MODE = 0o755
_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")


class Workspace(Closing):
    """Everything on disk that belongs to one run. Closing it removes the checkouts."""

    def __init__(self, spec: RunSpec, sandbox: Sandbox, base: BaseTree, carried: carry.Carried) -> None:
        self.spec = spec
        self.sandbox = sandbox
        self.base = base
        self._origin = Path(spec.origin) if spec.origin else None
        self._carried = carried
        self._open: list[Checkout] = []

    @classmethod
    def open(cls, spec: RunSpec, sandbox: Sandbox, quota: Quota = DEFAULT_QUOTA) -> Workspace:
        """Read the base's listing and look through the user's checkout, if there is one.

        Args:
            sandbox: its user gets the checkouts.
            quota: how large the repository may be.

        Raises:
            RepositoryTooLarge, RefMissing, ObjectMissing, NotARepository: the base can't be worked on.
        """
        if spec.origin and not sandbox.isolation.hides:  # the user's checkout is at the place where it should be seen
            spec = spec.model_copy(update={"view": _elsewhere(spec.origin)})
        base = BaseTree.load(Git(Path(spec.git_dir)), spec.base_sha, quota)
        return cls(spec, sandbox, base, carry.survey(Path(spec.origin), base) if spec.origin else carry.Carried())

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the result should know about the files that tests saw."""
        notes = []
        if self._carried.left_out:
            names = listed(self._carried.left_out, 10)
            notes.append(f"Left out of the checkout because they usually hold secrets: {names}")
        if self._closed:
            names = listed(self._closed, 10)
            notes.append(f"Left out of the checkout because they are closed to the user that tests run as: {names}")
        outside = [path for path, entry in self.base.entries.items() if entry.mode == LINK and not self._inside(path)]
        if outside:
            notes.append(f"Symbolic links that lead out of the repository were left out: {listed(outside, 10)}")
        return tuple(notes)

    def checkout(self, draft: Draft, name: str) -> Checkout:
        """Write ``draft`` into a fresh folder.

        Args:
            name: letters, digits, ``._-``; unique among the open checkouts of this workspace.
        """
        if not _NAME.match(name):
            raise ValueError(f"{name!r} is no name for a checkout")
        path = Path(self.spec.work_dir) / CHECKOUTS / name
        path.mkdir(parents=True)
        checkout = Checkout(self, path)
        self._open.append(checkout)
        checkout.fill(draft)
        return checkout

    def close(self) -> None:
        """Remove the checkouts and end the git reader. Safe to call twice."""
        while self._open:
            self._open[-1].close()
        self.base.git.close()

    def forget(self, checkout: Checkout) -> None:
        """A checkout that is closed needs no closing."""
        if checkout in self._open:
            self._open.remove(checkout)

    def carry_into(self, checkout: Path, draft: Draft) -> None:
        """Copy what the user's checkout has and git ignores, except where ``draft`` has files of its own."""
        if self._origin is not None:
            for path in self._free(self._carried.copied, draft):
                carry.copy(self._origin, path, checkout)

    def mounts_over(self, root: Root, draft: Draft) -> tuple[Mount, ...]:
        """The large ignored folders, each with a real folder in the checkout to be mounted on."""
        if self._origin is None:
            return ()
        origin, closed = self._origin, self._closed
        free = [path for path in self._free(self._carried.mounted, draft) if path not in closed]
        for path in free:
            status = root.status(path)
            if status is None or not stat.S_ISDIR(status.st_mode):
                root.clear(path)
                root.make_folder(path)
        return tuple(Mount(origin / path, f"{self.spec.view}/{path}") for path in free)

    @staticmethod
    def _free(paths: Iterable[str], draft: Draft) -> list[str]:
        return [path for path in paths if path not in draft and not draft.is_folder(path)]

    @cached_property
    def _closed(self) -> Sequence[str]:
        """Folders that git ignores and that commands can't be shown."""
        origin = self._origin
        return [] if origin is None else [path for path in self._carried.mounted if self.sandbox.closed(origin / path)]

    @cached_property
    def base_time(self) -> int:
        """The age of unchanged files: the commit's, so that whatever was built from them is newer."""
        return min(self.base.git.commit_time(self.base.sha), int(time.time()))

    def _inside(self, path: str) -> bool:
        return link_stays_inside(path, os.fsdecode(self.base.content(path)))


class Checkout(Closing):
    """A draft as files. Made by :meth:`Workspace.checkout`."""

    def __init__(self, workspace: Workspace, path: Path) -> None:
        self.path = path
        self.view = workspace.spec.view
        """Where it appears inside the sandbox."""
        self._workspace = workspace
        self._over: tuple[Mount, ...] = ()
        self._written: Mapping[str, Entry] = {}
        self._seen: dict[str, tuple[int, int, int, int]] = {}
        self._clock = 0

    @property
    def mounts(self) -> tuple[Mount, ...]:
        """All that a command needs to see these files at ``view``: the checkout itself, then what lies on top of it."""
        return (Mount(self.path, self.view, writable=True), *self._over)

    def fill(self, draft: Draft) -> None:
        """Write everything into the empty folder.

        Raises:
            UserError: the disk takes two paths of the repository for one.
        """
        try:
            with Root(self.path) as root:
                self._write(root, draft, draft.entries, pristine=True)
        except FileExistsError as error:
            raise UserError(
                f"Two paths of the repository are the same file on this disk: {os.fsdecode(error.filename or b'')}",
                why="The disk does not tell upper from lower case",
                todo="Work on a case-sensitive disk",
            ) from error
        self._workspace.carry_into(self.path, draft)
        self._done(draft)

    def sync(self, draft: Draft) -> None:
        """Make every file of ``draft`` as it should be, and remove those of the draft before; whatever else a test
        run or a set-up left behind stays. Only while nothing runs in the checkout. Links are never followed."""
        self._unlocked(lambda: self._restore(draft))

    def altered(self) -> tuple[str, ...]:
        """The files of the draft that are no longer as they were written. Only while nothing runs in the checkout."""
        return self._unlocked(self._altered)

    def _altered(self) -> tuple[str, ...]:
        with Root(self.path) as root:
            changed = (path for path, want in self._written.items() if not self._matches(root, path, want))
            return tuple(sorted(changed))

    def reset(self, draft: Draft) -> None:
        """Make everything as in a fresh checkout of ``draft``: contents, modes and ages, and nothing else is there.
        Only while nothing runs in the checkout. Links are never followed."""
        self._unlocked(lambda: self._clean(draft))

    def _unlocked(self, work: Callable[[], T]) -> T:
        """A test run can lock folders against us when it is no other user."""
        try:
            return work()
        except PermissionError:
            self._workspace.sandbox.reclaim(self.path)
            return work()

    def _clean(self, draft: Draft) -> None:
        folders = {str(parent) for path in self._written for parent in PurePosixPath(path).parents}
        with Root(self.path) as root:
            for path in _strangers(self.path, "", self._written.keys(), folders):
                root.clear(path)
        self._restore(draft, pristine=True)

    def _restore(self, draft: Draft, *, pristine: bool = False) -> None:
        wanted = draft.entries
        with Root(self.path) as root:
            for path in self._written.keys() - wanted.keys():
                root.clear(path)
                root.prune(path)
            matches = self._untouched if pristine else self._matches
            stale = {path: want for path, want in wanted.items() if not matches(root, path, want)}
            for path in stale:
                root.clear(path)
            self._write(root, draft, stale, pristine=pristine)
        if pristine:
            self._workspace.carry_into(self.path, draft)
        self._done(draft)

    def close(self) -> None:
        """Remove the checkout. Safe to call twice."""
        self._workspace.forget(self)
        if self.path.exists():
            self._workspace.sandbox.reclaim(self.path)
            ownership.remove(self.path)

    def _write(self, root: Root, draft: Draft, wanted: Mapping[str, Entry], *, pristine: bool) -> None:
        # Python's compiled files name their source by size and full seconds: two states must never share a second. And
        # what is built anew is what is younger than the last build: none may seem to have come later in this second.
        self._clock = max(math.ceil(time.time()), self._clock + 1)
        for path, content in _contents(draft, wanted):
            mode = wanted[path].mode
            if mode == GITLINK:
                root.make_folder(path)
            elif mode == LINK:
                if link_stays_inside(path, os.fsdecode(content)):
                    root.link(path, content)
            else:
                fresh = path in draft.edits or not pristine
                root.create(
                    path,
                    content,
                    0o755 if mode == "100755" else 0o644,
                    self._clock if fresh else self._workspace.base_time,
                )

    def _done(self, draft: Draft) -> None:
        self._written = draft.entries
        with Root(self.path) as root:
            self._over = self._workspace.mounts_over(root, draft)
        self._workspace.sandbox.own(self.path)
        with Root(self.path) as root:
            statuses = ((path, root.status(path)) for path in self._written)
            self._seen = {path: _signature(status) for path, status in statuses if status is not None}

    def _matches(self, root: Root, path: str, want: Entry) -> bool:
        if want.mode == GITLINK:
            return root.status(path) is not None
        if self._untouched(root, path, want):
            return True
        found = root.find(path)
        if found is None or found.content is None or found.is_link != (want.mode == LINK):
            return False
        same_mode = found.is_link or found.executable == (want.mode == "100755")
        return same_mode and blob_id(found.content) == want.blob

    def _untouched(self, root: Root, path: str, want: Entry) -> bool:
        """The kernel's change time can't be set back."""
        status = root.status(path)
        if status is None or self._written.get(path) != want:
            return False
        return stat.S_ISDIR(status.st_mode) if want.mode == GITLINK else self._seen.get(path) == _signature(status)


def _elsewhere(origin: str) -> str:
    """The same for each run on a checkout, since what is installed remembers where it was."""
    return f"/graftsmith-{hashlib.sha256(os.fsencode(origin)).hexdigest()[:16]}"


def _strangers(checkout: Path, below: str, written: Container[str], folders: Container[str]) -> Iterator[str]:
    """What is there and was not written by us; folders of ours get their mode back."""
    if stat.S_IMODE((checkout / below).stat().st_mode) != _FOLDER_MODE:
        (checkout / below).chmod(_FOLDER_MODE)
    with os.scandir(checkout / below) as found:
        entries = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in found]
    for name, is_folder in entries:
        path = f"{below}/{name}" if below else name
        if is_folder and (path in folders or path in written):
            yield from _strangers(checkout, path, written, folders)
        elif path not in written:
            yield path


def _contents(draft: Draft, paths: Iterable[str]) -> Iterable[tuple[str, bytes]]:
    from_base: list[str] = []
    for path in paths:
        edit = draft.edits.get(path)
        if edit is not None:
            yield path, edit.content
        elif draft.base.entries[path].mode == GITLINK:
            yield path, b""
        else:
            from_base.append(path)
    yield from zip(from_base, draft.base.contents(from_base), strict=True)


def _signature(status: os.stat_result) -> tuple[int, int, int, int]:
    return status.st_ino, status.st_size, status.st_ctime_ns, status.st_mode
