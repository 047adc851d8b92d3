"""Group commit: deliveries that arrive together share one transaction, and so one wait for the disk."""

from __future__ import annotations

import asyncio
import itertools
import logging
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from sqlalchemy.exc import DBAPIError

from agent.errors import RetryLater
from app.jobs.arrivals import Arrival
from app.jobs.store import JobStore
from app.jobs.types import Command, Delivery

_log = logging.getLogger(__name__)
_BATCH = 64
_QUIET_TURNS = 2  # of the event loop without an arrival; a timer would wait for a whole millisecond


class _Waiting(NamedTuple):
    job_id: str
    delivery: Delivery
    command: Command
    future: asyncio.Future[str]


class Intake:
    """Writes arrivals to the store, one batch at a time. For one event loop.

    Args:
        store: where they go.
        on_stored: called after each commit; must be quick.
    """

    def __init__(self, store: JobStore, on_stored: Callable[[], None] = lambda: None) -> None:
        self._store = store
        self._on_stored = on_stored
        self._prefix, self._numbers = uuid.uuid4().hex[:20], itertools.count()
        self._waiting: list[_Waiting] = []
        self._writer: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="intake")

    async def close(self) -> None:
        """Write what is waiting, then end."""
        if self._writer is not None:
            await self._writer
        self._thread.shutdown(wait=False)

    async def accept(self, delivery: Delivery, command: Command) -> str:
        """Store a delivery with its job; on disk when this returns.

        Returns:
            The id of the delivery's job, the same for every copy of the delivery.

        Raises:
            RetryLater: the database can't take it now, or ``TooManyWaiting``. Nothing is stored.
        """
        loop = asyncio.get_running_loop()
        job_id = f"{self._prefix}-{next(self._numbers):06x}"
        waiting = _Waiting(job_id, delivery, command, loop.create_future())
        self._waiting.append(waiting)
        if self._writer is None:
            self._writer = loop.create_task(self._write())
        return await waiting.future

    async def _write(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            await self._gather()
            batch, self._waiting = self._waiting[:_BATCH], self._waiting[_BATCH:]
            try:
                answers: Sequence[str | Exception] = await loop.run_in_executor(self._thread, self._stored, batch)
            except Exception as error:  # a bug of ours: each sender hears of it, and the next batch has its turn
                answers = [error] * len(batch)
            _settle(batch, answers)
            self._on_stored()
        self._writer = None

    async def _gather(self) -> None:
        """Let those in that have reached this machine: a transaction costs as much as answering ten."""
        count = quiet = 0
        while quiet < _QUIET_TURNS and len(self._waiting) < _BATCH:
            quiet = quiet + 1 if count == len(self._waiting) else 0
            count = len(self._waiting)
            await asyncio.sleep(0)

    def _stored(self, batch: Sequence[_Waiting]) -> Sequence[str | RetryLater]:
        """For each its answer. In a thread, which waits for the disk."""
        try:
            return self._store.accept([Arrival.of(item.job_id, item.delivery, item.command) for item in batch])
        except DBAPIError as error:
            if len(batch) > 1:  # one bad row must not turn its neighbours away
                return [answer for item in batch for answer in self._stored([item])]
            _log.error("a delivery could not be stored: %s", error.orig)
            return [RetryLater("The job database can't take the delivery", why=str(error.orig))]


def _settle(batch: Sequence[_Waiting], answers: Sequence[str | Exception]) -> None:
    for item, answer in zip(batch, answers, strict=True):
        if item.future.cancelled():
            continue
        if isinstance(answer, Exception):
            item.future.set_exception(answer)
        else:
            item.future.set_result(answer)
