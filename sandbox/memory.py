"""Memory in use by processes, for machines where no control group counts it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from sandbox.types import Limits

_PAGE = os.sysconf("SC_PAGE_SIZE")


def watch(limits: Limits, pids: Callable[[], Iterable[int]]) -> Callable[[], bool]:
    """Asks whether the processes use more than the limit, as often as it is called."""
    bound = limits.memory_bytes
    return lambda: bound is not None and memory_of(pids()) > bound


def memory_of(pids: Iterable[int]) -> int:
    """Bytes in use by processes, pages of files and of shared memory left out."""
    total = 0
    for pid in pids:
        with suppress(OSError, ValueError):  # it may end while we look
            _, resident, shared, *_ = Path("/proc", str(pid), "statm").read_text().split()
            total += (int(resident) - int(shared)) * _PAGE
    return total


def tree(pid: int) -> Iterator[int]:
    """A process and its descendants."""
    pending = [pid]
    while pending:
        pid = pending.pop()
        yield pid
        with suppress(OSError):
            for task in Path("/proc", str(pid), "task").iterdir():
                pending += map(int, (task / "children").read_text().split())
