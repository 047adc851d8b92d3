"""A change as data: what a run makes, and what is published of it."""

from __future__ import annotations

from typing import Literal

from agent.types.base import Value

FileMode = Literal["100644", "100755", "120000"]


class FileChange(Value):
    """The whole new state of one path. ``content is None`` means deleted."""

    path: str
    """Relative, ``/``-separated, no ``.`` or ``..`` part; decoded with surrogateescape where it is not UTF-8."""
    mode: FileMode = "100644"
    content: bytes | None


class ChangeSet(Value):
    """The result of a run as data: apply ``changes`` to the tree of ``base_sha``."""

    base_sha: str
    changes: tuple[FileChange, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.changes)
