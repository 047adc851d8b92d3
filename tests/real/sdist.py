"""Source distributions: downloaded with pip, checked, and unpacked as a repository would look."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

_GENERATED = ("PKG-INFO", "*.egg-info")
"""What building a distribution adds to the files of a repository."""


@dataclass(frozen=True)
class Release:
    """One exact source distribution."""

    name: str
    version: str
    sha256: str


def unpacked(release: Release, cache: Path) -> Path:
    """The folder of the release below ``cache``, downloaded once.

    Raises:
        subprocess.CalledProcessError: pip can't get it; what it printed is shown.
        ValueError: it is not the file that it should be.
    """
    folder = cache / f"{release.name}-{release.version}"
    if not folder.exists():
        archive = _downloaded(release, cache)
        making = cache / f".{folder.name}"
        shutil.rmtree(making, ignore_errors=True)
        with tarfile.open(archive) as tar:
            tar.extractall(making, filter="data")
        (root,) = making.iterdir()
        for pattern in _GENERATED:
            for path in list(root.rglob(pattern)):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        root.rename(folder)
        making.rmdir()
    return folder


def _downloaded(release: Release, cache: Path) -> Path:
    """pip asks the index of this machine's own settings; it also checks the hash before it unpacks anything."""
    place = cache / f"{release.name}-{release.version}.download"
    place.mkdir(parents=True, exist_ok=True)
    wanted = place / "requirements.txt"
    wanted.write_text(f"{release.name}=={release.version} --hash=sha256:{release.sha256}\n")
    options = ("--quiet", "--no-deps", "--no-binary", release.name, "--require-hashes", "--dest", str(place))
    pip = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check", *options, "-r", str(wanted)]
    subprocess.run(pip, check=True, stdout=sys.stderr)
    (archive,) = place.glob("*.tar.gz")
    if hashlib.sha256(archive.read_bytes()).hexdigest() != release.sha256:
        raise ValueError(f"{archive.name} is another file than it should be")
    return archive


def python_lines(folder: Path) -> int:
    """Lines of all Python files, tests included."""
    return sum(path.read_bytes().count(b"\n") for path in folder.rglob("*.py"))
