"""The bytes of a response as JSON objects: an event stream, or one object, whatever the endpoint chose. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from agent.model.errors import MalformedReply

_LINE_BYTES = 8 * 1024 * 1024  # one event of a stream


class Lines:
    """Cuts bytes into lines of text; a line longer than ``limit`` bytes is an error."""

    def __init__(self, limit: int) -> None:
        self._rest = bytearray()
        self._limit = limit

    def feed(self, data: bytes) -> list[str]:
        """The lines that ``data`` completes, without their ends.

        Raises:
            MalformedReply: one of them never ends.
        """
        self._rest += data
        lines: list[bytearray] = []
        if b"\n" in data:  # or a line that comes byte by byte would be looked through with each
            *lines, self._rest = self._rest.split(b"\n")
        if len(self._rest) > self._limit:
            raise MalformedReply(
                "the reply holds an endless line", why=f"more than {self._limit} bytes without a line end"
            )
        return [_text(line) for line in lines]

    def end(self) -> list[str]:
        """What is left without a line end."""
        rest, self._rest = self._rest, bytearray()
        return [_text(rest)] if rest else []


def _text(line: bytes | bytearray) -> str:
    return line.rstrip(b"\r").decode("utf-8", "replace")


DONE = "[DONE]"


class ServerSentEvents:
    """Lines of an event stream in, the ``data`` of each event out."""

    def __init__(self) -> None:
        self._data: list[str] = []

    def feed(self, line: str) -> str | None:
        """One line; the event's data once the event is complete."""
        if line.startswith("data:"):
            value = line[5:].removeprefix(" ")
            # Some servers forget the blank line: a chunk that is whole by itself is taken at once.
            if not self._data and ((value.startswith("{") and value.endswith("}")) or value == DONE):
                return value
            self._data.append(value)
            return None
        return self.end() if not line else None

    def end(self) -> str | None:
        data, self._data = "\n".join(self._data), []
        return data or None


def payloads(pieces: Iterator[bytes], content_type: str, limit: int) -> Iterator[Mapping[str, Any] | str]:
    """Every JSON object of a response body, then ``DONE`` when the body says that it is complete.

    A body that is one JSON object instead of a stream is given as that object, followed by ``DONE``.

    Raises:
        MalformedReply: a web page, broken JSON, or more than ``limit`` bytes.
    """
    lines, events, total = Lines(min(limit, _LINE_BYTES)), ServerSentEvents(), 0
    streaming = "event-stream" in content_type
    whole: list[bytes] = []
    for piece in pieces:
        total += len(piece)
        if total > limit:
            raise MalformedReply("the reply is too large", why=f"more than {limit} bytes")
        if not streaming and not whole and piece.lstrip()[:6].startswith((b"data:", b"event:", b":")):
            streaming = True
        if not streaming:
            whole.append(piece)
            continue
        yield from _events(lines.feed(piece), events)
    if streaming:
        yield from _events([*lines.end(), ""], events)
    else:
        yield _object(b"".join(whole).decode("utf-8", "replace"))
        yield DONE


def _events(lines: Iterable[str], events: ServerSentEvents) -> Iterator[Mapping[str, Any] | str]:
    for line in lines:
        data = events.feed(line)
        if data is not None:
            yield DONE if data.strip() == DONE else _object(data)


def _object(text: str) -> Mapping[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        # The caller adds an excerpt: it knows the key that must not be in it.
        raise MalformedReply(
            "the endpoint answered with something that is no completion",
            why=text,
            todo="If it is a web page, OPENAI_BASE_URL is not the API's address: that ends in the version, mostly /v1",
        )
    return value
