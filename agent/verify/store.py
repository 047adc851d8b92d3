"""Installed environments on disk: made aside, put in place by one rename, read-only ever after, bounded in size.

One folder each, named by everything that had to do with making it:

    KEY/done.json     what a user of it has to know
    KEY/environment/  seen at ``ENVIRONMENT`` inside
    KEY/carried/      what the set-up made in the checkout, to be shown there again
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final

from agent.disk import scatter
from agent.errors import UserError
from sandbox import process, remove_tree
from sandbox.types import Limits

MAX_BYTES: Final = 20 * 1024**3
_SKIPPED: Final = frozenset({"__pycache__", ".pytest_cache", ".mypy_cache", ".git", ".ruff_cache"})
SCRATCH: Final = {"node_modules": (".vite-temp", ".vite", ".cache")}
"""Folders that a program writes to within what is installed, whatever it is told: vite bundles its configuration into
one, and imports it from there."""
_MOUNT_LIMIT: Final = 256
_ABANDONED_S: Final = 24 * 3600
_COPY_S: Final = 600.0
_RECORD: Final = "done.json"
_ASIDE: Final = ".making-"


class SetupFailed(UserError):
    """The target's dependencies could not be installed."""


@dataclass(frozen=True)
class Place:
    """Where an environment is, or will be."""

    path: Path

    @property
    def environment(self) -> Path:
        return self.path / "environment"

    @property
    def carried(self) -> Path:
        return self.path / "carried"

    @property
    def ready(self) -> bool:
        return (self.path / _RECORD).is_file()

    @property
    def record(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.path / _RECORD).read_text(encoding="utf-8"))
        return found


class Store:
    """All environments below one folder, for several processes at once.

    Args:
        max_bytes: what is used least goes first when there is more, but never what somebody holds.
    """

    def __init__(self, root: Path, max_bytes: int = MAX_BYTES) -> None:
        self._root = root
        self._max_bytes = max_bytes
        self._held: list[int] = []

    def find(self, key: str) -> Place | None:
        """The environment with this key, held until :meth:`close`; ``None`` when it is not there."""
        place = Place(self._root / key)
        try:
            held = os.open(place.path / _RECORD, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        fcntl.flock(held, fcntl.LOCK_SH)
        self._held.append(held)
        with suppress(FileNotFoundError):  # somebody removed it in this moment
            os.utime(place.path / _RECORD)
            return place
        return None

    @contextmanager
    def making(self) -> Iterator[Place]:
        """A fresh folder aside; it is gone afterwards unless it was kept."""
        self._root.mkdir(parents=True, exist_ok=True, mode=0o711)
        scatter(self._root)
        self._sweep()
        making = Path(tempfile.mkdtemp(prefix=_ASIDE, dir=self._root))
        try:
            making.chmod(0o755)
            yield Place(making)
        finally:
            remove_tree(making)

    def keep(self, made: Place, key: str, record: dict[str, Any]) -> Place:
        """Give a made one its name. Where another process was first, its result is as good.

        The same key may be made twice, years apart and with other contents: the record's ``id`` tells which it is.
        """
        record = {**record, "id": secrets.token_hex(16), "bytes": _size(made.path)}
        (made.path / _RECORD).write_text(json.dumps(record), encoding="utf-8")
        with suppress(OSError):
            made.path.rename(self._root / key)
        found = self.find(key)
        if found is None:
            raise OSError(f"{self._root / key} can't be made")
        self._bound()
        return found

    def close(self) -> None:
        """Let go of what was found. Safe to call twice."""
        while self._held:
            os.close(self._held.pop())

    def _sweep(self) -> None:
        """Remove what killed runs left half-made; a set-up that still goes on is younger than this."""
        for path in self._root.glob(f"{_ASIDE}*"):
            if time.time() - path.stat().st_mtime > _ABANDONED_S:
                remove_tree(path)

    def _bound(self) -> None:
        records = [path for path in self._root.glob(f"*/{_RECORD}") if not path.parent.name.startswith(".")]
        sizes = {path: _bytes(path) for path in sorted(records, key=_used)}
        total = sum(sizes.values())
        for path, size in sizes.items():
            if total > self._max_bytes and _remove_unheld(path):
                total -= size


def _used(record: Path) -> float:
    try:
        return record.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _bytes(record: Path) -> int:
    """As it was measured when it was kept: nothing changes an environment, and all of them have a million files."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        return int(json.loads(record.read_text(encoding="utf-8"))["bytes"])
    return _size(record.parent)


def _remove_unheld(record: Path) -> bool:
    with suppress(OSError), record.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        aside = record.parent.with_name(f"{_ASIDE}{record.parent.name}")
        record.parent.rename(aside)  # nobody finds it from here on
        remove_tree(aside)
        return True
    return False


def _size(folder: Path) -> int:
    """Bytes on disk."""
    total = 0
    for here, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += os.lstat(os.path.join(here, name)).st_blocks * 512  # noqa: PTH118 - many files
    return total


def copy(source: Path, target: Path) -> None:
    """A copy of the folder ``source`` that shares nothing with it, links as they are. By the system's own program where
    it can do it, which takes half the time; only while nothing runs that could change ``source``."""
    options = ("-R", "-P", "--preserve=mode,timestamps", "--reflink=auto", "--")
    if not process.run(["cp", *options, str(source), str(target)], limits=Limits(wall_s=_COPY_S)).ok:
        remove_tree(target)
        shutil.copytree(source, target, symlinks=True)


# ── what a set-up makes in the checkout ──────────────────────────────────────────────────────────────────────────


def carry(checkout: Path, target: Path, made: Sequence[str]) -> Sequence[str]:
    """Move what the set-up made in the checkout (``node_modules``, built extensions, version files) to ``target``."""
    if len(made) > _MOUNT_LIMIT:
        raise SetupFailed(
            f"The set-up left {len(made)} new files and folders in the checkout",
            why=f"At most {_MOUNT_LIMIT} can be carried to the test runs",
            todo="Let the set-up write them into fewer folders",
        )
    for path in made:
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.move(checkout / path, target / path)
        if not (target / path).is_symlink():
            for name in SCRATCH.get(PurePosixPath(path).name, ()):
                (target / path / name).mkdir(exist_ok=True)
    return made


def untracked(checkout: Path, tracked: frozenset[str]) -> list[str]:
    """The topmost paths that hold nothing tracked, so that each can become one mount."""
    folders = {str(parent) for path in tracked for parent in PurePosixPath(path).parents}
    return list(_walk(checkout, "", tracked, folders))


def _walk(checkout: Path, below: str, tracked: frozenset[str], folders: set[str]) -> Iterator[str]:
    with os.scandir(checkout / below) as entries:
        for entry in sorted(entries, key=lambda e: e.name):
            path = f"{below}/{entry.name}" if below else entry.name
            if entry.name in _SKIPPED or path in tracked or entry.is_symlink():
                continue
            if entry.is_dir(follow_symlinks=False) and path in folders:
                yield from _walk(checkout, path, tracked, folders)
            else:
                yield path
