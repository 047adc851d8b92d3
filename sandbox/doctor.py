"""Looks at this machine: what is there, what is missing, which package brings it."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from sandbox import cgroup, landlock, machine, process
from sandbox.choose import open_sandbox
from sandbox.errors import SandboxUnavailable
from sandbox.toolchain import KEEP_PACKAGES, mounts_for
from sandbox.types import Isolation, Sandbox


@dataclass(frozen=True)
class Check:
    """One thing that was looked at. ``needed``: nothing works without it; ``todo`` is empty when ``ok``."""

    name: str
    ok: bool
    needed: bool
    detail: str
    todo: str = ""


def examine(path: str = "") -> tuple[Check, ...]:
    """Everything that matters, tried for real. Takes a fraction of a second; changes nothing.

    Args:
        path: a ``PATH``, to look at the tools on it too.
    """
    try:
        sandbox = open_sandbox()
    except SandboxUnavailable as error:
        isolation = Check("isolation", False, True, f"{error.what}. {error.why}".strip(), error.todo)
        return (isolation, _bubblewrap(), _limits(), _landlock(), _git())
    tools = (_tools(sandbox, path),) if path else ()
    return (_isolation(sandbox.isolation), _bubblewrap(), _limits(), _landlock(), _git(), *tools)


def _isolation(isolation: Isolation) -> Check:
    todo = "Weaker than it could be; see the line on bubblewrap" if isolation.degraded else ""
    return Check("isolation", not isolation.degraded, not isolation.degraded, isolation.detail, todo)


def _tools(sandbox: Sandbox, path: str) -> Check:
    """Whether tests can use what is installed for one user."""
    behind: dict[Path, list[str]] = {}
    for source in dict.fromkeys(mount.source for mount in mounts_for(" ".join(KEEP_PACKAGES), path, None)[0]):
        closed = sandbox.closed(source)
        if closed is not None:
            behind.setdefault(closed, []).append(str(source))
    if not behind:
        return Check("tools", True, False, "tests can use every interpreter and cache that was found")
    said = (f"{', '.join(found)} ({closed} is closed to others)" for closed, found in behind.items())
    todo = "Install them for every user, below /usr/local for example, or open the folder to others (chmod o+rx)"
    return Check("tools", False, False, f"tests can't use {', '.join(said)}", todo)


def _bubblewrap() -> Check:
    path = shutil.which("bwrap", path=process.DEFAULT_PATH)
    if path is None:
        return Check("bubblewrap", False, False, "not installed", machine.how_to_install("bubblewrap"))
    return Check("bubblewrap", True, False, process.run([path, "--version"]).output.decode("ascii", "replace").strip())


def _limits() -> Check:
    place = cgroup.find()
    if place is not None:
        return Check("memory limit", True, False, f"kept by the kernel for all processes together ({place})")
    detail = "kept by a watch that looks many times a second; processes are limited by user"
    todo = "For a limit by the kernel: run as root, or as a systemd service with Delegate=yes"
    return Check("memory limit", False, False, detail, todo)


def _landlock() -> Check:
    known = landlock.version()
    if landlock.keeps_ports(known):
        return Check("Landlock", True, False, f"version {known}")
    if known:
        todo = "Where bubblewrap can't start, set-ups reach this machine's network: that needs version 4 (Linux 6.7)"
        return Check("Landlock", False, False, f"version {known}", todo)
    return Check("Landlock", False, False, "not in this kernel", "Only needed where bubblewrap can't start")


def _git() -> Check:
    path = shutil.which("git", path=process.DEFAULT_PATH)
    if path is None:
        return Check("git", False, True, "not installed", machine.how_to_install("git"))
    return Check("git", True, True, process.run([path, "--version"]).output.decode("ascii", "replace").strip())
