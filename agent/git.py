"""Git on bare repositories of our own, so that nothing in them can run a program or leave the protocol we allow.

A :class:`Git` never has a work tree: files are read from objects and written by us. No hook, filter, textconv, file
system monitor, credential helper or submodule is ever started. Secrets travel in the environment of the one process
that needs them, never in an argument or a file.
"""

from __future__ import annotations

import errno
import hashlib
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from agent.errors import BugError, UserError
from agent.git_errors import (
    ObjectMissing,
    RefMissing,
    RepositoryTooLarge,
    first_line,
    local_error,
    missing,
    no_room,
    remote_error,
)
from agent.git_names import object_id, protocol, source
from agent.git_process import LOCAL, environment
from agent.outside import git_settings
from agent.types import FileChange
from sandbox import process
from sandbox.closing import Closing
from sandbox.errors import SandboxError
from sandbox.types import MIB, End, Finished, Limits

_REMOTE = Limits(wall_s=900.0)
_FETCH = ("fetch", "--quiet", "--depth=1", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--force")
_FETCHED = "refs/graftsmith/fetched"

LINK, GITLINK = "120000", "160000"


@dataclass(frozen=True)
class Entry:
    """One path of a tree. ``mode`` is git's (``100644``, ``100755``, ``120000`` link, ``160000`` submodule)."""

    path: str
    """``/``-separated; decoded with surrogateescape where it is not UTF-8."""
    mode: str
    blob: str
    size: int
    """Bytes; 0 for a submodule."""


@dataclass(frozen=True)
class Match:
    """One line found by :meth:`Git.grep`; ``line`` counts from 1."""

    path: str
    line: int
    text: str


class Git(Closing):
    """A bare repository in a folder that no sandbox can write.

    Args:
        git_dir: the bare repository.
    """

    def __init__(self, git_dir: Path) -> None:
        self.git_dir = git_dir
        self._reader: process.Conversation | None = None
        self._lock = threading.Lock()
        self._waited = threading.local()

    @classmethod
    def init(cls, git_dir: Path) -> Git:
        """Make an empty bare repository, or open the one that is there.

        Raises:
            OSError: the disk is full.
            BugError: git could not, for another reason.
        """
        git_dir.mkdir(parents=True, exist_ok=True, mode=0o700)  # other people's private code
        argv = ["git", "init", "--quiet", "--bare", "--template=", "--", str(git_dir)]
        finished = process.run(argv, env=environment(), limits=LOCAL, split_stderr=True)
        if no_room(finished):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(git_dir))
        if not finished.ok:
            raise BugError("git init failed", why=first_line(finished.stderr))
        return cls(git_dir)

    def close(self) -> None:
        """End the long-lived reader. The repository stays usable."""
        with self._lock:
            if self._reader is not None:
                self._reader.close()
                self._reader = None

    # ── from elsewhere ──

    def fetch(
        self,
        url: str,
        ref: str,
        *,
        header: str | None = None,
        max_bytes: int | None = None,
        cancelled: Callable[[], bool] | None = None,
    ) -> str:
        """Bring ``ref`` here, without its history, and return its commit id.

        Args:
            url: ``https``, ``http`` or ``file`` URL without credentials.
            ref: a full ref name (``refs/heads/main``, ``refs/pull/22/head``), ``HEAD``, or a commit id.
            header: a whole HTTP header with a token, ``Authorization: …``.
            max_bytes: stop when the repository's folder grows beyond it.

        Raises:
            RefMissing, AccessDenied, RepositoryTooLarge, RetryLater, UserError.
        """
        named = source(ref)
        settings = {f"protocol.{protocol(url)}.allow": "always", **git_settings(url)}
        if header is not None:
            settings["http.extraHeader"] = header
        too_large = _Growth(self.git_dir, max_bytes)
        finished = self._try(
            [*_FETCH, "--", url, f"{named}:{_FETCHED}"],
            settings=settings,
            cancelled=lambda: too_large() or (cancelled is not None and cancelled()),
            limits=_REMOTE,
        )
        if finished.ok:
            return self.resolve(_FETCHED)
        if too_large():
            raise RepositoryTooLarge("The repository is larger than the limit", todo="Raise the limit to work on it")
        raise remote_error(finished, header)

    # ── reading ──

    def resolve(self, name: str) -> str:
        """The commit id that ``name`` (a full ref, ``HEAD`` or an id) stands for.

        Raises:
            RefMissing: it stands for none.
        """
        finished = self._try(["rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}"])
        if not finished.ok:
            raise RefMissing(f"There is no commit {name!r} in the repository")
        return finished.stdout.decode().strip()

    def tree(self, sha: str) -> dict[str, Entry]:
        """Every file, link and submodule of a commit or tree, by path, in git's order."""
        listing = self.run(["ls-tree", "-r", "-z", "-l", "--full-tree", object_id(sha)])
        return {entry.path: entry for entry in map(_entry, listing.split(b"\0")[:-1])}

    def tree_of(self, sha: str) -> str:
        """The id of a commit's tree."""
        return self.run(["rev-parse", "--verify", f"{object_id(sha)}^{{tree}}"]).decode().strip()

    def commit_time(self, sha: str) -> int:
        """Seconds since the epoch, as the committer's clock had it."""
        return int(self.run(["log", "--no-walk", "--no-show-signature", "--format=%ct", object_id(sha), "--"]))

    def blob(self, blob: str) -> bytes:
        """The bytes of one blob, as stored: no filter, no line-ending change."""
        return next(self.blobs([blob]))

    def blobs(self, wanted: Iterable[str]) -> Iterator[bytes]:
        """The bytes of many blobs in order, asked for in batches through one process."""
        ids = list(wanted)
        for start in range(0, len(ids), 256):  # 256 unanswered requests are 10 KiB: below a pipe's buffer
            batch = ids[start : start + 256]
            with self._lock, self._timed():
                contents = self._read(batch)
            yield from contents

    def _read(self, batch: Sequence[str]) -> list[bytes]:
        if self._reader is None:
            self._reader = process.Conversation([*self._argv(), "cat-file", "--batch"], env=environment())
        try:
            self._reader.send("".join(f"{object_id(blob)}\n" for blob in batch).encode())
            return [self._answer(self._reader, blob) for blob in batch]
        except BaseException as error:
            # What was asked and not read would be taken for the answer to the next question.
            self._reader.close()
            self._reader = None
            if isinstance(error, SandboxError):
                raise ObjectMissing("git could not read the repository's objects", why=str(error)) from error
            raise

    @staticmethod
    def _answer(reader: process.Conversation, blob: str) -> bytes:
        head = reader.read_line().split()
        if len(head) != 3:
            raise missing(blob)
        content = reader.read(int(head[2]) + 1)
        return content[:-1]

    def diff(self, before: str, after: str, *, context: int = 3, binary: bool = False) -> bytes:
        """The patch between two trees, renames shown as such; with ``binary`` it can be applied whatever it holds."""
        options = ["--binary", "--full-index"] if binary else []
        return self.run(
            [
                *("diff-tree", "-p", "-r", "-M", "--no-color", "--no-ext-diff", "--no-textconv", f"-U{context:d}"),
                *(*options, object_id(before), object_id(after), "--"),
            ]
        )

    def grep(
        self, tree: str, pattern: str, *, regex: bool = False, ignore_case: bool = False, where: Sequence[str] = ()
    ) -> Iterator[Match]:
        """Lines of text files in ``tree`` that hold ``pattern``.

        Args:
            where: pathspecs with their magic; none: everywhere.

        Raises:
            UserError: ``pattern`` is no valid extended regular expression.
        """
        options = ["-E" if regex else "-F", *(["-i"] if ignore_case else [])]
        finished = self._try(
            ["grep", "--no-color", "-n", "-I", "-z", *options, "-e", pattern, object_id(tree), "--", *where],
            limits=Limits(wall_s=20.0, output_bytes=8 * MIB),
        )
        if finished.end is not End.EXITED or finished.exit_code not in (0, 1):
            raise UserError("The search did not work", why=first_line(finished.stderr))
        for line in finished.stdout.split(b"\n")[:-1]:
            parts = line.split(b"\0", 2)
            if len(parts) == 3 and parts[1].isdigit():
                path = parts[0].split(b":", 1)[1].decode(errors="surrogateescape")
                yield Match(path, int(parts[1]), parts[2].decode(errors="replace").rstrip("\r"))

    # ── writing objects ──

    def write_tree(self, base: str, changes: Iterable[FileChange]) -> str:
        """Store the tree of ``base`` with ``changes`` applied and return its id. ``base`` itself stays as it is."""
        changed = sorted(changes, key=lambda change: (change.content is not None, change.path))
        with tempfile.TemporaryDirectory(prefix="index-", dir=self.git_dir) as scratch:
            blobs = iter(self._store([c.content for c in changed if c.content is not None], Path(scratch)))
            lines = [
                _index_line(c.path, c.mode, next(blobs))
                if c.content is not None
                else _index_line(c.path, "0", "0" * 40)
                for c in changed
            ]
            index = {"GIT_INDEX_FILE": str(Path(scratch) / "index")}
            self.run(["read-tree", object_id(base)], variables=index)
            if lines:
                self.run(["update-index", "--add", "--replace", "-z", "--index-info"], b"".join(lines), variables=index)
            return self.run(["write-tree"], variables=index).decode().strip()

    def _store(self, contents: Sequence[bytes], scratch: Path) -> list[str]:
        if not contents:
            return []
        names = [scratch / str(number) for number in range(len(contents))]
        for name, content in zip(names, contents, strict=True):
            name.write_bytes(content)
        listing = "".join(f"{name}\n" for name in names).encode()
        return self.run(["hash-object", "-w", "--no-filters", "--stdin-paths"], listing).decode().split()

    # ── processes ──

    def run(
        self, arguments: Sequence[str], stdin: bytes = b"", *, variables: Mapping[str, str] = MappingProxyType({})
    ) -> bytes:
        """Run one local command here and return its output.

        Raises:
            NotARepository, ObjectMissing, RepositoryTooLarge, BugError.
        """
        finished = self._try(arguments, stdin, variables=variables)
        if not finished.ok:
            raise local_error(arguments[0], finished, self.git_dir)
        if finished.total_bytes > LOCAL.output_bytes:
            raise RepositoryTooLarge("The repository's listing is larger than the limit")
        return finished.stdout

    def _try(
        self,
        arguments: Sequence[str],
        stdin: bytes = b"",
        *,
        settings: Mapping[str, str] = MappingProxyType({}),
        variables: Mapping[str, str] = MappingProxyType({}),
        cancelled: Callable[[], bool] | None = None,
        limits: Limits = LOCAL,
    ) -> Finished:
        with self._timed():
            finished = process.run(
                [*self._argv(), *arguments],
                env={**environment(settings), **variables},
                stdin=stdin,
                limits=limits,
                cancelled=cancelled,
                split_stderr=True,
            )
        if no_room(finished):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.git_dir))
        return finished

    @property
    def seconds(self) -> float:
        """That the calling thread has waited for git so far: what another one waits for meanwhile costs it nothing."""
        return getattr(self._waited, "seconds", 0.0)

    @contextmanager
    def _timed(self) -> Iterator[None]:
        started = time.monotonic()
        try:
            yield
        finally:
            self._waited.seconds = self.seconds + time.monotonic() - started

    def _argv(self) -> list[str]:
        return ["git", "--git-dir", str(self.git_dir)]


class _Growth:
    """Whether a folder has grown beyond ``limit`` bytes; looks at most twice a second."""

    def __init__(self, folder: Path, limit: int | None) -> None:
        self._folder = folder
        self._limit = limit
        self._next_look = 0.0
        self._beyond = False

    def __call__(self) -> bool:
        if self._limit is not None and not self._beyond and time.monotonic() >= self._next_look:
            self._next_look = time.monotonic() + 0.5
            self._beyond = folder_bytes(self._folder) > self._limit
        return self._beyond


def folder_bytes(folder: Path) -> int:
    """The size of everything below ``folder``; what vanishes meanwhile does not count."""
    total = 0
    for path in folder.rglob("*"):
        try:
            status = path.lstat()
        except FileNotFoundError:
            continue
        total += status.st_size
    return total


def blob_id(content: bytes) -> str:
    """The id that git gives to these bytes."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def _entry(line: bytes) -> Entry:
    head, _, path = line.partition(b"\t")
    mode, _kind, blob, size = head.split()
    if not size.isdigit() and size != b"-":
        raise missing(blob.decode())
    return Entry(path.decode(errors="surrogateescape"), mode.decode(), blob.decode(), 0 if size == b"-" else int(size))


def _index_line(path: str, mode: str, blob: str) -> bytes:
    return f"{mode} {blob}\t".encode() + path.encode(errors="surrogateescape") + b"\0"
