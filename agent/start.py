"""How a runner starts the process of a run: the command line, made and read in one place.

Standard library only: that process opens its sandbox while it loads the rest.
"""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import sys
from collections.abc import Sequence

_PR_SET_PDEATHSIG = 1
_SANDBOX = "--sandbox"


def command(*, sandbox: bool) -> Sequence[str]:
    """The command line of a process that dies with this one.

    Args:
        sandbox: whether it opens one before it knows what it is to do; without, when it needs one.
    """
    return (sys.executable, "-P", "-m", "agent", str(os.getpid()), *([_SANDBOX] if sandbox else []))


def begin(argv: Sequence[str]) -> bool:
    """Take up a command line that :func:`command` made; whether to open a sandbox."""
    _die_with(int(argv[1]))
    return _SANDBOX in argv


def _die_with(parent: int) -> None:
    """Ask the kernel to kill us when our parent goes (prctl(2), PR_SET_PDEATHSIG).

    Args:
        parent: its process id, told by itself: whoever is our parent now may already be another.
    """
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it went before the kernel knew
        sys.exit(1)


def spare_the_collector() -> None:
    """Look for garbage less often, and not among what is loaded by now, which stays."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
