"""The values that cross this package's border, and the seam that every isolation implements."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol, Self

from sandbox.egress.policy import Egress, Refusal

MIB = 1024 * 1024
_WORDS, _WORD_BYTES, _WORDS_BYTES = 8_000, 128 * 1024, 3 * MIB // 2
"""What bubblewrap takes (9,000 with its own options) and what Linux takes (MAX_ARG_STRLEN, a quarter of the usual
stack), less some room for what a sandbox adds."""

Cancelled = Callable[[], bool]


@dataclass(frozen=True)
class Limits:
    """Upper bounds of one command. ``None`` means no bound of that kind.

    ``wall_s`` and ``output_bytes`` hold everywhere; the others hold inside a sandbox only.
    """

    wall_s: float = 900.0
    """Seconds by the monotonic clock, kept by the supervisor."""
    quiet_s: float | None = None
    """Seconds without output and with hardly any processor time, after which it counts as hung."""
    cpu_s: int | None = None
    """Processor seconds of one process."""
    memory_bytes: int | None = 4096 * MIB
    """Of the whole command with everything that it starts, temporary files included."""
    pids: int | None = 512
    """Processes and threads at the same time."""
    file_bytes: int | None = 2048 * MIB
    """Size of one file."""
    output_bytes: int = 1 * MIB
    """Bytes of output kept in memory: the head and the tail."""
    tmp_bytes: int = 1024 * MIB
    """Size of ``/tmp``, of the home folder and of ``/dev/shm``, each."""
    log_bytes: int = 64 * MIB
    """Bytes of raw output written to the log file."""
    spare_bytes: int = 512 * MIB
    """What stays free on each disk that the command can write to."""
    spare_files: int = 20_000
    """How many files each of these disks can still take then."""


@dataclass(frozen=True)
class Mount:
    """A path of this machine that a command sees, read-only unless ``writable``.

    ``target`` is any absolute path inside, also one below another mount.
    """

    source: Path
    target: str
    writable: bool = False


@dataclass(frozen=True)
class Command:
    """One command for a sandbox. Nothing is inherited: what it needs is listed here.

    ``argv`` is never a shell string; ``cwd`` and the targets of ``mounts`` are paths inside.
    """

    argv: tuple[str, ...]
    cwd: str
    env: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    scratch: tuple[str, ...] = ()
    """Folders inside ``mounts`` that are seen empty and can be written to; what is written is gone afterwards. Where
    nothing can be mounted they stay as they are."""
    egress: Egress | None = None
    """The way out through a proxy of ours; without it there is no network but the command's own loopback."""
    stdin: bytes = b""
    limits: Limits = Limits()

    @property
    def writable(self) -> tuple[Path, ...]:
        """What of this machine's disks it can write to."""
        return tuple(mount.source for mount in self.mounts if mount.writable)

    @property
    def unfit(self) -> str:
        """Why no system can start it, for a person; empty when one can. Its words may come from anybody."""
        words = (*self.argv, self.cwd, *self.env, *self.env.values())
        if any("\0" in word for word in words):
            return "a word of it holds a NUL character"
        try:
            sizes = [len(os.fsencode(word)) + 1 for word in words]
        except UnicodeEncodeError:
            return "a word of it holds half a character (a lone surrogate)"
        if len(words) > _WORDS or max(sizes) > _WORD_BYTES or sum(sizes) > _WORDS_BYTES:
            return f"it is too long: at most {_WORDS} words, {_WORD_BYTES} bytes a word and {_WORDS_BYTES} in all"
        return ""


class End(StrEnum):
    """How a command ended."""

    EXITED = "exited"
    SIGNALLED = "signalled"
    TIMED_OUT = "timed_out"
    HUNG = "hung"
    OUT_OF_MEMORY = "out_of_memory"
    OUT_OF_ROOM = "out_of_room"
    CANCELLED = "cancelled"


@dataclass(frozen=True)
class Finished:
    """What is known of a command that is over; nothing that it started is alive any more."""

    end: End
    exit_code: int | None
    """Set when ``end`` is ``EXITED``. 127: no such program; 126: it can't be started."""
    signal: int | None
    """Set when ``end`` is ``SIGNALLED``."""
    output: bytes
    """Standard output and error as they came; when the middle is left out, a marker line says so."""
    total_bytes: int
    """Bytes that the command wrote, kept or not."""
    seconds: float
    """From the start to the end of all that it started; in a sandbox with what the sandbox itself takes."""
    log: Path | None = None
    """The raw bytes, up to ``Limits.log_bytes``, then a marker and the tail."""
    stdout: bytes = b""
    """Only when the streams were asked for apart; ``output`` then holds this and ``stderr`` one after the other."""
    stderr: bytes = b""
    refused: tuple[Refusal, ...] = ()
    """Places that it tried to reach through ``Command.egress`` and must not."""

    @classmethod
    def unstarted(cls, why: str) -> Self:
        """What is known of a command that no system can start."""
        said = f"The command can't be started: {why}\n".encode()
        return cls(End.EXITED, 126, None, said, len(said), 0.0)

    @property
    def ok(self) -> bool:
        """It ran to its own end and said 0."""
        return self.end is End.EXITED and self.exit_code == 0


@dataclass(frozen=True)
class Isolation:
    """What separates a command from this machine; ``detail`` is a sentence for a person."""

    name: str
    degraded: bool
    detail: str
    leaks: bool = False
    """A command with ``egress`` can go around the proxy and reach what this machine reaches."""
    hides: bool = True
    """A mount can be at a place where this machine has something."""


class Sandbox(Protocol):
    """Runs commands that nobody trusts."""

    @property
    def isolation(self) -> Isolation: ...

    def run(self, command: Command, *, cancelled: Cancelled | None = None, log: Path | None = None) -> Finished:
        """Run to the end and return when nothing of it is alive.

        Raises:
            SandboxBroken: the sandbox did not start; says nothing about the command.
        """

    def own(self, path: Path) -> None:
        """Make the tree at ``path`` writable for commands. Links are never followed; a file with several hard links
        keeps its owner, because its other names may be outside."""

    def reclaim(self, path: Path) -> None:
        """Make the tree at ``path`` ours again, readable and removable. Links are never followed."""

    def closed(self, path: Path) -> Path | None:
        """What keeps commands from ``path``, which is there and not handed over by :meth:`own`: a folder above it, or
        itself; ``None`` where a mount of it can be used."""
