"""The places of this machine at which a sandbox without namespaces shows files: each a link, for a while."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Final

from sandbox import inside
from sandbox.errors import SandboxBroken
from sandbox.types import Cancelled, Mount
from sandbox.users import LOCKS

_WAIT_S: Final = 0.02


@contextmanager
def turn(cancelled: Cancelled | None) -> Iterator[bool]:
    """Wait until no other command of this machine shows files; false when it was cancelled before."""
    with (LOCKS / "places").open("w") as lock:
        while not _locked(lock):
            if cancelled is not None and cancelled():
                yield False
                return
            time.sleep(_WAIT_S)
        yield True


def _locked(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def views(mounts: Iterable[Mount]) -> Iterator[None]:
    """Make each source appear at its target.

    Raises:
        SandboxBroken: something else is there, or is on the way.
    """
    shown: dict[Path, Path] = {}
    with ExitStack() as stack:
        for mount in inside.by_depth(tuple(mounts)):
            target = Path(mount.target)
            outer = next((folder for folder in target.parents if folder in shown), None)
            place = shown[outer] / target.relative_to(outer) if outer else target
            _show(mount.source, place, stack, within=outer is not None)
            shown[target] = Path(os.path.realpath(mount.source))
        yield


def _show(source: Path, place: Path, stack: ExitStack, *, within: bool) -> None:
    """A link at ``place`` to ``source``, for a while.

    Args:
        within: it is in a mount, where a command before this one may have put anything: nothing there is followed.
    """
    if not source.exists():
        raise SandboxBroken(f"{source} can't be shown at {place}", why="it does not exist")
    if os.path.realpath(place) == os.path.realpath(source):
        return
    if within and _is_led_away(place):
        raise SandboxBroken(f"{source} can't be shown at {place}", why="a link on the way leads elsewhere")
    if place.is_symlink() and not place.exists():  # left by a process that was killed
        place.unlink()
    if within and place.is_dir() and not place.is_symlink() and not any(place.iterdir()):
        place.rmdir()
        stack.callback(_put_back, place)
    if os.path.lexists(place):
        raise SandboxBroken(
            f"{source} can't be shown at {place}",
            why="something else is at that place, and without namespaces it can't be hidden",
            todo="Choose a place that does not exist, or run where bubblewrap can start",
        )
    for parent in reversed(place.parents):
        if not parent.exists():
            parent.mkdir(mode=0o755)
            stack.callback(_forget, parent)
    place.symlink_to(source)
    stack.callback(_unlink, place)


def _is_led_away(place: Path) -> bool:
    return os.path.realpath(place.parent) != str(place.parent)


def _unlink(place: Path) -> None:
    with suppress(OSError):  # within a mount the command may have put something else there, which is its own
        if place.is_symlink() and not _is_led_away(place):
            place.unlink()


def _put_back(folder: Path) -> None:
    with suppress(OSError):
        if not _is_led_away(folder):
            folder.mkdir(mode=0o755)


def _forget(folder: Path) -> None:
    with suppress(OSError):  # not empty any more: someone else's by now
        folder.rmdir()
