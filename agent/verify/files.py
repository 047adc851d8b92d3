"""What the pure parts of verification need to know of a tree: its paths and its bytes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import PurePosixPath
from typing import Protocol

from agent.errors import GraftsmithError


class Files(Protocol):
    """A tree of files; the base commit's and a draft's both are one.

    ``read`` gives the bytes of one path and raises ``agent.errors.GraftsmithError`` or ``KeyError`` where there are
    none to give (missing, a link, a submodule).
    """

    def paths(self) -> Collection[str]: ...

    def read(self, path: str) -> bytes: ...


def text(files: Files, path: str, *, limit: int = 1_000_000) -> str:
    """The file as text, or the empty string when there is no such file, or none that is small enough to configure."""
    if path not in files.paths():
        return ""
    try:
        data = files.read(path)
    except (GraftsmithError, KeyError):
        return ""
    return data.decode("utf-8", "replace") if len(data) <= limit else ""


def names_path(word: str, paths: Collection[str]) -> bool:
    """Whether a word of a command is one of ``paths``, or a folder that holds one."""
    path = word.removeprefix("./").rstrip("/")
    return path in paths or any(p.startswith(f"{path}/") for p in paths)


def matching(files: Files, *patterns: str) -> Iterator[str]:
    """Paths whose name matches one of the glob ``patterns``, shallowest first, then by name."""
    found = (p for p in files.paths() if any(PurePosixPath(p).match(pattern) for pattern in patterns))
    yield from sorted(found, key=lambda p: (p.count("/"), p))


def from_root(path: str, views: Sequence[str]) -> str:
    """A path that a tool has named, from the root of the checkout; an absolute one where it lies elsewhere.

    Args:
        views: where the checkout is. Where a link leads to it, tools may name either place.
    """
    path = path.removeprefix("file://")
    view = next((view for view in views if path.startswith(f"{view}/")), "")
    return path.removeprefix(f"{view}/" if view else "./")
