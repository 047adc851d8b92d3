"""A disk of its own for a test, so small that it can be filled."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sandbox import process


@contextmanager
def small_disk(place: Path, options: str) -> Iterator[Path]:
    """A tmpfs at ``place``, for example ``size=2m,nr_inodes=80``; the test is skipped where none can be mounted."""
    place.mkdir()
    done = process.run(["mount", "-t", "tmpfs", "-o", f"{options},mode=755", "tmpfs", str(place)])
    if not done.ok:
        pytest.skip(f"no disk can be mounted here: {done.output.decode(errors='replace')}")
    try:
        yield place
    finally:
        process.run(["umount", "-l", str(place)])


def fill(place: Path) -> None:
    """Make files there until none fits any more; what is there already can still grow."""
    number = 0
    while True:
        try:
            (place / f"filler-{number}").touch()
        except OSError:
            return
        number += 1
