"""Room on the disks that a command can write to: a test that fills them must not stop everything else there."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from sandbox.types import Limits


def watch(limits: Limits, writable: Iterable[Path]) -> Callable[[], bool]:
    """Asks whether less than ``Limits.spare_bytes`` or ``spare_files`` is left on the disk of one of the folders, as
    often as it is called. A disk that had less from the start may be filled by half of what it had."""
    spare = limits.spare_bytes, limits.spare_files
    there = (folder for folder in writable if folder.exists())  # that one is not is told by who has to mount it
    floors = [(folder, tuple(map(_floor, _free(folder), spare))) for folder in there]
    return lambda: any(now < floor for folder, both in floors for now, floor in zip(_free(folder), both, strict=True))


def _floor(free: int, spare: int) -> int:
    return spare if free > spare else free // 2


def _free(folder: Path) -> tuple[int, int]:
    """Bytes and files that a disk can still take; 0 files where it does not count them."""
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize, disk.f_favail
