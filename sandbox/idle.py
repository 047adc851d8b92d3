"""Whether a command still does something: one that waits for what never comes need not be waited for."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from sandbox.types import Limits

_LOOK_S = 1.0
_SHARE = 0.01
"""Of one processor: who waits in a loop that looks now and then does nothing either."""
_TICKS = os.sysconf("SC_CLK_TCK")


def watch(limits: Limits, pids: Callable[[], Iterable[int]], written: Callable[[], int]) -> Callable[[], bool]:
    """Asks whether the processes have written nothing and used hardly any processor time for ``Limits.quiet_s``."""
    quiet = limits.quiet_s
    since, before, looked = time.monotonic(), (0, 0.0), float("-inf")

    def hung() -> bool:
        nonlocal since, before, looked
        now = time.monotonic()
        if quiet is None or now - looked < min(_LOOK_S, quiet):
            return False
        looked, seen = now, (written(), processor_seconds(pids()))
        if seen[0] != before[0] or abs(seen[1] - before[1]) > _SHARE * quiet:
            since, before = now, seen
        return now - since >= quiet

    return hung


def processor_seconds(pids: Iterable[int]) -> float:
    """Of processes, with the children that they have waited for."""
    ticks = 0
    for pid in pids:
        with suppress(OSError, ValueError, IndexError):  # it may end while we look
            ticks += sum(map(int, Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()[11:15]))
    return ticks / _TICKS
