"""What a local run takes along from the user's checkout although git ignores it: built extensions, generated files,
dependencies. Small things are copied, large folders are mounted read-only; none of it can get into a change.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from agent.git_process import user_git
from agent.tree import BaseTree
from sandbox.types import MIB

COPY_BYTES = 16 * MIB
"""A folder above this, or with more files than the next, is mounted instead of copied."""
COPY_FILES = 1000
COPY_TOTAL_BYTES = 128 * MIB

_CACHES = frozenset(
    (
        *("__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", ".cache", ".nyc_output"),
        *(".coverage", "htmlcov", ".DS_Store", ".git"),
    )
)
_SECRETS = (
    *(".env", ".env.*", "*.env", ".netrc", ".pypirc", ".npmrc", ".pgpass", ".htpasswd", "*.pem", "*.key", "*.p12"),
    *("*.pfx", "*.jks", "*.keystore", "id_rsa*", "id_ed25519*", "id_ecdsa*", "credentials*", "secrets.*", "*.tfstate*"),
    *(".aws", ".ssh", ".gnupg", ".docker", ".kube", "*service-account*.json"),
)
_HARMLESS = (".env.example", ".env.sample", ".env.template", ".env.dist", ".env.test", "cacert.pem")


@dataclass(frozen=True)
class Carried:
    """Paths relative to the user's checkout."""

    copied: tuple[str, ...] = ()
    """Files and folders."""
    mounted: tuple[str, ...] = ()
    """Folders."""
    left_out: tuple[str, ...] = ()
    """Names that usually hold a secret: code under test must not see them."""


def survey(origin: Path, tracked: BaseTree) -> Carried:
    """Sort what git ignores in ``origin``. Nothing is written."""
    copied: list[str] = []
    mounted: list[str] = []
    left_out: list[str] = []
    total = 0
    for path in _ignored(origin):
        name = path.rsplit("/", 1)[-1]
        if name in _CACHES or path in tracked.entries or path in tracked.folders:
            continue
        if is_secret(name):
            left_out.append(path)
            continue
        size = _weight(origin / path)
        if size is None or total + size > COPY_TOTAL_BYTES:
            if (origin / path).is_dir() and not (origin / path).is_symlink():
                mounted.append(path)
            continue
        total += size
        copied.append(path)
    return Carried(tuple(copied), tuple(mounted), tuple(left_out))


def is_secret(name: str) -> bool:
    """Whether a file or folder of this name usually holds a secret."""
    folded = name.casefold()
    return folded not in _HARMLESS and any(fnmatchcase(folded, pattern) for pattern in _SECRETS)


def copy(origin: Path, path: str, target: Path) -> None:
    """Copy one file or folder of ``origin`` to the same place below ``target``, sharing blocks where the disk can.

    Links are copied as links; caches, secrets and what is no file are left out, and so is what vanishes meanwhile.
    """
    for source, relative in _walk(origin / path, path):
        place = target / relative
        with suppress(FileNotFoundError):
            if source.is_symlink():
                place.parent.mkdir(parents=True, exist_ok=True)
                place.symlink_to(source.readlink())
            elif source.is_dir():
                place.mkdir(parents=True, exist_ok=True)
            elif source.is_file():
                place.parent.mkdir(parents=True, exist_ok=True)
                _copy_file(source, place)


def _copy_file(source: Path, target: Path) -> None:
    with source.open("rb") as reader, target.open("xb") as writer:
        status = os.fstat(reader.fileno())
        left = status.st_size
        try:
            while left > 0:
                done = os.copy_file_range(reader.fileno(), writer.fileno(), left)
                if not done:
                    break
                left -= done
        except OSError:  # not between these two file systems
            reader.seek(0)
            writer.seek(0)
            writer.truncate()
            while chunk := reader.read(MIB):
                writer.write(chunk)
        os.fchmod(writer.fileno(), 0o755 if status.st_mode & 0o100 else 0o644)
        writer.flush()
        os.utime(writer.fileno(), ns=(status.st_mtime_ns, status.st_mtime_ns))


def _ignored(origin: Path) -> list[str]:
    listing = user_git(
        origin, ["ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "--no-empty-directory", "-z"]
    )
    return [os.fsdecode(name).rstrip("/") for name in listing.split(b"\0") if name]


def _weight(path: Path) -> int | None:
    """Bytes to copy; ``None`` when it is too much."""
    total = 0
    for number, (entry, _) in enumerate(_walk(path, "")):
        with suppress(OSError):
            total += entry.lstat().st_size
        if number > COPY_FILES or total > COPY_BYTES:
            return None
    return total


def _walk(path: Path, relative: str) -> Iterator[tuple[Path, str]]:
    """``path`` and everything below it that is carried, without following a link."""
    yield path, relative
    if path.is_symlink() or not path.is_dir():
        return
    with suppress(OSError):
        for entry in sorted(os.scandir(path), key=lambda e: e.name):
            if entry.name not in _CACHES and not is_secret(entry.name):
                yield from _walk(path / entry.name, f"{relative}/{entry.name}")
