"""Starts the launcher, and hears from it and from bubblewrap apart from the command's own output."""

from __future__ import annotations

import json
import marshal
import math
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from sandbox import process
from sandbox.types import Limits

_LAUNCHER = str(Path(__file__).with_name("launcher.py"))
_OWN_PROCESSES = 8  # bubblewrap's two and a margin, counted for the same user
_STAGING = "/tmp"  # noqa: S108 - hidden by a file system of our own, in a mount namespace of our own


@dataclass(frozen=True)
class Plan:
    """What the launcher does before it becomes ``argv``, in this order."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    program: str = ""
    """The file to execute when it is not what ``argv[0]`` names."""
    doors: tuple[str, ...] = ()
    """Files of control groups to enter."""
    sources: tuple[str, ...] | None = None
    """Paths to make reachable at :func:`staged`, in a mount namespace of its own; ``None``: no such namespace."""
    limits: tuple[tuple[int, int, int], ...] = ()
    """(resource, soft, hard)."""
    user: int | None = None
    ruleset: bytes = b""
    """A ``landlock_ruleset_attr``; empty: none."""
    rules: tuple[tuple[str, int], ...] = ()
    """(path, Landlock rights)."""
    ports: tuple[int, ...] = ()
    """TCP ports to which ``ruleset`` lets it connect."""
    network: bool = False
    """In a network namespace of its own, where loopback has a second address of each family."""
    filter: bytes = b""
    """A seccomp program; empty: none."""
    cwd: str = "/"
    pass_status: bool = False
    """``argv`` gets the status descriptor too."""
    kill: bool = False
    """Instead of becoming ``argv``: kill everything that ``user`` runs."""


def staged(number: int) -> str:
    """Where the launcher shows ``Plan.sources[number]``."""
    return f"{_STAGING}/{number}"


class Handover:
    """File descriptors for one child: a status pipe, and bytes on no disk. Close it once the child has started."""

    def __init__(self, status: Status) -> None:
        self._closing = ExitStack()
        self._closing.callback(status.started)
        self.status = status.write_end
        self.descriptors = [status.write_end]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    def add(self, data: bytes) -> int:
        """A descriptor from which the child reads ``data``."""
        fd = process.memory_file(data)
        self._closing.callback(os.close, fd)
        self.descriptors.append(fd)
        return fd

    def lend(self, fd: int) -> None:
        """Let the child have ``fd`` too; closing it is the caller's business."""
        self.descriptors.append(fd)


def start(plan: Plan, handover: Handover, *, stdin: bytes) -> subprocess.Popen[bytes]:
    """Start the launcher with an empty environment. The parent to die with is the calling thread."""
    facts = {**vars(plan), "staging": _STAGING, "status": handover.status, "parent": os.getpid(), "env": dict(plan.env)}
    argv = [sys.executable, "-I", "-S", "-E", _LAUNCHER, str(handover.add(marshal.dumps(facts)))]
    return process.spawn(argv, env={}, stdin=stdin, pass_fds=handover.descriptors)


class Status:
    """What launcher and bubblewrap tell: one fact a line."""

    def __init__(self) -> None:
        self._read_end, self.write_end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self.child: int | None = None
        """First process of the process namespace, seen from outside."""
        self.exit_code: int | None = None
        self.failed = ""
        self.missing = ""
        """Why there is no such program."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._read_end)
        self.started()

    def started(self) -> None:
        """The child has its copy of the pipe: close ours."""
        if self.write_end >= 0:
            os.close(self.write_end)
            self.write_end = -1

    def read(self) -> None:
        """Take in what has been told so far."""
        with suppress(BlockingIOError):
            for line in os.read(self._read_end, 65536).decode(errors="replace").splitlines():
                self._take(line)

    def _take(self, line: str) -> None:
        word, _, rest = line.partition(" ")
        if word == "failed":
            self.failed = rest
        elif word == "missing":
            self.missing = rest
        else:
            fact: dict[str, Any] = json.loads(line)
            self.child = fact.get("child-pid", self.child)
            self.exit_code = fact.get("exit-code", self.exit_code)


def resource_limits(limits: Limits, *, others: Callable[[], int] = lambda: 0) -> Iterator[tuple[int, int, int]]:
    """(resource, soft, hard) of each process. ``others``: how many threads this user has besides the command's."""
    yield resource.RLIMIT_CORE, 0, 0
    most_files = min(4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    yield resource.RLIMIT_NOFILE, most_files, most_files
    if limits.file_bytes is not None:
        yield resource.RLIMIT_FSIZE, limits.file_bytes, limits.file_bytes
    # Without a limit of its own a process may keep every processor busy for as long as it may run, and no longer:
    # should we be killed, nobody else watches the clock.
    seconds = limits.cpu_s if limits.cpu_s is not None else math.ceil(limits.wall_s * (os.cpu_count() or 1)) + 60
    # The soft limit's signal can be told from other deaths, the hard one's can't.
    yield resource.RLIMIT_CPU, seconds, seconds + 5
    if limits.pids is not None:
        bound = limits.pids + _OWN_PROCESSES + others()
        yield resource.RLIMIT_NPROC, bound, bound
