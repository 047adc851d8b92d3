"""Room on the disks that a command can write to: a test that fills them must not stop everything else there."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from sandbox.types import Limits


def watch(limits: Limits, writable: Iterable[Path]) -> Callable[[], bool]:
    """Asks whether less than ``Limits.spare_bytes`` is left on the disk of one of the folders, as often as it is
    called. A disk that had less from the start may be filled by half of what it had."""
    spare = limits.spare_bytes
    if spare is None:
        return lambda: False
    free = {folder: _free(folder) for folder in writable}
    floors = {folder: spare if now > spare else now // 2 for folder, now in free.items()}
    return lambda: any(_free(folder) < floor for folder, floor in floors.items())


def _free(folder: Path) -> int:
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize
