"""Installs what a JavaScript project and its tests need, by the package manager whose lock file is there. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from agent.verify.documents import table
from agent.verify.files import Files, text
from agent.verify.toolchains import packages
from agent.verify.toolchains.base import NODE, Step

# Of these, npm runs what the project itself gives when it is installed.
_INSTALL_SCRIPTS: Final = (
    *("preinstall", "install", "postinstall", "prepublish", "preprepare", "prepare", "postprepare"),
    "dependencies",
)


def prepare(files: Files) -> tuple[Step, ...]:
    package = packages.manifest(files)
    if not any(package.get(key) for key in ("dependencies", "devDependencies", "peerDependencies", "workspaces")) and (
        "pnpm-workspace.yaml" not in files.paths()
    ):
        return ()
    paths = files.paths()
    manager = next((name for lock, name in _MANAGERS.items() if lock in paths), None)
    if manager is not None:
        return (_brought(manager, files), Step((manager, "install", "--frozen-lockfile")))
    locked = "package-lock.json" in paths or "npm-shrinkwrap.json" in paths
    return (Step(("npm", "ci" if locked else "install", "--no-audit", "--no-fund"), reads=read_by_npm(files)),)


_MANAGERS: Final[Mapping[str, str]] = {"pnpm-lock.yaml": "pnpm", "yarn.lock": "yarn"}
_PNPM_OF_LOCK: Final[Mapping[str, str]] = {"5": "7", "6": "8", "9": "10"}
"""First number of a lock file's version → the pnpm that wrote it, for who names none."""


def _brought(manager: str, files: Files) -> Step:
    """The package manager itself, of npm, where the machine has none."""
    named = re.match(rf"{manager}@(\d+\.\d+\.\d+)(?![\w.-])", str(packages.manifest(files).get("packageManager", "")))
    if manager == "pnpm":
        lock = re.search(r"(?m)^lockfileVersion: ['\"]?(\d+)", text(files, "pnpm-lock.yaml", limit=10_000_000))
        version = named[1] if named else _PNPM_OF_LOCK.get(lock[1] if lock else "", "latest")
    else:
        classic = "# yarn lockfile v1" in text(files, "yarn.lock", limit=10_000_000)[:200]
        version = named[1] if named else "1" if classic else "4"
    package = "@yarnpkg/cli-dist" if manager == "yarn" and version.partition(".")[0] != "1" else manager
    install = ("npm", "install", "--global", "--prefix", NODE, "--no-audit", "--no-fund", "--ignore-scripts")
    read = frozenset({"package.json", *_MANAGERS})
    return Step((*install, f"{package}@{version}"), reads=read, offline=(manager, "--version"))


def read_by_npm(files: Files) -> frozenset[str] | None:
    """``None`` where npm looks into more of the repository: scripts of its own, packages in there, native code."""
    package = packages.manifest(files)
    kinds = ("dependencies", "devDependencies", "optionalDependencies", "peerDependencies")
    wanted = [str(version) for kind in kinds for version in table(package, kind).values()]
    inside = any(re.match(r"(file|link|workspace|portal):|[./~]", version) for version in wanted)
    scripts = any(name in packages.scripts(files) for name in _INSTALL_SCRIPTS)
    if inside or scripts or package.get("workspaces") or "binding.gyp" in files.paths():
        return None
    return frozenset({"package.json", "package-lock.json", "npm-shrinkwrap.json", ".npmrc"})
