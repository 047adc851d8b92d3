"""Reading what may block, while somebody may stop it."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator

import pytest

from agent.model.errors import CallCancelled, TimedOut
from agent.model.pump import Watch, never, pumped

FAR = time.monotonic() + 100_000


def test_a_pause_ends_when_it_is_stopped_or_too_late() -> None:
    with pytest.raises(CallCancelled):
        Watch(lambda: True, FAR).sleep(600)
    with pytest.raises(TimedOut):
        Watch(never, time.monotonic() - 1).sleep(600)


@pytest.mark.parametrize("pieces", [3, 10_000_000])
def test_who_stops_listening_ends_the_source(pieces: int) -> None:
    ended = threading.Event()
    daemons: list[bool] = []

    def source() -> Generator[int]:
        daemons.append(threading.current_thread().daemon)
        try:
            yield from range(pieces)
        finally:
            ended.set()

    stream = pumped(source, Watch(never, FAR))
    assert [next(stream), next(stream)] == [0, 1]
    stream.close()
    assert ended.wait(60)
    assert daemons == [True], "a read that blocks for ever does not keep the process alive"


def test_an_error_of_the_source_reaches_the_listener_after_what_came_before() -> None:
    def source() -> Generator[int]:
        yield 1
        raise ValueError("broken")

    stream = pumped(source, Watch(never, FAR))
    assert next(stream) == 1
    with pytest.raises(ValueError, match="broken"):
        next(stream)
