"""The service's log: JSON lines, whatever a text holds."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from app.logs import JsonLines


@pytest.fixture
def written() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def log(written: io.StringIO) -> Iterator[logging.Logger]:
    handler = logging.StreamHandler(written)
    handler.setFormatter(JsonLines())
    logger = logging.getLogger("a-service")
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    yield logger
    logger.removeHandler(handler)


def said(written: io.StringIO) -> list[str]:
    return [json.loads(line)["message"] for line in written.getvalue().splitlines()]


def test_one_record_of_many_requests_is_a_line_for_each(log: logging.Logger, written: io.StringIO) -> None:
    log.info("request", extra={"lines": [{"at": 1.5, "path": "/one"}, {"at": 1.6, "path": "/two"}]})
    lines = [json.loads(line) for line in written.getvalue().splitlines()]
    assert [(line["at"], line["level"], line["message"], line["path"]) for line in lines] == [
        (1.5, "info", "request", "/one"),
        (1.6, "info", "request", "/two"),
    ]


def test_an_error_says_where_it_came_from(log: logging.Logger, written: io.StringIO) -> None:
    try:
        raise KeyError("gone")
    except KeyError:
        log.exception("it failed")
    line = json.loads(written.getvalue())
    assert line["message"] == "it failed" and line["trace"].endswith("KeyError: 'gone'")


@pytest.mark.parametrize("text", ["two\nlines \x1b]0;title\x07", "half a character \udcff", "\u202eright to left \x9b"])
def test_whatever_a_text_holds_it_stays_one_line_of_text(log: logging.Logger, written: io.StringIO, text: str) -> None:
    # Past the logger: pytest would report what it captures, and can't send half a character.
    record = {"msg": text, "levelno": logging.INFO, "lines": [{"object": object, "text": text}]}
    log.handlers[0].handle(logging.makeLogRecord(record))
    assert said(written) == [text]
    assert written.getvalue().isascii() and written.getvalue().count("\n") == 1
