"""Memory of a process and everything below it, for machines where no control group counts it."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_PAGE = os.sysconf("SC_PAGE_SIZE")


def memory_of_tree(pid: int) -> int:
    """Bytes in use by ``pid`` and its descendants, pages of files and of shared memory left out.

    Files in temporary folders are bounded by the size of those folders instead.
    """
    total, pending = 0, [pid]
    while pending:
        folder = Path("/proc", str(pending.pop()))
        with suppress(OSError, ValueError):  # it may end while we look
            _, resident, shared, *_ = (folder / "statm").read_text().split()
            total += (int(resident) - int(shared)) * _PAGE
            for task in (folder / "task").iterdir():
                pending += map(int, (task / "children").read_text().split())
    return total
