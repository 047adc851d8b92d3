"""The service's log: every line, in order, and none is late that somebody waits for."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import threading
from collections.abc import Iterator

import pytest

from app.logs import Gathered, JsonLines

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def written() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def log(written: io.StringIO) -> Iterator[logging.Logger]:
    handler = Gathered()
    handler.setFormatter(JsonLines())
    handler.setStream(written)
    logger = logging.getLogger("a-service")
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    yield logger
    logger.removeHandler(handler)


def said(written: io.StringIO) -> list[str]:
    return [json.loads(line)["message"] for line in written.getvalue().splitlines()]


async def test_requests_share_a_write_and_a_warning_waits_for_nothing(
    log: logging.Logger, written: io.StringIO
) -> None:
    log.info("one")
    log.info("two")
    assert said(written) == []
    log.warning("three")
    assert said(written) == ["one", "two", "three"]
    log.info("four")
    for _ in range(1000):
        if len(said(written)) == 4:
            break
        await asyncio.sleep(0.01)
    assert said(written)[3] == "four"


async def test_a_thread_writes_at_once_and_what_waited_goes_before_it(
    log: logging.Logger, written: io.StringIO
) -> None:
    log.info("on the loop")
    await asyncio.to_thread(log.info, "in a thread")
    assert said(written) == ["on the loop", "in a thread"]


def test_no_line_is_lost_to_a_write_that_comes_while_it_is_made(log: logging.Logger, written: io.StringIO) -> None:
    handler, began = log.handlers[0], threading.Event()
    flushing = threading.Thread(target=lambda: (began.set(), handler.flush()))

    class Slow(JsonLines):
        def format(self, record: logging.LogRecord) -> str:
            flushing.start()
            began.wait()
            flushing.join(0.2)  # it has to wait for us; where it does not, it is done by now
            return super().format(record)

    handler.setFormatter(Slow())
    log.info("made slowly")
    flushing.join()
    assert said(written) == ["made slowly"]


def test_what_a_loop_left_waiting_is_written_by_the_next_line_or_at_the_end(
    log: logging.Logger, written: io.StringIO
) -> None:
    async def short(message: str) -> None:
        log.info(message)

    asyncio.run(short("of a loop that ended"))
    asyncio.run(short("of the next"))
    assert said(written) == []
    log.handlers[0].flush()  # as logging does when the process ends
    assert said(written) == ["of a loop that ended", "of the next"]


def test_a_line_that_cannot_be_made_ends_nothing(
    log: logging.Logger, written: io.StringIO, capsys: pytest.CaptureFixture[str]
) -> None:
    log.handlers[0].handle(logging.makeLogRecord({"msg": "%d", "args": ("no number",), "levelno": logging.INFO}))
    log.info("next")
    assert said(written) == ["next"]
    assert "Logging error" in capsys.readouterr().err


def test_a_stream_that_takes_nothing_ends_nothing(
    log: logging.Logger, written: io.StringIO, capsys: pytest.CaptureFixture[str]
) -> None:
    written.close()
    log.warning("said to nobody")
    assert "Logging error" in capsys.readouterr().err


def test_whatever_a_text_holds_it_stays_one_line_of_text(log: logging.Logger, written: io.StringIO) -> None:
    text = "two\nlines \udcff \x1b]0;title\x07"
    # Past the logger: pytest would report what it captures, and can't send half a character.
    log.handlers[0].handle(logging.makeLogRecord({"msg": text, "levelno": logging.INFO, "fields": {"object": object}}))
    assert said(written) == [text]
    assert written.getvalue().isascii()
