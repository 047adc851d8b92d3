"""Keeps a stream of any length in bounded memory: the head, the tail, and the raw bytes in a bounded file."""

from __future__ import annotations

from io import BufferedWriter
from typing import Self

from sandbox.types import Limits


class Output:
    """Takes chunks, keeps at most ``limit`` bytes (a quarter head, the rest tail) and copies them to ``log``.

    The end of a test log says more than its beginning, hence the uneven split.
    """

    def __init__(self, limit: int, log: BufferedWriter | None = None, log_limit: int = 0) -> None:
        self._head_limit = limit // 4
        self._tail_limit = limit - self._head_limit
        self._head = bytearray()
        self._tail = bytearray()
        self._log = log
        self._log_left = log_limit
        self.total = 0

    @classmethod
    def of(cls, limits: Limits, log: BufferedWriter | None = None) -> Self:
        return cls(limits.output_bytes, log, limits.log_bytes)

    def add(self, chunk: bytes) -> None:
        self.total += len(chunk)
        self._write_log(chunk)
        room = self._head_limit - len(self._head)
        if room > 0:
            self._head += chunk[:room]
            chunk = chunk[room:]
        self._tail += chunk
        if len(self._tail) > 2 * self._tail_limit:  # trimmed in big steps, so that the cost a byte stays constant
            del self._tail[: -self._tail_limit or None]

    def kept(self) -> bytes:
        """Head and tail, with a marker line between them where bytes are missing."""
        tail = self._last()
        missing = self.total - len(self._head) - len(tail)
        return bytes(self._head) + (marker(missing) if missing else b"") + tail

    def finish(self) -> None:
        """Complete the log: when it was cut, its tail follows a marker. The file stays open."""
        if self._log is None:
            return
        logged = self._log.tell()
        tail = self._last()[-(self.total - logged) :] if self.total > logged else b""
        missing = self.total - logged - len(tail)
        self._log.write((marker(missing) if missing else b"") + tail)
        self._log.flush()

    def _last(self) -> bytes:
        return bytes(self._tail[-self._tail_limit :]) if self._tail_limit else b""

    def _write_log(self, chunk: bytes) -> None:
        if self._log is None or self._log_left <= 0:
            return
        self._log.write(chunk[: self._log_left])
        self._log_left -= len(chunk)


def marker(missing: int) -> bytes:
    return b"\n[... %d bytes left out ...]\n" % missing
