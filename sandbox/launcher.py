# ruff: noqa: PTH102, PTH112, PTH118, PTH123, S302, S606
# No pathlib, it is slow to import; and the input is our own parent's.
"""Started by file name, once for each untrusted command: sets limits, gives up every privilege, becomes the command.

It is a program of its own because the parent has threads, and between fork and exec of a threaded process hardly
anything is safe. Nothing heavy is imported: it costs about ten milliseconds.

Its only argument names a file descriptor with the plan, a marshalled dictionary: see ``launch.py``. When it can't do
what the plan says, it writes one line to the plan's status descriptor and ends.
"""

import _socket
import ctypes
import fcntl
import marshal
import os
import resource
import struct
import sys

_CLONE_NEWNS, _CLONE_NEWUSER, _CLONE_NEWNET = 0x00020000, 0x10000000, 0x40000000
_SIOCSIFFLAGS, _SIOCSIFADDR, _IFF_UP = 0x8914, 0x8916, 0x1
_LOOPBACK = 1  # the interface's number in a fresh network
_MS_NOSUID, _MS_NODEV, _MS_BIND, _MS_REC, _MS_PRIVATE = 0x2, 0x4, 0x1000, 0x4000, 0x40000
_PR_SET_PDEATHSIG, _PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 1, 22, 38
_SECCOMP_MODE_FILTER = 2
_KILL, _SIGNALS = 9, 65
_SYS_KEYCTL = {"x86_64": 250, "aarch64": 219}
_KEYCTL_JOIN_SESSION_KEYRING = 1
_SYS_SIGACTION = {"x86_64": 13, "aarch64": 134}
# The same number on every architecture.
_SYS_LANDLOCK_CREATE_RULESET, _SYS_LANDLOCK_ADD_RULE, _SYS_LANDLOCK_RESTRICT_SELF = 444, 445, 446
_LANDLOCK_RULE_PATH_BENEATH, _LANDLOCK_RULE_NET_PORT = 1, 2
_LANDLOCK_CONNECT_TCP = 0b10
_LANDLOCK_FILE_RIGHTS = 0b1100_0000_0000_0111  # execute, write, read, truncate, ioctl: what a rule on a file may name

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def _enter(doors: "list[str]") -> None:
    """Join control groups."""
    for door in doors:
        with open(door, "w") as file:
            file.write("0")


def _mount(source: str, target: str, kind: bytes | None, flags: int, options: bytes | None = None) -> None:
    _check(_libc.mount(os.fsencode(source), os.fsencode(target), kind, flags, options), f"mount {source} on {target}")


def _stage(staging: str, sources: "list[str]") -> None:
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


def _network(private: bool) -> None:
    """A network namespace with nothing but loopback, which has a second address of each family.

    Where there is none but 127.0.0.1 and ::1, the C library finds nothing for who asks for addresses of a kind that the
    machine has (AI_ADDRCONFIG). No route leads out of either.

    Args:
        private: only in a user namespace of our own are we allowed to; nobody changes in it.
    """
    user, group = os.geteuid(), os.getegid()
    _check(_libc.unshare(_CLONE_NEWNET | (_CLONE_NEWUSER if private else 0)), "unshare the network")
    if private:
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    old = _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM)
    fcntl.ioctl(old, _SIOCSIFFLAGS, struct.pack("=16sH22x", b"lo", _IFF_UP))  # brings 127.0.0.1 and ::1
    second = struct.pack("=HH4s8x", _socket.AF_INET, 0, bytes((127, 0, 0, 2)))
    fcntl.ioctl(old, _SIOCSIFADDR, struct.pack("=16s24s", b"lo:1", second))
    try:
        new = _socket.socket(_socket.AF_INET6, _socket.SOCK_DGRAM)
        fcntl.ioctl(new, _SIOCSIFADDR, struct.pack("=B14xBIi", 0xFD, 2, 128, _LOOPBACK))
    except OSError:  # no IPv6 here
        pass


def _limit(limits: "list[tuple[int, int, int]]") -> None:
    keyctl = _SYS_KEYCTL.get(os.uname().machine)
    if keyctl is not None:  # keyrings know no namespaces: leave the parent's behind
        _libc.syscall(keyctl, _KEYCTL_JOIN_SESSION_KEYRING, None)
    with open("/proc/self/oom_score_adj", "w") as file:  # when the machine runs out, this goes first
        file.write("1000")
    for kind, soft, hard in limits:
        resource.setrlimit(kind, (soft, hard))
    os.umask(0o022)


def _ruleset(attributes: bytes, rules: "list[tuple[str, int]]", ports: "list[int]") -> int:
    """A Landlock ruleset, as a file descriptor. What is not there needs no rule."""
    create = _libc.syscall(_SYS_LANDLOCK_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0)
    ruleset = _check(create, "landlock_create_ruleset")
    for path, rights in rules:
        try:
            fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        if not os.path.isdir(path):
            rights &= _LANDLOCK_FILE_RIGHTS
        rule = struct.pack("=Qi", rights, fd)
        added = _libc.syscall(_SYS_LANDLOCK_ADD_RULE, ruleset, _LANDLOCK_RULE_PATH_BENEATH, rule, 0)
        _check(added, f"landlock_add_rule {path}")
        os.close(fd)
    for port in ports:
        rule = struct.pack("=QQ", _LANDLOCK_CONNECT_TCP, port)
        added = _libc.syscall(_SYS_LANDLOCK_ADD_RULE, ruleset, _LANDLOCK_RULE_NET_PORT, rule, 0)
        _check(added, f"landlock_add_rule port {port}")
    return ruleset


def _become(user: int) -> None:
    for stream in (1, 2):  # pipes of ours; their new user must be able to open them again, as /dev/stderr
        os.fchown(stream, user, user)
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)


def _die_with(parent: int) -> None:
    """After the change of user, which resets it. The parent may have ended before it took effect."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, _KILL, 0, 0, 0), "die with parent")
    if os.getppid() != parent:
        os._exit(1)


def _filter(program: bytes) -> None:
    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))

    filled = Program(len(program) // 8, program)
    _check(_libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(filled), 0, 0), "seccomp")


class _Plan:
    """``launch.Plan`` as it arrives here."""

    argv: "list[str]"
    program: str
    env: "dict[str, str]"
    doors: "list[str]"
    sources: "list[str] | None"
    staging: str
    limits: "list[tuple[int, int, int]]"
    user: int | None
    parent: int
    ruleset: bytes
    rules: "list[tuple[str, int]]"
    ports: "list[int]"
    network: bool
    filter: bytes
    cwd: str
    status: int
    pass_status: bool
    kill: bool

    def __init__(self, descriptor: int) -> None:
        with os.fdopen(descriptor, "rb") as file:
            self.__dict__.update(marshal.load(file))


def _confine(plan: _Plan) -> None:
    _enter(plan.doors)
    if plan.sources is not None:
        _stage(plan.staging, plan.sources)
    if plan.network:
        _network(private=os.geteuid() != 0)
    _limit(plan.limits)
    ruleset = _ruleset(plan.ruleset, plan.rules, plan.ports) if plan.ruleset else None
    if plan.user is not None:
        _become(plan.user)
    _die_with(plan.parent)
    # A bubblewrap that is installed set-user-id needs that privilege; it sets this bit itself.
    if plan.user is not None or ruleset is not None:
        _check(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    if ruleset is not None:
        _check(_libc.syscall(_SYS_LANDLOCK_RESTRICT_SELF, ruleset, 0), "landlock_restrict_self")
        os.close(ruleset)
    if plan.filter:
        _filter(plan.filter)
    os.chdir(plan.cwd)


def _reset_signals() -> None:
    """Python ignores some, nohup and shells others, and the command would go on doing so. By the system call: the
    library keeps two of them for itself."""
    default = bytes(32)  # struct sigaction: SIG_DFL, no flags, an empty mask
    call = _SYS_SIGACTION.get(os.uname().machine)
    for number in range(1, _SIGNALS):
        if call is None:
            _libc.signal(number, None)
        else:
            _libc.syscall(call, number, default, None, ctypes.c_size_t(8))


def _execute(plan: _Plan) -> OSError:
    """Returns only when there is no such program. ``os.execvpe`` would import modules that are out of reach by now."""
    program = plan.program or plan.argv[0]
    problem = OSError(2, os.strerror(2), program)
    folders = [""] if "/" in program else plan.env.get("PATH", "").split(":")
    for folder in folders:
        try:
            os.execve(os.path.join(folder, program), plan.argv, plan.env)
        except OSError as error:
            if not isinstance(error, FileNotFoundError):
                problem = error
    return problem


def main() -> None:
    plan = _Plan(int(sys.argv[1]))
    try:
        _confine(plan)
    except OSError as error:
        os.write(plan.status, f"failed {error}\n".encode(errors="replace"))
        sys.exit(1)
    if plan.kill:
        os.kill(-1, _KILL)  # everything that this user may signal; the caller itself is left out
        sys.exit(0)
    _reset_signals()
    os.set_inheritable(plan.status, plan.pass_status)
    os.write(plan.status, f"missing {_execute(plan)}\n".encode(errors="replace"))
    sys.exit(127)


if __name__ == "__main__":
    main()
