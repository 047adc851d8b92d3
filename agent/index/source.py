"""Where files come from: a directory on disk, or a tree that git knows.

Paths are ``/``-separated and relative; bytes that are not UTF-8 are kept as surrogates, so that every name that a file
system allows survives the round trip.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple, Protocol

from agent.git_errors import NotARepository
from agent.git_process import user_git
from agent.index import rules
from sandbox import CommandNotFound


class File(NamedTuple):
    """One file that is worth reading."""

    path: str
    stamp: str | tuple[int, ...]
    """Changes when the content does: the blob id of a git tree, size, times and number of a file on disk."""
    size: int
    blob: str | None
    """Git blob id, where it is known without reading the file."""


class Listing(NamedTuple):
    """The files worth reading, in order of their paths, and how many were left out for which reason."""

    files: tuple[File, ...]
    skipped: Counter[str]


class Source(Protocol):
    """Files to index. Reading must be safe on hostile trees: no links followed, no devices opened."""

    def listing(self) -> Listing: ...

    def read(self, path: str) -> bytes:
        """Content of a listed file.

        Raises:
            OSError: it is gone or can't be read.
        """
        ...


class DirectorySource:
    """A directory on disk, as it is now. Links are never followed; nested repositories are left out, and in a work tree
    what git ignores there.

    Args:
        most: so many files are listed, and the others counted.
    """

    def __init__(self, root: Path, *, most: int = rules.MAX_FILES) -> None:
        self.root = root
        self._most = most
        self._here = os.path.join(root, "")  # noqa: PTH118 - joined as text below, which is hot

    def listing(self) -> Listing:
        files: list[File] = []
        skipped: Counter[str] = Counter()
        ignored = _ignored(self.root)
        folders = [""]
        while folders and len(files) <= self._most:
            self._scan(folders.pop(), folders, files, skipped, ignored)
        beyond = len(folders) + max(0, len(files) - self._most)  # one folder alone may hold too many
        if beyond:
            skipped[_BEYOND] += beyond
        files.sort(key=itemgetter(0))
        return Listing(tuple(files[: self._most]), skipped)

    def _scan(
        self, folder: str, folders: list[str], files: list[File], skipped: Counter[str], ignored: frozenset[str]
    ) -> None:
        try:
            with os.scandir(self._here + folder) as entries:
                found = list(entries)
        except OSError:  # gone, forbidden, or a path longer than the system allows
            skipped["unreadable"] += 1
            return
        if folder and ".git" in {entry.name for entry in found}:
            skipped["submodule"] += 1
            return
        above = f"{folder}/" if folder else ""
        for entry in found:
            path = above + entry.name
            if entry.is_file(follow_symlinks=False):
                if path in ignored:
                    skipped[_IGNORED] += 1
                else:
                    _add(entry, path, files, skipped)
            elif entry.is_symlink():
                skipped["link"] += 1
            elif entry.is_dir(follow_symlinks=False):
                reason = rules.FOLDERS.get(entry.name) or (_IGNORED if f"{path}/" in ignored else "")
                if reason:
                    skipped[reason] += 1
                else:
                    folders.append(path)
            else:
                skipped["special file"] += 1

    def read(self, path: str) -> bytes:
        descriptor = os.open(self._here + path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(descriptor, "rb") as file:  # noqa: PTH123 - from a descriptor
            return file.read(rules.MAX_BYTES + 1)


_IGNORED = "ignored by git"
_BEYOND = "beyond the largest number of files"


def _ignored(root: Path) -> frozenset[str]:
    """What git ignores below ``root``: files, and folders with a slash at their end. Tracked files never count."""
    here = root.absolute()
    if not any((folder / ".git").exists() for folder in (here, *here.parents)):
        return frozenset()
    try:
        listed = user_git(here, ["ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory"])
    except (NotARepository, CommandNotFound):
        return frozenset()
    return frozenset(os.fsdecode(path) for path in listed.split(b"\0") if path)


def _add(entry: os.DirEntry[str], path: str, files: list[File], skipped: Counter[str]) -> None:
    try:
        stat = entry.stat(follow_symlinks=False)
    except OSError:
        skipped["unreadable"] += 1
        return
    size = stat.st_size
    reason = rules.file_rule(entry.name, size)  # no folder was entered that is left out
    if reason:
        skipped[reason] += 1
    else:
        files.append(File(path, (size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino), size, None))


class TreeEntry(Protocol):
    """What a git tree says of one path."""

    @property
    def mode(self) -> str: ...
    @property
    def blob(self) -> str: ...
    @property
    def size(self) -> int: ...


class Tree(Protocol):
    """A base commit or a draft, as ``agent.tree`` has them."""

    @property
    def entries(self) -> Mapping[str, TreeEntry]: ...

    def content(self, path: str, /) -> bytes: ...


class TreeSource:
    """A git tree, or a draft of one.

    Args:
        most: so many files are listed, and the others counted.
    """

    def __init__(self, tree: Tree, *, most: int = rules.MAX_FILES) -> None:
        self.tree = tree
        self._most = most

    def listing(self) -> Listing:
        files: list[File] = []
        skipped: Counter[str] = Counter()
        for path, entry in self.tree.entries.items():
            reason = _MODES.get(entry.mode) or rules.path_rule(path, entry.size)
            if not reason and len(files) >= self._most:
                reason = _BEYOND
            if reason:
                skipped[reason] += 1
            else:
                files.append(File(path, entry.blob, entry.size, entry.blob))
        files.sort()
        return Listing(tuple(files), skipped)

    def read(self, path: str) -> bytes:
        return self.tree.content(path)


_MODES = {"160000": "submodule", "120000": "link"}
