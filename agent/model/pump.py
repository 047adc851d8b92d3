"""Reading from something that may block, while watching a flag and a clock."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Generator
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from agent.model.errors import CallCancelled, TimedOut

T = TypeVar("T")

_POLL_S = 0.1
_WAITING = 256  # pieces read ahead; the reader pauses when the consumer is slower


def never() -> bool:
    return False


@dataclass(frozen=True)
class Watch:
    """A flag that a person may raise, and a deadline (of ``time.monotonic``)."""

    cancelled: Callable[[], bool]
    deadline: float

    def check(self) -> None:
        """
        Raises:
            CallCancelled: the flag is up.
            TimedOut: the deadline has passed.
        """
        if self.cancelled():
            raise CallCancelled("the run was stopped", why="somebody asked for it")
        if time.monotonic() > self.deadline:
            raise TimedOut("the model call took too long", todo="Try again later or raise the limit")

    def sleep(self, seconds: float) -> None:
        """Wait, looking at flag and deadline meanwhile; raises as ``check`` does."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.check()
            time.sleep(min(left, _POLL_S))


@dataclass(frozen=True)
class _End:
    """Comes after the last piece."""

    error: BaseException | None = None


def pumped(source: Callable[[], Generator[T]], watch: Watch) -> Generator[T]:
    """What ``source()`` yields, read by a thread of its own.

    A blocked read can't be interrupted. When the flag goes up or the deadline passes, the caller goes on at once and
    the thread is left to end at the source's own read timeout; it closes the source then, and hands nothing on.
    """
    pieces: queue.Queue[T | _End] = queue.Queue(_WAITING)
    stop = threading.Event()
    threading.Thread(target=_read, args=(source, pieces, stop), name="model-call", daemon=True).start()
    try:
        while not isinstance(piece := _next(pieces, watch), _End):
            yield piece
        if piece.error is not None:
            raise piece.error
    finally:
        stop.set()


def _read(source: Callable[[], Generator[T]], pieces: queue.Queue[T | _End], stop: threading.Event) -> None:
    stream = source()
    try:
        for piece in stream:
            _put(piece, pieces, stop)
            if stop.is_set():
                return
        _put(_End(), pieces, stop)
    except BaseException as error:  # handed to the consumer, who raises it
        _put(_End(error), pieces, stop)
    finally:
        stream.close()


def _put(piece: T | _End, pieces: queue.Queue[T | _End], stop: threading.Event) -> None:
    while not stop.is_set():
        with suppress(queue.Full):
            pieces.put(piece, timeout=_POLL_S)
            return


def _next(pieces: queue.Queue[T | _End], watch: Watch) -> T | _End:
    while True:
        watch.check()
        with suppress(queue.Empty):
            return pieces.get(timeout=_POLL_S)
