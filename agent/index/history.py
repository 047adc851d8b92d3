"""What changed together before, and what people said about it. A signal, never an authority: messages are untrusted."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class Commit(NamedTuple):
    """One commit, and the paths that it touched."""

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
            except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
                continue


_FORMAT = "--format=%x00%H%x01%ct%x01%B%x02"


def log_arguments(revision: str, limit: int) -> list[str]:
    """Arguments for ``git`` whose output :func:`parse_log` reads: the last commits before and at a revision."""
    return ["log", "--no-merges", "--no-renames", "--name-only", "-z", f"-n{limit}", _FORMAT, revision, "--"]


def parse_log(output: bytes) -> tuple[Commit, ...]:
    """Commits of a log made with :func:`log_arguments`, newest first."""
    commits = []
    for record in re.split(rb"\0(?=[0-9a-f]{40,64}\x01)", b"\0" + output.lstrip(b"\0")):
        head, separator, files = record.partition(b"\x02")
        parts = head.split(b"\x01", 2)
        if separator and len(parts) == 3:
            names = (os.fsdecode(name.strip(b"\n")) for name in files.split(b"\0"))
            message = parts[2].decode("utf-8", "replace").strip()
            commits.append(Commit(parts[0].decode(), int(parts[1]), message, tuple(filter(None, names))))
    return tuple(commits)
