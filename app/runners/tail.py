"""Follows a file of JSON lines while another process writes it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path


class Tail:
    """Hands each whole line of ``path`` to ``on_event`` once; half-written lines wait for their rest."""

    def __init__(self, path: Path, on_event: Callable[[dict[str, object]], None]) -> None:
        self._path = path
        self._on_event = on_event
        self._offset = 0

    def poll(self) -> None:
        """Read what is new. A missing file is an empty one."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                data = file.read()
        except FileNotFoundError:
            return
        whole, newline, _ = data.rpartition(b"\n")
        self._offset += len(whole) + len(newline)
        for line in whole.splitlines():
            self._on_event(json.loads(line))
