"""Folders that nobody has touched for long."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from sandbox import remove_tree

DAY_S: Final = 24 * 3600.0


def older(folder: Path, seconds: float) -> bool:
    """Whether nothing was added to the folder or taken from it for so long."""
    with suppress(OSError):
        return time.time() - folder.stat().st_mtime > seconds
    return False


def remove_old(parent: Path, seconds: float) -> None:
    """Remove what is older in ``parent``."""
    for path in parent.glob("*"):
        if older(path, seconds):
            remove_tree(path)
