"""The process of one run: a RunSpec on standard input, a RunResult and an event log in the run's folder.

It may be started long before its RunSpec comes, and has loaded everything by then. It holds the run's own model token
and no other secret, and dies with the process that started it.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path

from agent import pipeline
from agent.budget import Meter
from agent.errors import disk_full
from agent.events import EventLog
from agent.files import replace_file
from agent.model.beside import Beside
from agent.model.types import Model
from agent.record import CANCEL, DISK_FULL, EVENTS, RESULT, HandedOver, keep_spec
from agent.types import START, RunResult, RunSpec
from sandbox import Sandbox

_CLIENT = "agent.model.client"
"""Loading it takes half of what starting this process would take."""


def _model(spec: RunSpec, meter: Meter, events: EventLog, cancelled: Callable[[], bool]) -> Model:
    return Beside(lambda: import_module(_CLIENT).for_run(spec, meter, events, cancelled))


def main(sandbox: Callable[[], Sandbox]) -> int:
    """Carry out the run that standard input names, if any; the exit code."""
    threading.Thread(target=import_module, args=(_CLIENT,), daemon=True).start()  # while nothing is known to be done
    handed = sys.stdin.buffer.read()
    if not handed:  # the job ended before its run began
        return 0
    try:
        _run(HandedOver.from_bytes(handed), sandbox)
    except OSError as error:
        if not disk_full(error):
            raise
        return DISK_FULL
    return 0


def _run(handed: HandedOver, sandbox: Callable[[], Sandbox]) -> None:
    spec = handed.spec
    start = time.monotonic() - handed.at
    work_dir = Path(spec.work_dir)
    os.chdir(work_dir)
    keep_spec(work_dir, spec)

    def hand_over(result: RunResult) -> None:
        seconds = {**result.seconds, START: round(start + result.seconds.get(START, 0.0), 3)}
        told = result.model_copy(update={"seconds": seconds})
        replace_file(work_dir / RESULT, told.model_dump_json().encode())

    pipeline.run(
        spec,
        make_model=partial(_model, spec),
        sandbox=sandbox,
        event_file=work_dir / EVENTS,
        cancelled=(work_dir / CANCEL).exists,
        hand_over=hand_over,
    )
