"""Runs the engine as a child process on this machine.

The child gets the RunSpec on its standard input and an environment of its own; nothing of ours is inherited. It
writes ``events.jsonl`` and ``result.json`` into the run's folder, so a result that was reached before we were killed
is found again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Event
from types import MappingProxyType

from pydantic import ValidationError

from agent.errors import BugError, GraftsmithError, RetryLater
from agent.record import CANCEL, DISK_FULL, EVENTS, RESULT, HandedOver
from agent.start import command
from agent.types import Outcome, RunResult, RunSpec
from app.runners.tail import Tail
from app.runners.types import Errand, longest_s
from sandbox import process, remove_tree
from sandbox.text import clean
from sandbox.types import End, Finished, Limits

_ENVIRONMENT = {**process.CLEAN_ENV, "PYTHONSAFEPATH": "1"}


class LocalRunner:
    """See ``Runner``: on this machine, each run in a process of its own.

    Args:
        model_url: where runs reach the model endpoint of this very server.
        sandbox: whether they will most likely need one.
    """

    def __init__(self, model_url: str, *, sandbox: bool = True) -> None:
        self._model_url = model_url
        self._sandbox = sandbox
        self._ahead: dict[str, RunProcess] = {}

    @property
    def model_url(self) -> str:
        return self._model_url

    def get_ready(self, job_id: str) -> None:
        """Start the process of the job's run, which loads what it needs while the job is being prepared."""
        if job_id not in self._ahead:
            self._ahead[job_id] = RunProcess(sandbox=self._sandbox)

    def let_go(self, job_id: str) -> None:
        process = self._ahead.pop(job_id, None)
        if process is not None:
            process.close()

    async def run(self, errand: Errand) -> RunResult:
        self.get_ready(errand.job_id)
        with closing(self._ahead.pop(errand.job_id)) as process:
            return await asyncio.to_thread(
                process.run, errand.spec, on_event=errand.on_event, cancelled=errand.cancelled
            )


class RunProcess:
    """The process of one run. It is started at once, and loads what any run needs until it is told what to do.

    It dies with the thread that starts it, so it has one of its own.

    Args:
        sandbox: whether the run will most likely need one.
        outside: variables that say how it reaches the model, where that is not on this machine.
    """

    def __init__(self, *, sandbox: bool, outside: Mapping[str, str] = MappingProxyType({})) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="run")
        environment = {**_ENVIRONMENT, **outside}
        self._started = self._thread.submit(process.Ahead, command(sandbox=sandbox), env=environment)

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
        stored = kept_result(folder)
        if stored is not None:
            return stored
        emptied(folder)
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

        limits = Limits(wall_s=longest_s(spec))
        child = self._started.result()
        finishing = self._thread.submit(child.finish, handed.to_bytes(), limits=limits, cancelled=poll)
        finishing.add_done_callback(lambda _: there.set())
        there.wait()  # not for the process, which removes its checkouts now
        tail.poll()
        result = result_of(folder)
        if result is None:
            raise _lost(finishing.result())
        return result

    def close(self, *, wait: bool = False) -> None:
        """End the process when it waits for its input, and let it end when it has run.

        Args:
            wait: until it has ended.
        """
        self._thread.submit(lambda: self._started.result().close())
        self._thread.shutdown(wait=wait)


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


def emptied(folder: Path) -> None:
    """An earlier run was killed in the middle: nothing of it is of use, and its checkouts would be in the way."""
    remove_tree(folder)
    folder.mkdir(mode=0o711)


def kept_result(folder: Path) -> RunResult | None:
    """That of a run which need not be repeated: it has come to its end, and was not stopped before."""
    stored = result_of(folder)
    return None if stored is None or stored.outcome is Outcome.CANCELLED else stored


def result_of(folder: Path) -> RunResult | None:
    """The result of the run in ``folder``, once it has ended. Fields that a later version has added are passed over."""
    try:
        return RunResult.model_validate_json((folder / RESULT).read_bytes(), extra="ignore")
    except (FileNotFoundError, ValidationError):
        return None
