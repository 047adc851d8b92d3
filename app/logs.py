"""The log of the service: JSON lines on standard error."""

from __future__ import annotations

import asyncio
import json
import logging

_TOGETHER_S = 0.05
_encode = json.JSONEncoder(default=str).encode


class JsonLines(logging.Formatter):
    """One JSON object a line; ``extra={"fields": …}`` is merged in."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "at": round(record.created, 3),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return _encode(line)


class Gathered(logging.StreamHandler):  # type: ignore[type-arg]  # generic only for type checkers
    """What an event loop logs below a warning waits for more, for 50 ms at most; order is kept.

    A write lets another thread have the interpreter, and the loop would have to get it back: with each request.
    """

    def __init__(self) -> None:
        super().__init__()
        self._lines: list[str] = []
        self._gathering: asyncio.AbstractEventLoop | None = None

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._lines.append(self.format(record) + self.terminator)
            if record.levelno >= logging.WARNING or not self._later():
                self.flush()
        except Exception:  # as each handler of the library does: a bad record or a full disk never ends its program
            self.handleError(record)

    def flush(self) -> None:
        self.acquire()  # as whoever emits has done: a line must not go to a list that is written already
        try:
            self._gathering = None
            lines, self._lines = self._lines, []
            self.stream.write("".join(lines))
            super().flush()
        finally:
            self.release()

    def _later(self) -> bool:
        """Whether a loop will write what waits."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return False
        if self._gathering is not loop:
            self._gathering = loop
            loop.call_later(_TOGETHER_S, self.flush)
        return True


def set_up_logging(level: str) -> None:
    """Everything of this process as JSON lines on standard error."""
    # No line of ours says these, and each record would ask for them.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    handler = Gathered()
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # Libraries that log whole requests would log what is in them.
    for noisy in ("httpx", "httpcore", "openai", "dbos"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
