"""What changed together before, and what people said about it. A signal, never an authority: messages are untrusted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class Commit(NamedTuple):
    sha: str
    time: int
    """Seconds since the epoch."""
    message: str
    files: tuple[str, ...]


def read_history(path: Path) -> tuple[Commit, ...]:
    """Commits of a file of JSON lines ``{"sha", "time", "message", "files"}``, newest first; bad lines are left out."""
    return tuple(_commits(path))


def _commits(path: Path) -> Iterator[Commit]:
    with path.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            try:
                item = json.loads(line)
                yield Commit(str(item["sha"]), int(item["time"]), str(item["message"]), tuple(map(str, item["files"])))
            except (ValueError, KeyError, TypeError):
                continue
