"""What a command sees inside: the system, its own small /etc, empty writable folders, and the mounts it was given.

Nothing happens here but looking at which system paths exist; bubblewrap's arguments are the result.
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath

from sandbox.errors import SandboxUnavailable
from sandbox.process import DEFAULT_PATH
from sandbox.types import Limits, Mount

HOME = "/home/sandbox"
USER_ID = 1000
BASE_ENV: Mapping[str, str] = {
    "PATH": DEFAULT_PATH,
    "HOME": HOME,
    "USER": "sandbox",
    "LOGNAME": "sandbox",
    "SHELL": "/bin/sh",
    "TMPDIR": "/tmp",  # noqa: S108 - a path inside
    "LANG": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    "TERM": "dumb",
}

_SYSTEM = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32")
# What programs need of /etc and what holds no secret. Not here on purpose: anything that may carry a registry token or
# a credential helper, such as gitconfig, pip.conf, npmrc or the settings of maven.
_ETC = (
    *("alternatives", "ca-certificates", "ca-certificates.conf", "crypto-policies", "debian_version", "fonts"),
    *("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "mime.types", "os-release", "perl", "pki"),
    *("protocols", "services", "ssl/certs", "ssl/openssl.cnf", "timezone", "java*", "python*", "maven/m2.conf"),
    *("maven/logging", "php/*/cli/conf.d", "php/*/mods-available"),
)
_FILES = {
    "/etc/passwd": "root:x:0:0:root:/root:/usr/sbin/nologin\n"
    f"sandbox:x:{USER_ID}:{USER_ID}:sandbox:{HOME}:/bin/sh\n"
    "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
    "/etc/group": f"root:x:0:\nsandbox:x:{USER_ID}:\nnogroup:x:65534:\n",
    "/etc/hosts": "127.0.0.1\tlocalhost sandbox\n::1\tlocalhost\n",
    "/etc/host.conf": "multi on\n",  # or localhost is one address only
    "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n",
}


def namespaces(knows: frozenset[str], *, network: bool) -> list[str]:
    """Options that separate the command from this machine.

    Args:
        knows: the options of this bubblewrap.
        network: whether that is for bubblewrap to do too.
    """
    options = ["--unshare-user", "--uid", str(USER_ID), "--gid", str(USER_ID), "--unshare-pid", "--unshare-ipc"]
    options += ["--unshare-uts", "--hostname", "sandbox", "--unshare-cgroup-try"]
    options += ["--unshare-net"] if network else []
    options += ["--die-with-parent", "--new-session"]
    if "--disable-userns" in knows:  # new user namespaces are the usual first step against the kernel
        options.append("--disable-userns")
    return options


def system(limits: Limits, knows: frozenset[str], hand_over: Callable[[bytes], int]) -> list[str]:
    """Options for everything but the command's own mounts. ``hand_over`` makes a file descriptor from bytes."""
    options = list(_read_only_system())
    for path, text in _FILES.items():
        options += ["--ro-bind-data", str(hand_over(text.encode())), path]
    options += ["--proc", "/proc", "--dev", "/dev"]
    for folder, mode in (("/tmp", "1777"), (HOME, "0700"), ("/dev/shm", "1777")):  # noqa: S108 - paths inside
        options += empty(folder, mode, limits, knows)
    return [*options, "--dir", "/run", "--symlink", "../tmp", "/var/tmp"]  # noqa: S108


def empty(folder: str, mode: str, limits: Limits, knows: frozenset[str]) -> list[str]:
    """Options for an empty folder in memory that the command can write to."""
    options = ["--perms", mode] if "--perms" in knows else []
    options += ["--size", str(limits.tmp_bytes)] if "--size" in knows else []
    return [*options, "--tmpfs", folder]


def system_paths() -> Iterator[str]:
    """The readable part of the system where there are no mounts and the machine's own files are seen in their place."""
    yield from (f"/{name}" for name in _SYSTEM)
    yield from _etc()
    yield from _FILES


def by_depth(mounts: tuple[Mount, ...]) -> list[Mount]:
    """A mount may lie below another one, so the outer comes first; of two equals the later wins."""
    return sorted(mounts, key=lambda mount: len(PurePosixPath(mount.target).parts))


def check_reachable(mounts: Iterable[Mount]) -> None:
    """For a sandbox that can't mount: what it shows must be within reach of the user that runs commands.

    Raises:
        SandboxUnavailable: names the folder that is closed.
    """
    for mount in mounts:
        closed = _closed_above(mount.source) if mount.source.exists() else None
        if closed is not None:
            raise SandboxUnavailable(
                f"The user that runs commands can't reach {mount.source}",
                why=f"{closed} is closed to others, and we may not mount it elsewhere",
                todo="Keep the state in a folder that others may pass through, or let us mount (CAP_SYS_ADMIN)",
            )


def closed(path: Path, *, mounted: bool) -> Path | None:
    """What keeps another user of this machine from ``path``, which is there: a folder above it, or itself.

    Args:
        mounted: it is shown elsewhere, so that no folder above it is in the way.
    """
    real = path.resolve()
    wanted = stat.S_IROTH | stat.S_IXOTH if real.is_dir() else stat.S_IROTH
    itself = None if real.stat().st_mode & wanted == wanted else real
    return itself if mounted else _closed_above(path) or itself


def _closed_above(path: Path) -> Path | None:
    return next((folder for folder in path.resolve().parents if not folder.stat().st_mode & stat.S_IXOTH), None)


def closing(cwd: str, env: Mapping[str, str]) -> list[str]:
    """Options that come after all mounts: what is left of the root and of /dev becomes read-only."""
    options = ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", cwd]
    for name, value in {**BASE_ENV, **env}.items():
        options += ["--setenv", name, value]
    return options


def _read_only_system() -> Iterator[str]:
    for name in _SYSTEM:
        path = Path("/", name)
        if path.is_symlink():
            yield from ("--symlink", str(path.readlink()), str(path))
        elif path.is_dir():
            yield from ("--ro-bind", str(path), str(path))
    for file in _etc():
        yield from ("--ro-bind-try", file, file)


def _etc() -> Iterator[str]:
    for pattern in _ETC:
        yield from map(str, sorted(Path("/etc").glob(pattern)))
