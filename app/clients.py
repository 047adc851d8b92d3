"""What the package clients of this machine come with: the registry that each uses as long as no setting names another.

The clients are asked; nothing is known here of any registry. Some have no way to say it (Cargo, Composer, Gradle); the
operator's settings must name theirs.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from sandbox import SandboxError, process
from sandbox.types import Limits

_PIP: Final = "from pip._internal.models.index import PyPI as i; print(i.url, f'https://{i.file_storage_domain}')"
_ASKED: Final[Mapping[str, tuple[str, ...]]] = {
    "pip": (sys.executable, "-P", "-c", _PIP),
    "npm": ("npm", "config", "get", "registry"),
    "go": ("go", "env", "GOPROXY"),
    "go sums": ("go", "env", "GOSUMDB"),
    "gem": ("gem", "sources", "--list"),
}
_SUPER_POM: Final = "org/apache/maven/model/pom-4.0.0.xml"
"""The model that every project inherits from; it names the central repository."""


@cache
def defaults(path: str) -> Mapping[str, tuple[str, ...]]:
    """Client → hosts, of those clients that are found on ``path`` and answer. Asked once in a process: some take a
    second to start."""
    # Some write a log at home even when they are only asked.
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home,
        ThreadPoolExecutor(len(_ASKED), "clients") as pool,
    ):
        answers = dict(zip(_ASKED, pool.map(lambda argv: _answer(argv, path, home), _ASKED.values()), strict=True))
    answers["maven"] = _super_pom(path)
    found = {client: tuple(dict.fromkeys(_hosts(text))) for client, text in answers.items()}
    # RubyGems asks a host of this name for what depends on what, whatever its source is called.
    found["gem"] += tuple(f"index.{host}" for host in found["gem"])
    return {client: hosts for client, hosts in found.items() if hosts}


def _answer(argv: tuple[str, ...], path: str, home: str) -> str:
    """Without the person's own settings: those are read elsewhere, and win."""
    if shutil.which(argv[0], path=path) is None:
        return ""
    env = {**process.CLEAN_ENV, "PATH": path, "HOME": home}
    with suppress(SandboxError):
        done = process.run(list(argv), env=env, cwd=Path("/"), limits=Limits(wall_s=20), split_stderr=True)
        return done.stdout.decode("utf-8", "replace") if done.ok else ""
    return ""


def _super_pom(path: str) -> str:
    program = shutil.which("mvn", path=path)
    jars = Path(program).resolve().parents[1].glob("lib/maven-model-builder-*.jar") if program else ()
    for jar in jars:
        with suppress(OSError, KeyError, zipfile.BadZipFile), zipfile.ZipFile(jar) as archive:
            text = archive.read(_SUPER_POM).decode("utf-8", "replace")
            return " ".join(re.findall(r"<url>\s*(\S+?)\s*</url>", text))
    return ""


def _hosts(text: str) -> Iterator[str]:
    """Of addresses, and of words that can only be hosts."""
    for word in re.split(r"[\s,|]+", text):
        host = urlsplit(word).hostname if "://" in word else word
        if host and re.fullmatch(r"[a-z0-9-]+(\.[a-z0-9-]+)+", host):
            yield host
