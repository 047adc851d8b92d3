"""Group commit: deliveries that arrive together share one transaction, and so one wait for the disk."""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import uuid
from collections.abc import Callable
from typing import NamedTuple

from sqlalchemy.exc import DBAPIError

from agent.errors import RetryLater
from app.jobs.store import Arrival, JobStore, TooManyWaiting
from app.jobs.types import Command, Delivery

_log = logging.getLogger(__name__)
_BATCH = 64


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
        self._waiting: queue.SimpleQueue[_Waiting | None] = queue.SimpleQueue()
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
        self._waiting.put(_Waiting(Arrival(uuid.uuid4().hex, delivery, command), loop, future))
        return await future

    def _work(self) -> None:
        ending = False
        while not ending:
            batch = [self._waiting.get()]
            while len(batch) < _BATCH and not self._waiting.empty():
                batch.append(self._waiting.get())
            ending = None in batch
            if waiting := [item for item in batch if item is not None]:
                self._store_batch(waiting)

    def _store_batch(self, batch: list[_Waiting]) -> None:
        try:
            results: list[str | TooManyWaiting] = self._store.accept([item.arrival for item in batch])
        except DBAPIError as error:
            if len(batch) > 1:  # one bad row must not turn its neighbours away
                for item in batch:
                    self._store_batch([item])
                return
            _log.error("a delivery could not be stored: %s", error)
            _answer(batch[0], RetryLater("The job database can't take the delivery", why=str(error.orig)))
            return
        self._on_stored()
        for item, result in zip(batch, results, strict=True):
            _answer(item, result)


def _answer(item: _Waiting, result: str | RetryLater) -> None:
    def settle() -> None:
        if not item.future.cancelled():
            item.future.set_exception(result) if isinstance(result, RetryLater) else item.future.set_result(result)

    item.loop.call_soon_threadsafe(settle)
