"""Facts about this machine that decide whether it can isolate, and how to get what is missing."""

from __future__ import annotations

import shutil
from pathlib import Path

from sandbox.process import DEFAULT_PATH

# In the order in which they are looked for: a machine may carry a foreign one besides its own.
_INSTALLERS = {
    "apt-get": ("apt-get", "install", "-y"),
    "dnf": ("dnf", "install", "-y"),
    "zypper": ("zypper", "--non-interactive", "install"),
    "pacman": ("pacman", "-S", "--noconfirm"),
    "apk": ("apk", "add"),
}
_APPARMOR_PROFILE = (
    "abi <abi/4.0>, include <tunables/global> profile bwrap /usr/bin/bwrap flags=(unconfined) { userns, }"
)
# Switch of the kernel, the value that forbids, and what to do.
_NAMESPACE_SWITCHES = (
    ("user/max_user_namespaces", "0", "Set the kernel setting user.max_user_namespaces above 0"),
    ("kernel/unprivileged_userns_clone", "0", "Set the kernel setting kernel.unprivileged_userns_clone to 1"),
    (
        "kernel/apparmor_restrict_unprivileged_userns",
        "1",
        f"Allow them for bubblewrap with an AppArmor profile in /etc/apparmor.d/bwrap: {_APPARMOR_PROFILE}; "
        "then run: apparmor_parser -r /etc/apparmor.d/bwrap",
    ),
)


def text_of(file: Path) -> str:
    """The text of a file; empty where it can't be read."""
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError):
        return ""


def install_command(package: str) -> tuple[str, ...] | None:
    """How root installs a package here; ``None`` where the package manager is not known."""
    for program, words in _INSTALLERS.items():
        if shutil.which(program, path=DEFAULT_PATH):
            return (*words, package)
    return None


def how_to_install(package: str) -> str:
    """The same as a sentence."""
    command = install_command(package)
    return f"Install the package {package}" + (f": {' '.join(command)}" if command else "")


def namespaces_advice() -> str:
    """What to change so that an ordinary user may make namespaces; says so when no switch forbids it."""
    for switch, forbidding, advice in _NAMESPACE_SWITCHES:
        if text_of(Path("/proc/sys", switch)).strip() == forbidding:
            return advice
    return "In a container, run it on the machine itself or allow user namespaces and a new /proc in there"
