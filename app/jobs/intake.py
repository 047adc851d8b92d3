"""Group commit: deliveries that arrive together share one transaction, and so one wait for the disk."""

from __future__ import annotations

import asyncio
import itertools
import logging
import queue
import threading
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

from sqlalchemy.exc import DBAPIError

from agent.errors import RetryLater
from app.jobs.store import Arrival, JobStore, TooManyWaiting
from app.jobs.types import Command, Delivery

_log = logging.getLogger(__name__)
_BATCH = 64
_GATHER_S = 0.001  # silence after which nobody else is waited for: a transaction costs as much as answering ten


class _Waiting(NamedTuple):
    arrival: Arrival
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[str]


class Intake:
    """One thread that writes arrivals to the store.

    Args:
        store: where they go.
        on_stored: called from that thread after each commit; must be quick.
    """

    def __init__(self, store: JobStore, on_stored: Callable[[], None] = lambda: None) -> None:
        self._store = store
        self._on_stored = on_stored
        self._prefix, self._numbers = uuid.uuid4().hex[:20], itertools.count()
        self._waiting: queue.SimpleQueue[Callable[[], _Waiting] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="intake", daemon=True)

    def start(self) -> None:
        self._thread.start()

    async def close(self) -> None:
        """Write what is waiting, then end."""
        self._waiting.put(None)
        await asyncio.to_thread(self._thread.join)

    async def accept(self, delivery: Delivery, command: Command) -> str:
        """Store a delivery with its job; on disk when this returns.

        Returns:
            The id of the delivery's job, the same for every copy of the delivery.

        Raises:
            RetryLater: the database can't take it now, or ``TooManyWaiting``. Nothing is stored.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[str] = loop.create_future()
        job_id = f"{self._prefix}-{next(self._numbers):06x}"
        self._waiting.put(lambda: _Waiting(Arrival.of(job_id, delivery, command), loop, future))
        return await future

    def _work(self) -> None:
        ending = False
        while not ending:
            batch, ending = self._gather()
            if batch:
                self._store_batch(batch)

    def _gather(self) -> tuple[list[_Waiting], bool]:
        """The next to come with those that come right after it, and whether they are the last."""
        batch: list[_Waiting] = []
        with suppress(queue.Empty):
            while len(batch) < _BATCH:
                pack = self._waiting.get(timeout=_GATHER_S if batch else None)
                if pack is None:
                    return batch, True
                batch.append(pack())
        return batch, False

    def _store_batch(self, batch: list[_Waiting]) -> None:
        try:
            results: list[str | TooManyWaiting] = self._store.accept([item.arrival for item in batch])
        except DBAPIError as error:
            if len(batch) > 1:  # one bad row must not turn its neighbours away
                for item in batch:
                    self._store_batch([item])
                return
            _log.error("a delivery could not be stored: %s", error)
            _answer(batch, [RetryLater("The job database can't take the delivery", why=str(error.orig))])
            return
        self._on_stored()
        _answer(batch, results)


def _answer(batch: Sequence[_Waiting], results: Sequence[str | RetryLater]) -> None:
    """Settle the futures, with one wake-up of each loop for the whole batch."""

    def settle(mine: list[tuple[_Waiting, str | RetryLater]]) -> None:
        for item, result in mine:
            if item.future.cancelled():
                continue
            if isinstance(result, RetryLater):
                item.future.set_exception(result)
            else:
                item.future.set_result(result)

    for loop in {item.loop for item in batch}:
        mine = [pair for pair in zip(batch, results, strict=True) if pair[0].loop is loop]
        with suppress(RuntimeError):  # that loop is closed: nobody waits there any more
            loop.call_soon_threadsafe(settle, mine)
