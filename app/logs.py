"""The log of the service: JSON lines on standard error."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping, Sequence

from app.ascii_json import encode


class JsonLines(logging.Formatter):
    """One JSON object a line, in ASCII: a terminal obeys what it takes for an order.

    ``extra={"lines": […]}`` makes of one record a line for each mapping, merged in.
    """

    def format(self, record: logging.LogRecord) -> str:
        common = {
            "at": round(record.created, 3),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            common["trace"] = self.formatException(record.exc_info)
        lines: Sequence[Mapping[str, object]] = getattr(record, "lines", ({},))
        return "\n".join(encode({**common, **line}).decode() for line in lines)


def set_up_logging(level: str) -> None:
    """Everything of this process as JSON lines on standard error."""
    # No line of ours says these, and each record would ask for them.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # Libraries that log whole requests would log what is in them.
    for noisy in ("httpx", "httpcore", "openai", "dbos"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
