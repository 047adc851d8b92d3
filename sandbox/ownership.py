"""Hands a tree to the sandbox's user and takes it back, without following a link that the other side planted."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

from sandbox.errors import SandboxError

Visit = Callable[[int, str, os.stat_result], None]


def give(path: Path, uid: int) -> None:
    """Make ``uid`` the owner of the tree at ``path``, apart from files with several hard links."""

    def visit(folder: int, name: str, found: os.stat_result) -> None:
        if found.st_uid != uid and (stat.S_ISDIR(found.st_mode) or found.st_nlink == 1):
            os.chown(name, uid, uid, dir_fd=folder, follow_symlinks=False)

    _walk(path, enter=visit)


def take_back(path: Path, uid: int | None) -> None:
    """Make what ``uid`` owns in the tree at ``path`` ours, readable, and free of set-user-id bits.

    Only after every process that could change the tree is dead.
    """

    def visit(folder: int, name: str, found: os.stat_result) -> None:
        if uid is not None and found.st_uid == uid:
            os.chown(name, os.geteuid(), os.getegid(), dir_fd=folder, follow_symlinks=False)
        elif found.st_uid != os.geteuid():
            return
        if stat.S_ISDIR(found.st_mode) or stat.S_ISREG(found.st_mode):
            wanted = stat.S_IMODE(found.st_mode) & 0o777 | (0o700 if stat.S_ISDIR(found.st_mode) else 0o600)
            if wanted != stat.S_IMODE(found.st_mode):
                os.chmod(name, wanted, dir_fd=folder)

    _walk(path, enter=visit)


def remove(path: Path) -> None:
    """Remove the tree at ``path``, of any depth, after :func:`take_back`; nothing happens where there is none."""

    def leave(folder: int, name: str, found: os.stat_result) -> None:
        if stat.S_ISDIR(found.st_mode):
            os.rmdir(name, dir_fd=folder)
        else:
            os.unlink(name, dir_fd=folder)

    if os.path.lexists(path):
        _walk(path, leave=leave)


def _walk(path: Path, enter: Visit | None = None, leave: Visit | None = None) -> None:
    """Visit ``path`` and everything below it: ``enter`` before and ``leave`` after what a folder holds.

    Works by names relative to one open folder, so that the tree may be deeper than a path or the table of open files.
    """
    folder = _open(os.path.realpath(path.parent), None)
    way: list[tuple[tuple[int, int], str, os.stat_result, list[str]]] = []
    names = [path.name]
    try:
        while names or way:
            if not names:
                place, name, found, names = way.pop()
                folder = _step(folder, "..")
                if _identity(folder) != place:
                    raise SandboxError(f"{path} is being changed by someone else")
                _call(leave, folder, name, found)
                continue
            name = names.pop()
            found = os.lstat(name, dir_fd=folder)
            _call(enter, folder, name, found)
            if stat.S_ISDIR(found.st_mode):
                way.append((_identity(folder), name, found, names))
                folder = _step(folder, name)
                names = os.listdir(folder)  # noqa: PTH208 - pathlib knows no folder descriptors
            else:
                _call(leave, folder, name, found)
    finally:
        os.close(folder)


def _call(visit: Visit | None, folder: int, name: str, found: os.stat_result) -> None:
    if visit is not None:
        visit(folder, name, found)


def _identity(folder: int) -> tuple[int, int]:
    found = os.fstat(folder)
    return found.st_dev, found.st_ino


def _step(folder: int, name: str) -> int:
    below = _open(name, folder)
    os.close(folder)
    return below


def _open(name: str, folder: int | None) -> int:
    return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
