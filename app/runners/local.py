"""Runs the engine as a child process on this machine.

The child gets the RunSpec on its standard input and an environment of its own; nothing of ours is inherited. It
writes ``events.jsonl`` and ``result.json`` into the run's folder, so a result that was reached before we were killed
is found again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

from pydantic import ValidationError

from agent.errors import BugError, GraftsmithError, RetryLater
from agent.record import CANCEL, DISK_FULL, EVENTS, RESULT, HandedOver
from agent.start import command
from agent.types import Outcome, RunResult, RunSpec
from app.runners.tail import Tail
from sandbox import process, remove_tree
from sandbox.text import clean
from sandbox.types import End, Finished, Limits

_ENVIRONMENT = {**process.CLEAN_ENV, "PYTHONSAFEPATH": "1"}
_GRACE_S = 300.0
"""Beyond the budget's minutes: set-up of the sandbox, writing the result."""


class RunProcess:
    """The process of one run. It is started at once, and loads what any run needs until it is told what to do.

    It dies with the thread that starts it, so it has one of its own.

    Args:
        sandbox: whether the run will most likely need one.
    """

    def __init__(self, *, sandbox: bool) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="run")
        self._started = self._thread.submit(process.Ahead, command(sandbox=sandbox), env=_ENVIRONMENT)

    def run(
        self,
        spec: RunSpec,
        *,
        on_event: Callable[[dict[str, object]], None] = lambda event: None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> RunResult:
        """Carry out ``spec`` to its end; blocks. Once. A finished run is not repeated: its stored result is returned,
        unless it was stopped before its end.

        Args:
            on_event: gets each event of the run soon after it was written.
            cancelled: asked a few times a second; the run then ends as ``cancelled``, with its work kept.

        Raises:
            RetryLater: the child was killed from outside.
            BugError: the child ended without a result.
        """
        handed = HandedOver(spec, at=time.monotonic())
        there = Event()
        folder = Path(spec.work_dir)
        stored = result_of(folder)
        if stored is not None and stored.outcome is not Outcome.CANCELLED:
            return stored
        _emptied(folder)
        tail = Tail(folder / EVENTS, on_event)

        def poll() -> bool:
            if there.is_set():  # from then on the log is read by who waits for it
                return False
            over = (folder / RESULT).exists()
            tail.poll()
            if cancelled():
                (folder / CANCEL).touch()
            if over:
                there.set()
            return False  # the run ends by itself, so that it can write what it has

        minutes = spec.budget.minutes
        limits = Limits(wall_s=float("inf") if minutes is None else minutes * 60 + spec.command_timeout_s + _GRACE_S)
        child = self._started.result()
        finishing = self._thread.submit(child.finish, handed.to_bytes(), limits=limits, cancelled=poll)
        finishing.add_done_callback(lambda _: there.set())
        there.wait()  # not for the process, which removes its checkouts now
        tail.poll()
        result = result_of(folder)
        if result is None:
            raise _lost(finishing.result())
        return result

    def close(self) -> None:
        """End the process when it waits, and let it end when it has run. Waits for nothing."""
        self._thread.submit(lambda: self._started.result().close())
        self._thread.shutdown(wait=False)


def _lost(finished: Finished) -> GraftsmithError:
    """What to make of a child that ended without a result."""
    words = clean(finished.output, 2_000)
    if finished.end in (End.SIGNALLED, End.TIMED_OUT, End.OUT_OF_MEMORY):
        return RetryLater(f"The run's process was ended from outside ({finished.end.value})", why=words)
    if finished.exit_code == DISK_FULL:
        return RetryLater("The disk of the machine that runs Graftsmith is full", todo="Make room in its state folder")
    return BugError(
        f"The run's process ended with exit code {finished.exit_code} and wrote no result",
        why=words,
        todo="Report this with the run's event log",
    )


def _emptied(folder: Path) -> None:
    """An earlier run was killed in the middle: nothing of it is of use, and its checkouts would be in the way."""
    remove_tree(folder)
    folder.mkdir(mode=0o711)


def result_of(folder: Path) -> RunResult | None:
    """The result of the run in ``folder``, once it has ended. Fields that a later version has added are passed over."""
    try:
        return RunResult.model_validate_json((folder / RESULT).read_bytes(), extra="ignore")
    except (FileNotFoundError, ValidationError):
        return None
