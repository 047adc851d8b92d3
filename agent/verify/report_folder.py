"""Where a run writes what it has to say: a fresh folder outside of the checkout, read once the run is over."""

from __future__ import annotations

import os
import stat
import time
from itertools import islice
from pathlib import Path
from typing import Final, Self

from agent.verify.report import Unreadable
from agent.verify.toolchains.base import REPORTS
from sandbox import remove_tree
from sandbox.types import Mount, Sandbox

_FILES: Final = 2_000
_BYTES: Final = 64 * 1024 * 1024
_CLOCK_SLACK_S: Final = 2.0


class ReportFolder:
    """Of one run, from entering to leaving.

    Args:
        folder: is made, and removed.
    """

    def __init__(self, folder: Path, sandbox: Sandbox) -> None:
        self._folder = folder
        self._sandbox = sandbox

    def __enter__(self) -> Self:
        self._folder.mkdir()
        self._sandbox.own(self._folder)
        self._since = time.time() - _CLOCK_SLACK_S
        return self

    def __exit__(self, *_: object) -> None:
        self._sandbox.reclaim(self._folder)
        remove_tree(self._folder)

    @property
    def mount(self) -> Mount:
        return Mount(self._folder, REPORTS, writable=True)

    def take(self) -> dict[str, bytes]:
        """Its regular files by name, never through a link. Only when nothing of the run is alive.

        Raises:
            Unreadable: too many, too large, or written before the run began.
        """
        self._sandbox.reclaim(self._folder)
        found: dict[str, bytes] = {}
        total = 0
        paths = list(islice(self._folder.iterdir(), _FILES + 1))
        for path in sorted(paths):
            status = path.lstat()
            if not stat.S_ISREG(status.st_mode):
                continue
            total += status.st_size
            if total > _BYTES or len(paths) > _FILES:
                raise Unreadable(f"the report is larger than {_BYTES // 2**20} MiB or {_FILES} files")
            if status.st_mtime < self._since:
                raise Unreadable("the report file is older than the run")
            with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
                found[path.name] = file.read(_BYTES + 1)
        return found
