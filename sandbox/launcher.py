# ruff: noqa: PTH102, PTH112, PTH123, S302, S606
# No pathlib, it is slow to import; and the input is our own parent's.
"""Started by file name, once for each sandboxed command: sets limits, gives up every privilege, becomes bubblewrap.

It is a program of its own because the parent has threads, and between fork and exec of a threaded process hardly
anything is safe. Nothing heavy is imported: it costs about ten milliseconds.

Its input is a marshalled tuple on the file descriptor named by the only argument; made in ``bubblewrap.py``.
"""

import ctypes
import marshal
import os
import resource
import sys

_CLONE_NEWNS = 0x00020000
_MS_NOSUID, _MS_NODEV, _MS_BIND, _MS_REC, _MS_PRIVATE = 0x2, 0x4, 0x1000, 0x4000, 0x40000
_PR_SET_NO_NEW_PRIVS = 38
_SYS_KEYCTL = {"x86_64": 250, "aarch64": 219}
_KEYCTL_JOIN_SESSION_KEYRING = 1

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result < 0:
        sys.exit(f"launcher: {what}: {os.strerror(ctypes.get_errno())}")


def _mount(source: str, target: str, kind: bytes | None, flags: int, options: bytes | None = None) -> None:
    _check(_libc.mount(os.fsencode(source), os.fsencode(target), kind, flags, options), f"mount {source} on {target}")


def _stage(staging: str, sources: list[str]) -> None:
    """Bind each source to ``staging/<its number>`` in a private mount namespace.

    The unprivileged user could not reach a source below a folder such as ``/root``. The sources are opened before
    the staging folder hides some of them, and after the namespace is ours: across namespaces nothing can be bound.
    """
    _check(_libc.unshare(_CLONE_NEWNS), "unshare")
    _mount("none", "/", None, _MS_REC | _MS_PRIVATE)
    opened = [(os.open(source, os.O_PATH | os.O_CLOEXEC), os.path.isdir(source)) for source in sources]
    _mount("staging", staging, b"tmpfs", _MS_NOSUID | _MS_NODEV, b"mode=0755,size=1m")
    for number, (fd, is_folder) in enumerate(opened):
        target = f"{staging}/{number}"
        if is_folder:
            os.mkdir(target)
        else:
            os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o600))
        _mount(f"/proc/self/fd/{fd}", target, None, _MS_BIND | _MS_REC)
        os.close(fd)


def _become(user: int) -> None:
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    _check(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")


def main() -> None:
    fd = int(sys.argv[1])
    with os.fdopen(fd, "rb") as file:
        cgroups, limits, staging, sources, user, argv = marshal.load(file)
    for procs in cgroups:
        with open(procs, "w") as file:
            file.write("0")
    if user is not None:
        _stage(staging, sources)
    keyctl = _SYS_KEYCTL.get(os.uname().machine)
    if keyctl is not None:  # keyrings know no namespaces: leave the parent's behind
        _libc.syscall(keyctl, _KEYCTL_JOIN_SESSION_KEYRING, None)
    with open("/proc/self/oom_score_adj", "w") as file:  # when the machine runs out, this goes first
        file.write("1000")
    for kind, soft, hard in limits:
        resource.setrlimit(kind, (soft, hard))
    os.umask(0o022)
    os.chdir("/")
    if user is not None:
        _become(user)
    os.execve(argv[0], argv, {})


if __name__ == "__main__":
    main()
