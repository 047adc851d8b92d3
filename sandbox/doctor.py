"""Looks at this machine: what is there, what is missing, which package brings it."""

from __future__ import annotations

import shutil
from dataclasses import dataclass

from sandbox import cgroup, landlock, machine, process
from sandbox.choose import open_sandbox
from sandbox.errors import SandboxUnavailable
from sandbox.types import Isolation


@dataclass(frozen=True)
class Check:
    """One thing that was looked at. ``needed``: nothing works without it; ``todo`` is empty when ``ok``."""

    name: str
    ok: bool
    needed: bool
    detail: str
    todo: str = ""


def examine() -> tuple[Check, ...]:
    """Everything that matters, tried for real. Takes a fraction of a second; changes nothing."""
    return (_isolation(), _bubblewrap(), _limits(), _landlock(), _git())


def _isolation() -> Check:
    try:
        isolation: Isolation = open_sandbox().isolation
    except SandboxUnavailable as error:
        return Check("isolation", False, True, f"{error.what}. {error.why}".strip(), error.todo)
    todo = "Weaker than it could be; see the line on bubblewrap" if isolation.degraded else ""
    return Check("isolation", not isolation.degraded, not isolation.degraded, isolation.detail, todo)


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
