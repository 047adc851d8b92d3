"""System call filters as programs of the kernel's packet filter.

Source: the kernel's ``userspace-api/seccomp_filter``; numbers from ``asm/unistd_64.h`` and ``asm-generic/unistd.h``.
"""

from __future__ import annotations

import errno
import platform
import struct
from collections.abc import Iterable

_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_COLUMNS = {"x86_64": 0, "aarch64": 1}
_NUMBERS = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "bpf": (321, 280),
    "chroot": (161, 51),
    "clock_settime": (227, 112),
    "clone": (56, 220),
    "clone3": (435, 435),
    "connect": (42, 203),
    "delete_module": (176, 106),
    "fanotify_init": (300, 262),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "init_module": (175, 105),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "ioctl": (16, 29),
    "kcmp": (312, 272),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "mq_open": (240, 180),
    "msgget": (68, 186),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "perf_event_open": (298, 241),
    "pidfd_getfd": (438, 438),
    "pivot_root": (155, 41),
    "process_madvise": (440, 440),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "semget": (64, 190),
    "sendmmsg": (307, 269),
    "sendmsg": (46, 211),
    "sendto": (44, 206),
    "setdomainname": (171, 162),
    "sethostname": (170, 161),
    "setns": (308, 268),
    "settimeofday": (164, 170),
    "shmget": (29, 194),
    "socket": (41, 198),
    "socketpair": (53, 199),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
    "vhangup": (153, 58),
}
# No test needs these, and most holes of the kernel that a sandbox could be left through were found behind them.
_KERNEL = (
    *("acct", "add_key", "bpf", "clock_settime", "delete_module", "fanotify_init", "finit_module", "fsconfig"),
    *("fsmount", "fsopen", "fspick", "init_module", "kexec_file_load", "kexec_load", "keyctl", "mount"),
    *("mount_setattr", "move_mount", "open_by_handle_at", "open_tree", "perf_event_open", "pivot_root", "quotactl"),
    *("quotactl_fd", "reboot", "request_key", "setdomainname", "sethostname", "setns", "settimeofday", "swapoff"),
    *("swapon", "syslog", "umount2", "unshare", "userfaultfd", "vhangup"),
)
# Programs fall back when told that these are not there. Of clone3 a filter can't see the flags.
_ABSENT = ("clone3", "io_uring_enter", "io_uring_register", "io_uring_setup")
# Where no namespace hides other processes and the machine's shared memory segments.
_OTHERS = (
    *("chroot", "kcmp", "mq_open", "msgget", "pidfd_getfd", "process_madvise", "process_vm_readv", "process_vm_writev"),
    *("ptrace", "semget", "shmget"),
)
_NEW_NAMESPACES = 0x7E020080
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C  # type characters into a terminal
_STREAM_KINDS = (1, 5)  # SOCK_STREAM, SOCK_SEQPACKET: on a datagram socket each message may name another receiver
_KIND_MASK = 0xF
_INTERNET = (2, 10)  # AF_INET, AF_INET6
_TCP_PROTOCOLS = (0, 6)
_SENDING = {"sendto": 3, "sendmsg": 2, "sendmmsg": 3}  # where the flags are
_FAST_OPEN = 0x20000000

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_ALLOW, _KILL, _ERROR = 0x7FFF0000, 0x80000000, 0x00050000
_NUMBER, _ARCHITECTURE, _X32_BIT = 0, 4, 0x40000000

Instruction = tuple[int, int, int, int]


def supported() -> bool:
    """Whether the numbers of this machine's system calls are known here."""
    return platform.machine() in _ARCHITECTURES


def kernel_filter() -> bytes:
    """Beside namespaces: keep away from the parts of the kernel that no test needs, new namespaces among them."""
    return _assemble(_closed_to_all())


def lone_filter(*, tcp: bool) -> bytes:
    """Without namespaces: also no look at other processes, and no socket but a connected pair and, with ``tcp``, one of
    TCP itself, for that is the only kind whose ports Landlock can close."""
    rules = [*_closed_to_all(), *_refuse(_OTHERS, errno.EPERM)]
    rules += _only_if("socketpair", [_argument(1), (_AND, 0, 0, _KIND_MASK), *_unless(_STREAM_KINDS)])
    if not tcp:
        return _assemble([*rules, *_refuse(("socket", "connect"), errno.EACCES)])
    checks = [_argument(0), *_unless(_INTERNET), _argument(1), (_AND, 0, 0, _KIND_MASK), *_unless(_STREAM_KINDS[:1])]
    rules += _only_if("socket", [*checks, _argument(2), *_unless(_TCP_PROTOCOLS)])
    for name, flags in _SENDING.items():  # sending may connect, and is not asked where to
        rules += _only_if(name, [_argument(flags), (_ANY_BIT, 0, 1, _FAST_OPEN), _error(errno.EACCES)])
    return _assemble(rules)


def _unless(values: tuple[int, ...]) -> list[Instruction]:
    """Refuse what is none of ``values``."""
    equal = [(_EQUAL, len(values) - place, 0, value) for place, value in enumerate(values)]
    return [*equal, _error(errno.EACCES)]


def _assemble(rules: Iterable[Instruction]) -> bytes:
    machine = platform.machine()
    program: list[Instruction] = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, _ARCHITECTURES[machine]),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
    ]
    if machine == "x86_64":  # the same calls under a second set of numbers
        program += [(_AT_LEAST, 0, 1, _X32_BIT), _error(errno.ENOSYS)]
    program += [*rules, (_RETURN, 0, 0, _ALLOW)]
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)


def _closed_to_all() -> list[Instruction]:
    rules = [*_refuse(_KERNEL, errno.EPERM), *_refuse(_ABSENT, errno.ENOSYS)]
    rules += _only_if(
        "ioctl", [_argument(1), (_EQUAL, 1, 0, _TIOCSTI), (_EQUAL, 0, 1, _TIOCLINUX), _error(errno.EPERM)]
    )
    rules += _only_if("clone", [_argument(0), (_ANY_BIT, 0, 1, _NEW_NAMESPACES), _error(errno.EPERM)])
    return rules


def _refuse(names: Iterable[str], number: int) -> Iterable[Instruction]:
    for name in names:
        yield from ((_EQUAL, 0, 1, _call(name)), _error(number))


def _only_if(name: str, then: list[Instruction]) -> list[Instruction]:
    """Run ``then`` for one call; it refuses, or falls through to allowing."""
    return [(_EQUAL, 0, len(then) + 1, _call(name)), *then, (_RETURN, 0, 0, _ALLOW)]


def _argument(number: int) -> Instruction:
    """Load the low half of an argument; both architectures are little-endian."""
    return (_LOAD, 0, 0, 16 + 8 * number)


def _error(number: int) -> Instruction:
    return (_RETURN, 0, 0, _ERROR | number)


def _call(name: str) -> int:
    return _NUMBERS[name][_COLUMNS[platform.machine()]]
