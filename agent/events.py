"""The log of a run: one JSON object a line, written as things happen and flushed at once.

Shape of a line: ``{"at": seconds since the epoch, "kind": str, "stage": str | None, ...}``; the other keys depend on
the kind. Kinds: ``stage``, ``model_call``, ``tool_call``, ``tool_result``, ``check``, ``test_run``, ``edit``,
``decision``, ``question``, ``note``.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Protocol

from agent.secrets import LEAST, REDACTED, may_hold, redact
from agent.types import Stage

Listener = Callable[[dict[str, Any]], None]


class Events(Protocol):
    """Where the parts of the engine tell what they do."""

    def emit(self, kind: str, **data: Any) -> None: ...


class EventLog:
    """Writes events to ``path`` and hands each to ``listeners`` (a progress display, for example).

    Args:
        path: the file to append to; made if missing.
        secrets: exact values that are replaced by ``[redacted]`` wherever they occur in a line; short ones are not. So
            is whatever has the shape of a common token, whoever it belongs to.
        listeners: called with each event, in order, from the thread that emitted it.
    """

    def __init__(self, path: Path, *, secrets: Iterable[str] = (), listeners: Iterable[Listener] = ()) -> None:
        # For its owner alone: it holds code and what tests print.
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._file = os.fdopen(handle, "a", encoding="utf-8")
        # The JSON spelling is what stands in the line; longest first, so that no secret hides another's tail.
        self._secrets = sorted({json.dumps(s)[1:-1] for s in secrets if len(s) >= LEAST}, key=len, reverse=True)
        self._listeners = tuple(listeners)
        self._lock = threading.Lock()
        self.stage: Stage | None = None

    def emit(self, kind: str, **data: Any) -> None:
        """Append one event. ``data`` must be JSON; anything else is written as its ``str``."""
        event = {"at": round(time.time(), 3), "kind": kind, "stage": self.stage, **data}
        line = json.dumps(event, default=str, ensure_ascii=True)
        if may_hold(line):
            # In what a reader gets: in the line itself, a line end in front of a token would be a letter of it.
            line = json.dumps(_without_tokens(json.loads(line)), ensure_ascii=True)
        for secret in self._secrets:
            line = line.replace(secret, REDACTED)
        with self._lock:
            self._file.write(line + "\n")
            self._file.flush()
        for listener in self._listeners:
            listener(json.loads(line))

    def close(self) -> None:
        self._file.close()


def _without_tokens(value: Any) -> Any:
    match value:
        case str():
            return redact(value)
        case dict():
            kept: dict[str, Any] = {}
            for key, item in value.items():
                told = redact(key)
                kept[f"{told} {len(kept)}" if told in kept else told] = _without_tokens(item)
            return kept
        case list():
            return [_without_tokens(item) for item in value]
        case _:
            return value
