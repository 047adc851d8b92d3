"""The process of one run: a RunSpec on standard input, a RunResult and an event log in the run's folder.

It holds the run's own model token and no other secret, and dies with the process that started it.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from agent import pipeline
from agent.budget import Meter
from agent.errors import disk_full
from agent.events import EventLog
from agent.files import replace_file
from agent.model.beside import Beside
from agent.model.types import Model
from agent.record import CANCEL, DISK_FULL, EVENTS, RESULT, keep_spec
from agent.types import START, RunSpec
from sandbox import Sandbox

_PR_SET_PDEATHSIG = 1


def die_with(parent: int) -> None:
    """Ask the kernel to kill us when our parent goes (prctl(2), PR_SET_PDEATHSIG).

    Args:
        parent: its process id, told by itself: whoever is our parent now may already be another.
    """
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it went before the kernel knew
        sys.exit(1)


def _model(spec: RunSpec, meter: Meter, events: EventLog, cancelled: Callable[[], bool]) -> Model:
    def made() -> Model:
        from agent.model.client import for_run  # half of what starting this process would take

        return for_run(spec, meter, events, cancelled)

    return Beside(made)


def main(sandbox: Callable[[], Sandbox]) -> int:
    """Carry out one run; the exit code."""
    die_with(int(sys.argv[1]))
    try:
        _run(RunSpec.model_validate_json(sys.stdin.buffer.read()), sandbox)
    except OSError as error:
        if not disk_full(error):
            raise
        return DISK_FULL
    return 0


def _age() -> float:
    """Seconds since this process began (proc(5): the 22nd field of ``stat``, in ticks since the machine's start)."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    return time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / os.sysconf("SC_CLK_TCK")


def _run(spec: RunSpec, sandbox: Callable[[], Sandbox]) -> None:
    start = _age()
    work_dir = Path(spec.work_dir)
    keep_spec(work_dir, spec)
    result = pipeline.run(
        spec,
        make_model=partial(_model, spec),
        sandbox=sandbox,
        event_file=work_dir / EVENTS,
        cancelled=(work_dir / CANCEL).exists,
    )
    start += result.seconds.get(START, 0.0)
    result = result.model_copy(update={"seconds": {**result.seconds, START: round(start, 3)}})
    replace_file(work_dir / RESULT, result.model_dump_json().encode())
