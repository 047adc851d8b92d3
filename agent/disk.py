"""Files below one folder, reached by names relative to open folders: no symbolic link on the way is ever followed."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import stat
import struct
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from sandbox import ownership

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


LEAST_ROOM = 2 * 1024 * 1024

_FLAGS = struct.Struct("l")
_GET_FLAGS = 0x8000_6601 | _FLAGS.size << 16
_SET_FLAGS = 0x4000_6602 | _FLAGS.size << 16
_TOP = 0x0002_0000
"""ioctl_iflags(2): ``FS_IOC_GETFLAGS``, ``FS_IOC_SETFLAGS``, ``FS_TOPDIR_FL``."""


def check_room(place: Path) -> None:
    """For when a command has failed that wrote to the disk of ``place``: where there is no room, that says nothing of
    the command.

    Raises:
        OSError: the disk is as good as full (ENOSPC).
    """
    there = next(folder for folder in (place, *place.parents) if folder.exists())  # it may not be made yet
    disk = os.statvfs(there)
    if disk.f_bavail * disk.f_frsize < LEAST_ROOM or (disk.f_files and not disk.f_favail):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(place))


def scatter(folder: Path) -> None:
    """Have ext4 put the folders that are made in ``folder`` far from each other; other file systems are left alone.

    ext4 gives no inode away again for minutes after its file was removed, and passes over all of those whenever it
    makes a file near them (``recently_deleted`` in its ``ialloc.c``). A run that follows another would make its
    thousands of files where those of the other have just been removed, each in thirty times the time.
    """
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        (flags,) = _FLAGS.unpack(fcntl.ioctl(opened, _GET_FLAGS, bytes(_FLAGS.size)))
        fcntl.ioctl(opened, _SET_FLAGS, _FLAGS.pack(flags | _TOP))
    except OSError:  # it knows no such flag, or the folder is not ours: slower, and nothing else
        pass
    finally:
        os.close(opened)


@dataclass(frozen=True)
class Found:
    """What is at a path: the bytes of a regular file, or the target of a link. Anything else is ``None``."""

    status: os.stat_result
    content: bytes | None

    @property
    def is_link(self) -> bool:
        return stat.S_ISLNK(self.status.st_mode)

    @property
    def executable(self) -> bool:
        return bool(self.status.st_mode & 0o100)


class Root:
    """An open folder. Paths are relative, ``/``-separated and canonical (``agent.paths``), names may be any bytes
    (surrogateescape).

    Raises (all methods): OSError as the system gives it; ``NotADirectoryError`` where something on the way is a link
    or a file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._last: tuple[bytes, int] = (b"", self._fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._forget()
        os.close(self._fd)

    def status(self, path: str) -> os.stat_result | None:
        """``lstat``; ``None`` where there is nothing, or something other than a folder on the way."""
        try:
            folder, name = self._parent(path)
            return os.lstat(name, dir_fd=folder)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def reachable(self, path: str) -> bool:
        """Whether all that exists of the folders above ``path`` are real folders."""
        try:
            self._parent(path)
        except FileNotFoundError:
            return True
        except NotADirectoryError:
            return False
        return True

    def find(self, path: str) -> Found | None:
        """What is at ``path``, with its content; ``None`` as in :meth:`status`."""
        status = self.status(path)
        if status is None:
            return None
        folder, name = self._parent(path)
        if stat.S_ISLNK(status.st_mode):
            return Found(status, os.readlink(name, dir_fd=folder))
        if not stat.S_ISREG(status.st_mode):
            return Found(status, None)
        with os.fdopen(os.open(name, _READ, dir_fd=folder), "rb") as file:
            return Found(os.fstat(file.fileno()), file.read())

    def create(self, path: str, content: bytes, mode: int, mtime: int | None = None) -> None:
        """Make a file that is not there yet, with its folders."""
        folder, name = self._parent(path, make=True)
        with os.fdopen(os.open(name, _NEW, 0o600, dir_fd=folder), "wb") as file:
            file.write(content)
            file.flush()
            os.fchmod(file.fileno(), mode)
            if mtime is not None:
                os.utime(file.fileno(), (mtime, mtime))

    def replace(self, path: str, content: bytes, mode: int) -> None:
        """Make a file or take the place of one, in one step: at no time is there half a file. It belongs to whom the
        file before belonged to, a new one to whom its folder does, as far as we may give it to them."""
        folder, name = self._parent(path, make=True)
        before = self.status(path) or os.fstat(folder)
        temporary = b"." + name[:200] + b"." + secrets.token_hex(8).encode()
        try:
            with os.fdopen(os.open(temporary, _NEW, 0o600, dir_fd=folder), "wb") as file:
                file.write(content)
                file.flush()
                _give(file.fileno(), before)
                os.fchmod(file.fileno(), mode)
                os.fsync(file.fileno())
            os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=folder)
            raise

    def link(self, path: str, target: bytes) -> None:
        """Make a symbolic link that is not there yet."""
        folder, name = self._parent(path, make=True)
        os.symlink(target, name, dir_fd=folder)

    def make_folder(self, path: str) -> None:
        """Make a folder with those above it; fine when it is there."""
        self._parent(f"{path}/x", make=True)

    def clear(self, path: str) -> None:
        """Remove whatever is at ``path``, and whatever stands on the way where folders belong."""
        self._forget()
        parts = _name(path).split(b"/")
        folder = os.dup(self._fd)
        try:
            for part in parts[:-1]:
                try:
                    below = os.open(part, _FOLDER, dir_fd=folder)
                except FileNotFoundError:
                    return
                except NotADirectoryError:
                    os.unlink(part, dir_fd=folder)
                    return
                os.close(folder)
                folder = below
            self._remove(parts[-1], folder)
        finally:
            os.close(folder)

    def _remove(self, name: bytes, folder: int) -> None:
        try:
            status = os.lstat(name, dir_fd=folder)
        except FileNotFoundError:
            return
        if not stat.S_ISDIR(status.st_mode):
            os.unlink(name, dir_fd=folder)
            return
        # It may be deeper than any recursion or path: out of the way first, then removed step by step.
        aside = f".removed-{secrets.token_hex(8)}"
        os.rename(name, aside, src_dir_fd=folder, dst_dir_fd=self._fd)
        ownership.remove(self.path / aside)

    def prune(self, path: str) -> None:
        """Remove the folders above ``path`` that are empty now, innermost first."""
        self._forget()
        while "/" in path:
            path = path.rsplit("/", 1)[0]
            try:
                folder, name = self._parent(path)
                os.rmdir(name, dir_fd=folder)
            except OSError:
                return

    def _parent(self, path: str, *, make: bool = False) -> tuple[int, bytes]:
        """The open folder that holds ``path``, and the last name. Neighbours share one walk."""
        above, _, name = _name(path).rpartition(b"/")
        if above != self._last[0]:
            self._forget()
            self._last = (above, self._walk(above, make=make)) if above else (b"", self._fd)
        return self._last[1], name

    def _walk(self, above: bytes, *, make: bool) -> int:
        folder = os.dup(self._fd)
        for part in above.split(b"/"):
            try:
                below = _step(part, folder, make=make)
            finally:
                os.close(folder)
            folder = below
        return folder

    def _forget(self) -> None:
        if self._last[1] != self._fd:
            os.close(self._last[1])
        self._last = (b"", self._fd)


def _step(part: bytes, folder: int, *, make: bool) -> int:
    try:
        return os.open(part, _FOLDER, dir_fd=folder)
    except FileNotFoundError:
        if not make:
            raise
        os.mkdir(part, 0o755, dir_fd=folder)
        made = os.open(part, _FOLDER, dir_fd=folder)
        _give(made, os.fstat(folder))
        return made
    except OSError as error:
        # Linux says ELOOP for a link that O_NOFOLLOW refuses; with O_DIRECTORY it is ENOTDIR. Callers know one.
        raise NotADirectoryError(error.errno, error.strerror, os.fsdecode(part)) from error


def _give(made: int, like: os.stat_result) -> None:
    with suppress(PermissionError):  # who is not root keeps what they make
        os.fchown(made, like.st_uid, like.st_gid)


def _name(path: str) -> bytes:
    return path.encode(errors="surrogateescape")
