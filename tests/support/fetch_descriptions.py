"""GitHub's own descriptions of its API and webhooks, from npm, into ``.cache/``; run as a script or through a fixture.

Pinned by version and by SHA-512 of the package. Nothing of them is committed.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CACHE = Path(__file__).parents[2] / ".cache" / "github"


class Missing(Exception):
    """The descriptions can't be had on this machine; the text says why."""


@dataclass(frozen=True)
class Package:
    """One file out of one npm package. ``refine`` makes what is kept out of what it holds."""

    name: str
    version: str
    sha512: str
    member: str
    kept: str
    refine: Callable[[bytes], bytes] = lambda content: content

    def path(self) -> Path:
        """The file, fetched if it is not there yet. Any number of processes may ask at the same time."""
        target = CACHE / f"{self.version}-{self.kept}"
        if not target.exists():
            CACHE.mkdir(parents=True, exist_ok=True)
            with (CACHE / ".lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                if not target.exists():
                    self._fetch(target)
        return target

    def _fetch(self, target: Path) -> None:
        npm = shutil.which("npm")
        if npm is None:
            raise Missing("npm is not installed, so GitHub's own description is not here to check against")
        with tempfile.TemporaryDirectory(dir=CACHE) as folder:
            command = [npm, "pack", "--loglevel=error", "--fetch-retries=1", f"{self.name}@{self.version}"]
            try:
                subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=90, check=True)
            except subprocess.CalledProcessError as error:
                raise Missing(f"npm pack {self.name} failed: {error.stderr.strip()[-300:]}") from error
            except subprocess.TimeoutExpired as error:
                raise Missing(f"npm pack {self.name} took too long") from error
            archives = list(Path(folder).glob("*.tgz"))
            self._check(archives[0].read_bytes())
            part = Path(folder) / "part"
            part.write_bytes(self.refine(_member(archives[0], self.member)))
            part.replace(target)

    def _check(self, archive: bytes) -> None:
        digest = base64.b64encode(hashlib.sha512(archive).digest()).decode()
        if digest != self.sha512:
            raise ValueError(f"{self.name} {self.version} is not what was pinned: sha512-{digest}")


def _member(archive: Path, name: str) -> bytes:
    with tarfile.open(archive) as tar:
        file = tar.extractfile(name)
        assert file is not None
        return file.read()


PROSE = frozenset({"example", "examples", "description", "summary", "externalDocs", "x-github", "tags"})
NAMES = frozenset(
    {"properties", "schemas", "parameters", "responses", "headers", "paths", "x-webhooks", "patternProperties"}
)
"""Keys below which keys are names, so that ``description`` may be one of them."""


def _without_prose(content: bytes) -> bytes:
    """The description without its examples and texts: a quarter of the size, and that much faster to read."""

    def slim(node: Any, named: bool = False) -> Any:
        if isinstance(node, dict):
            return {
                key: slim(value, key in NAMES and not named) for key, value in node.items() if named or key not in PROSE
            }
        return [slim(item) for item in node] if isinstance(node, list) else node

    return json.dumps(slim(json.loads(content)), separators=(",", ":")).encode()


API = Package(
    name="@octokit/openapi",
    version="23.0.2",
    sha512="pV8M7L9GY23AybNvTmo2nyjmpmnt6+2sRE/tqr0ZLQcPS4lnw7u5eZGNmwRNkBC3D7gZXbFx5AHzLUVRBXGDhg==",
    member="package/generated/api.github.com.json",
    kept="api.json",
    refine=_without_prose,
)
WEBHOOKS = Package(
    name="@octokit/webhooks-examples",
    version="7.6.1",
    sha512="De6U3XB6O3DtCa7bKgCMzTHdeopqqZ6SNivMYJnK65ierKL1AnNIA0tkRYCRS7lwGT792d+Ps1WbfHlso6MynQ==",
    member="package/api.github.com/index.json",
    kept="webhooks.json",
)

if __name__ == "__main__":
    try:
        for package in (API, WEBHOOKS):
            print(package.path())
    except Missing as missing:
        print(f"{missing}; the tests that need it will be skipped and say so.")
        sys.exit(0)
