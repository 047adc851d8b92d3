"""Runs a command in namespaces of its own through bubblewrap: the isolation of choice.

Inside there is a read-only system, the mounts that the command names, and nothing else of this machine: no home, no
other process, no socket, and without ``network`` no network. Nothing of our environment goes in: bubblewrap itself
starts with an empty one, because the sandboxed process can read it in ``/proc/1/environ``.
"""

from __future__ import annotations

import json
import marshal
import os
import resource
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sandbox import cgroup, inside, ownership, process
from sandbox.errors import SandboxBroken, SandboxUnavailable
from sandbox.memory import memory_of_tree
from sandbox.output import Output
from sandbox.text import clean
from sandbox.types import Cancelled, Command, End, Finished, Isolation, Limits, OnOutput
from sandbox.users import LeasedUser, threads_of

_STAGING = "/tmp"  # noqa: S108 - hidden by a file system of our own, in a mount namespace of our own
_LAUNCHER = str(Path(__file__).with_name("launcher.py"))
_OWN_PROCESSES = 8  # bubblewrap's two and a margin, counted for the same user


@dataclass(frozen=True)
class _Program:
    """The bubblewrap of this machine and which options it knows."""

    path: str
    version: str
    knows: frozenset[str]

    @classmethod
    def find(cls) -> _Program:
        path = shutil.which("bwrap", path=process.DEFAULT_PATH)
        if path is None:
            raise SandboxUnavailable("bubblewrap is not installed", todo="Install the package bubblewrap")
        words = process.run([path, "--help"]).output.decode("ascii", "replace").split()
        version = process.run([path, "--version"]).output.decode("ascii", "replace").split()[-1:]
        return cls(path, "".join(version), frozenset(word for word in words if word.startswith("--")))


class Bubblewrap:
    """See :class:`sandbox.types.Sandbox`. Safe for several threads at once.

    As root, commands run as a numeric user of their own; else as the user that we are, in a user namespace.

    Raises:
        SandboxUnavailable: bubblewrap is missing or can't start here.
    """

    def __init__(self) -> None:
        self._program = _Program.find()
        self._place = cgroup.find()
        self._user = LeasedUser() if os.geteuid() == 0 else None
        self._try_out()
        self.isolation = Isolation("bubblewrap", degraded=False, detail=self._describe())

    def run(
        self,
        command: Command,
        *,
        on_output: OnOutput | None = None,
        cancelled: Cancelled | None = None,
        log: Path | None = None,
    ) -> Finished:
        with ExitStack() as stack:
            sink = stack.enter_context(log.open("wb")) if log else None
            group = stack.enter_context(cgroup.Group(self._place, command.limits)) if self._place else None
            status = stack.enter_context(_Status())
            child = stack.enter_context(self._start(command, group, status))
            output = Output(command.limits.output_bytes, sink, command.limits.log_bytes)
            ending = process.supervise(
                child,
                {child.stdout: output},
                wall_s=command.limits.wall_s,
                stop=_stop(child.pid, command.limits, cancelled, counted=group is not None),
                on_output=on_output,
                gentle=False,
            )
            status.read()
            out_of_memory = group is not None and group.out_of_memory()
            return _judge(command, ending, output, status, out_of_memory, log)

    def own(self, path: Path) -> None:
        if self._user is not None:
            ownership.give(path, self._user.uid)

    def reclaim(self, path: Path) -> None:
        ownership.take_back(path, self._uid)

    @property
    def _uid(self) -> int | None:
        return self._user.uid if self._user else None

    def _start(self, command: Command, group: cgroup.Group | None, status: _Status) -> subprocess.Popen[bytes]:
        with ExitStack() as closing:
            passed = [status.write_end]
            closing.callback(status.started)

            def hand_over(data: bytes) -> int:
                fd = process.memory_file(data)
                closing.callback(os.close, fd)
                passed.append(fd)
                return fd

            mounts = inside.by_depth(command.mounts)
            sources = [f"{_STAGING}/{number}" if self._user else str(m.source) for number, m in enumerate(mounts)]
            options = inside.namespaces(self._program.knows, network=command.network)
            options += inside.system(command.limits, self._program.knows, hand_over, network=command.network)
            for source, mount in zip(sources, mounts, strict=True):
                options += ["--bind" if mount.writable else "--ro-bind", source, mount.target]
            options += inside.closing(command.cwd, command.env)
            options += ["--json-status-fd", str(status.write_end)]
            argv = [self._program.path, "--args", str(hand_over(_arguments(options))), "--", *command.argv]
            plan: Any = (
                group.doors if group else (),
                list(_resource_limits(command.limits, alone=self._user is not None)),
                _STAGING,
                [str(mount.source) for mount in mounts],
                self._uid,
                argv,
            )
            launcher = [sys.executable, "-I", "-S", "-E", _LAUNCHER, str(hand_over(marshal.dumps(plan)))]
            return process.spawn(launcher, env={}, stdin=command.stdin, pass_fds=passed)

    def _try_out(self) -> None:
        try:
            result = self.run(Command(("true",), cwd="/", limits=Limits(wall_s=30)))
        except SandboxBroken as error:
            todo = "Allow unprivileged user namespaces (outside of a container), or see `graftsmith doctor`"
            raise SandboxUnavailable("bubblewrap can't start here", why=error.why, todo=todo) from error
        if not result.ok:
            raise SandboxUnavailable("bubblewrap does not work here", why=f"`true` ended with {result}")

    def _describe(self) -> str:
        user = f"user {self._uid}" if self._user else "our own user in a user namespace"
        limits = str(self._place) if self._place else "resource limits and a watch on memory"
        return f"bubblewrap {self._program.version}, {user}, limits by {limits}"


class _Status:
    """What bubblewrap tells on its own about a command, apart from the command's output."""

    def __init__(self) -> None:
        self._read_end, self.write_end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self.child: int | None = None
        self.exit_code: int | None = None

    def __enter__(self) -> _Status:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._read_end)
        self.started()

    def started(self) -> None:
        """Bubblewrap has its copy of the pipe: close ours."""
        if self.write_end >= 0:
            os.close(self.write_end)
            self.write_end = -1

    def read(self) -> None:
        """Take in what was written; then make sure that nothing inside is alive."""
        with suppress(BlockingIOError):
            for line in os.read(self._read_end, 65536).splitlines():
                self._take(json.loads(line))
        if self.child is not None:
            _end_namespace(self.child)

    def _take(self, fact: dict[str, Any]) -> None:
        self.child = fact.get("child-pid", self.child)
        self.exit_code = fact.get("exit-code", self.exit_code)


def _end_namespace(first: int) -> None:
    """Kill the first process of a process namespace and wait for it: the kernel lets it go as the last one inside."""
    try:
        fd = os.pidfd_open(first)
    except ProcessLookupError:
        return
    try:
        ids = _line(Path("/proc", str(first), "status"), "NSpid:").split()
        if len(ids) > 1 and ids[-1] == "1":  # else the number has been given to some other process
            signal.pidfd_send_signal(fd, signal.SIGKILL)
            select.select([fd], [], [], 10)
    except ProcessLookupError:
        return
    finally:
        os.close(fd)


def _line(path: Path, key: str) -> str:
    with suppress(OSError):
        for line in path.read_text().splitlines():
            if line.startswith(key):
                return line.removeprefix(key)
    return ""


def _stop(pid: int, limits: Limits, cancelled: Cancelled | None, *, counted: bool) -> process.Stop:
    """When to end a command early; the memory is watched here where no control group counts it."""
    by_caller = process.stop_when(cancelled)
    if counted or limits.memory_bytes is None:
        return by_caller
    bound = limits.memory_bytes
    return lambda: by_caller() or (End.OUT_OF_MEMORY if memory_of_tree(pid) > bound else None)


def _judge(
    command: Command, ending: process.Ending, output: Output, status: _Status, out_of_memory: bool, log: Path | None
) -> Finished:
    if ending.forced:
        return process.finished(ending, output, log=log)
    if out_of_memory and status.exit_code != 0:
        return process.finished(replace(ending, forced=End.OUT_OF_MEMORY), output, log=log)
    if status.exit_code is None and status.child is not None and _is_missing(command.argv[0], output):
        return process.finished(replace(ending, returncode=127), output, log=log)
    if status.exit_code is None:
        raise SandboxBroken(
            "The sandbox did not start",
            why=clean(output.kept(), 2000).strip() or f"bubblewrap ended with {ending.returncode} and said nothing",
        )
    return process.finished(_as_told(ending, status.exit_code), output, log=log)


def _is_missing(program: str, output: Output) -> bool:
    return output.kept().startswith(b"bwrap: execvp " + os.fsencode(program) + b": ")


def _as_told(ending: process.Ending, code: int) -> process.Ending:
    """Bubblewrap, like a shell, reports a signal as 128 + its number."""
    if code - 128 == signal.SIGXCPU:
        return replace(ending, forced=End.TIMED_OUT)
    if code - 128 in signal.valid_signals():
        return replace(ending, returncode=128 - code)
    return replace(ending, returncode=code)


def _arguments(options: list[str]) -> bytes:
    """Options on a file descriptor, so that the paths of this machine can't be read in ``/proc/1/cmdline``."""
    for option in options:
        if "\0" in option:
            raise ValueError(f"a NUL character in {option!r} would end the option")
    return b"".join(os.fsencode(option) + b"\0" for option in options)


def _resource_limits(limits: Limits, *, alone: bool) -> Iterator[tuple[int, int, int]]:
    """(resource, soft, hard) of each process. ``alone``: nothing else runs as this user."""
    yield resource.RLIMIT_CORE, 0, 0
    most_files = min(4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    yield resource.RLIMIT_NOFILE, most_files, most_files
    if limits.file_bytes is not None:
        yield resource.RLIMIT_FSIZE, limits.file_bytes, limits.file_bytes
    if limits.cpu_s is not None:  # the soft limit's signal can be told from other deaths, the hard one's can't
        yield resource.RLIMIT_CPU, limits.cpu_s, limits.cpu_s + 5
    if limits.pids is not None:
        bound = limits.pids + _OWN_PROCESSES + (0 if alone else threads_of(os.geteuid()))
        yield resource.RLIMIT_NPROC, bound, bound
