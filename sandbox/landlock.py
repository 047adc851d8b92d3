"""Rules of the kernel's Landlock: which paths a process may use, and whom it may reach.

Source: the kernel's ``userspace-api/landlock`` and ``linux/landlock.h``.
"""

from __future__ import annotations

import ctypes
import struct

_SYS_CREATE_RULESET = 444  # the same number on every architecture
_VERSION = 1

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
TRUNCATE, IOCTL_DEVICE = 1 << 14, 1 << 15
_MAKE_CHAR, _MAKE_BLOCK = 1 << 6, 1 << 11
READ = EXECUTE | READ_FILE | READ_DIR
DEVICE = READ_FILE | WRITE_FILE | TRUNCATE | IOCTL_DEVICE
_TCP = 0b11  # bind and connect
_SCOPES = 0b11  # abstract Unix sockets and signals: only within the domain


def version() -> int:
    """The version of Landlock in this kernel; 0: none."""
    libc = ctypes.CDLL(None, use_errno=True)
    return max(0, int(libc.syscall(_SYS_CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION)))


def all_rights(known: int) -> int:
    """Every right on files that version ``known`` can restrict."""
    bits = {0: 0, 1: 13, 2: 14, 3: 15, 4: 15}.get(known, 16)
    return (1 << bits) - 1


def write_rights(known: int) -> int:
    """All of them but making device files."""
    return all_rights(known) & ~(_MAKE_CHAR | _MAKE_BLOCK)


def keeps_ports(known: int) -> bool:
    """Whether version ``known`` can restrict the ports of TCP."""
    return known >= 4


def ruleset(known: int) -> bytes:
    """Refuse every path and, where the kernel can, every port of TCP that no rule allows, as well as abstract sockets
    of others and signals to them."""
    attributes = struct.pack("=QQQ", all_rights(known), _TCP, _SCOPES)
    return attributes[: 24 if known >= 6 else 16 if keeps_ports(known) else 8]
