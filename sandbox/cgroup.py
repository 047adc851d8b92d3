"""Memory and process limits that bind for a whole command, where this machine lets us make control groups.

Resource limits of a process (``setrlimit``) count one process at a time, so a test that forks ten children may use ten
times the memory. Control groups, version 1 or 2, count all of it, temporary files included.
Source: the kernel's ``admin-guide/cgroup-v1`` and ``admin-guide/cgroup-v2``.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Self

from sandbox import process
from sandbox.machine import text_of
from sandbox.types import Limits

_PREFIX = "graftsmith-"
_NUMBERS = count(1)
# A folder that can be made may still be closed: the group above both the old place and the new one must be ours too.
_ENTER = 'for door; do echo 0 > "$door" || exit 1; done'


@dataclass(frozen=True)
class Place:
    """Folders in which we may make control groups: one (version 2), or one for memory and one for pids (version 1)."""

    version: int
    folders: tuple[Path, ...]

    def __str__(self) -> str:
        return f"control groups version {self.version}"


class Group:
    """The control group of one command. Entering makes it; leaving kills what is in it and removes it."""

    def __init__(self, place: Place, limits: Limits) -> None:
        self._place = place
        self._limits = limits
        name = f"{_PREFIX}{os.getpid()}-{next(_NUMBERS)}"
        self._folders = [folder / name for folder in place.folders]

    def __enter__(self) -> Self:
        try:
            for folder in self._folders:
                folder.mkdir()
                for file, value in _settings(self._place.version, self._limits):
                    if (folder / file).exists():
                        (folder / file).write_text(str(value))
        except OSError:
            self._remove()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._remove()

    @property
    def doors(self) -> tuple[str, ...]:
        """Files to which a process writes ``0`` to enter."""
        return tuple(str(folder / "cgroup.procs") for folder in self._folders)

    def out_of_memory(self) -> bool:
        """Whether the kernel killed something in here for using too much memory."""
        for folder in self._folders:
            for name in ("memory.events", "memory.oom_control"):
                with suppress(OSError):
                    words = (folder / name).read_text().split()
                    if int(dict(zip(words[::2], words[1::2], strict=False)).get("oom_kill", 0)) > 0:
                        return True
        return False

    def kill(self) -> None:
        """Kill everything in here, also what is being forked meanwhile."""
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline:
            members = {pid for folder in self._folders for pid in _members(folder)}
            if not members:
                return
            for pid in members:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.002)

    def _remove(self) -> None:
        self.kill()
        deadline = time.monotonic() + 1
        for folder in self._folders:
            while folder.exists() and time.monotonic() < deadline:
                with suppress(OSError):  # busy until the kernel has let go of the last process
                    folder.rmdir()
                    break
                time.sleep(0.002)


def find() -> Place | None:
    """Where limits for a whole command can be set on this machine, tried for real; None where they can't."""
    for place in filter(None, (_version_2(), _version_1())):
        _sweep(place)
        with suppress(OSError), Group(place, Limits()) as group:
            if process.run(["sh", "-c", _ENTER, "sh", *group.doors]).ok:
                return place
    return None


def _settings(version: int, limits: Limits) -> Iterator[tuple[str, int]]:
    """File and value, in the order in which the kernel accepts them."""
    memory, pids = limits.memory_bytes, limits.pids
    if memory is not None and version == 2:
        yield from (("memory.max", memory), ("memory.swap.max", 0), ("memory.oom.group", 1))
    if memory is not None and version == 1:
        yield from (("memory.limit_in_bytes", memory), ("memory.memsw.limit_in_bytes", memory))
    if pids is not None:
        yield ("pids.max", pids)


def _version_2() -> Place | None:
    """The nearest group above ours that hands memory and pids down: below it, limits above ours still bind."""
    for mount, root, _ in _mounts("cgroup2"):
        own = _own_folder(mount, root, "")
        for folder in (own, *own.parents):
            if not folder.is_relative_to(mount):
                break
            handed_down = text_of(folder / "cgroup.subtree_control").split()
            if {"memory", "pids"} <= set(handed_down) and os.access(folder / "cgroup.procs", os.W_OK):
                return Place(2, (folder,))
    return None


def _version_1() -> Place | None:
    """Below our own groups, so that limits on us bind for our commands too."""
    folders = {}
    for mount, root, options in _mounts("cgroup"):
        for controller in {"memory", "pids"} & set(options.split(",")):
            own = _own_folder(mount, root, controller)
            if os.access(own, os.W_OK):
                folders[controller] = own
    if "memory" not in folders:
        return None
    return Place(1, tuple(dict.fromkeys(folders.values())))


def _mounts(kind: str) -> Iterator[tuple[Path, str, str]]:
    """(mount point, root inside the hierarchy, options) for each mounted hierarchy of ``kind``."""
    for line in text_of(Path("/proc/self/mountinfo")).splitlines():
        before, _, after = line.partition(" - ")
        fields, (found, _, options) = before.split(), after.split(maxsplit=2)
        if found == kind:
            yield Path(fields[4]), fields[3], options


def _own_folder(mount: Path, root: str, controller: str) -> Path:
    for line in text_of(Path("/proc/self/cgroup")).splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == controller or (controller and controller in controllers.split(",")):
            folder = mount / os.path.relpath(path, root)
            if ".." not in folder.parts and folder.is_dir():
                return folder
    return mount


def _members(folder: Path) -> list[int]:
    return [int(pid) for pid in text_of(folder / "cgroup.procs").split()]


def _sweep(place: Place) -> None:
    """Remove the groups of processes of ours that were killed before they could."""
    for folder in place.folders:
        for left in folder.glob(f"{_PREFIX}*"):
            owner = left.name.removeprefix(_PREFIX).partition("-")[0]
            if owner.isdigit() and not Path("/proc", owner).exists():
                with suppress(OSError):
                    left.rmdir()
