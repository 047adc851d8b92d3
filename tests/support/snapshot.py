"""A tree of files held in memory, for what decides by paths and bytes alone."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Snapshot:
    """Path → bytes, as ``agent.verify.files.Files``."""

    contents: Mapping[str, bytes]

    def paths(self) -> Collection[str]:
        return self.contents.keys()

    def read(self, path: str) -> bytes:
        return self.contents[path]
