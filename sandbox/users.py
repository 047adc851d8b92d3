"""Numeric users that nothing else on this machine runs as: one for each open sandbox."""

from __future__ import annotations

import fcntl
import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from sandbox.errors import SandboxUnavailable

# Left unassigned by Debian's policy and by systemd's table of user ids (60706…61183).
RANGE = range(60706, 60962)
LOCKS = Path("/run/graftsmith")
"""Of this machine: there once a user has been leased."""


class LeasedUser:
    """A user id held by a file lock until :meth:`release`, the end of this object or of this process."""

    def __init__(self) -> None:
        try:
            LOCKS.mkdir(mode=0o700, exist_ok=True)
            self.uid, self._lock = _first_free()
        except OSError as error:
            todo = f"Make the folder {LOCKS.parent} writable for this process"
            raise SandboxUnavailable("Can't reserve a user id for the sandbox", why=str(error), todo=todo) from error
        kill_all(self.uid)  # left over where a process of ours was killed

    def release(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def __del__(self) -> None:
        with suppress(AttributeError, OSError):
            self.release()


def _first_free() -> tuple[int, int]:
    for uid in RANGE:
        fd = os.open(LOCKS / str(uid), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
        else:
            return uid, fd
    raise OSError(f"all {len(RANGE)} are in use")


def processes_of(uid: int) -> list[int]:
    """Ids of the processes that run as ``uid``, those that have ended left out."""
    return [pid for pid, state, _ in _all_of(uid) if state != "Z"]


def reap(uid: int) -> None:
    """Let go of ended processes of ``uid`` that became our children, as happens to process 1 of a container."""
    for pid, state, parent in _all_of(uid):
        if state == "Z" and parent == os.getpid():
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


def _all_of(uid: int) -> Iterator[tuple[int, str, int]]:
    """(process, state, parent)."""
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with suppress(OSError):
                if entry.stat().st_uid == uid:
                    state, parent = Path(entry.path, "stat").read_text().rpartition(")")[2].split()[:2]
                    yield int(entry.name), state, int(parent)


def threads_of(uid: int) -> int:
    """How many threads run as ``uid``."""
    total = 0
    for pid in processes_of(uid):
        with suppress(OSError):
            total += sum(1 for _ in Path("/proc", str(pid), "task").iterdir())
    return total


def kill_all(uid: int) -> None:
    """Kill every process of ``uid`` and wait until none is left."""
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        members = processes_of(uid)
        if not members:
            return
        for pid in members:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.002)
