"""What a run needs to know of this machine: where programs are, and where packages come from."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from agent.verify.registries import ALLOW, CLIENTS, Registries, told
from app import clients
from app.settings import MachineSettings, environment


@dataclass(frozen=True)
class Machine:
    """``search_path`` is a ``PATH``; ``registries`` are settings of package clients, without credentials."""

    search_path: str
    registries: Mapping[str, str]


def this_machine(settings: MachineSettings) -> Machine:
    """Read the environment and the package clients' own files; ``settings`` win over both."""
    env = environment()
    given = dict(env)
    if settings.pip_index_url:
        given["PIP_INDEX_URL"] = settings.pip_index_url
    if settings.npm_registry:
        given["npm_config_registry"] = settings.npm_registry
    if settings.egress_allow:
        given[ALLOW] = settings.egress_allow
    given[CLIENTS] = told(clients.defaults(env.get("PATH", "")))
    home = Path(env.get("HOME", "/nonexistent"))
    registries = Registries.of(given, pip_conf=_read(_pip_files(env, home)), npmrc=_read((home / ".npmrc",)))
    return Machine(search_path(env), registries.settings)


def search_path(env: Mapping[str, str]) -> str:
    """``PATH`` without our own virtual environment: the target's tests must never run with it."""
    own = Path(os.path.realpath(sys.prefix)) / "bin"
    kept = [
        part for part in env.get("PATH", "").split(":") if part.startswith("/") and Path(os.path.realpath(part)) != own
    ]
    return ":".join(kept) or "/usr/local/bin:/usr/bin:/bin"


def _pip_files(env: Mapping[str, str], home: Path) -> Iterable[Path]:
    """pip's configuration files, the most specific first (pip's documentation, "Location")."""
    if env.get("PIP_CONFIG_FILE"):
        yield Path(env["PIP_CONFIG_FILE"])
    yield Path(env.get("XDG_CONFIG_HOME", str(home / ".config"))) / "pip" / "pip.conf"
    yield home / ".pip" / "pip.conf"
    for folder in env.get("XDG_CONFIG_DIRS", "/etc/xdg").split(":"):
        yield Path(folder) / "pip" / "pip.conf"
    yield Path("/etc/pip.conf")


def _read(files: Iterable[Path]) -> str:
    """All readable files' text, the most specific last, so that it wins where both set the same."""
    texts = []
    for file in files:
        try:
            texts.append(file.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError):
            continue
    return "\n".join(reversed(texts))
