"""Runs a command in namespaces of its own through bubblewrap: the isolation of choice.

Inside there is a read-only system, the mounts that the command names, and nothing else of this machine: no home, no
other process, no socket, and no network but a loopback of its own. A command with ``egress`` finds the way to our proxy
there. Nothing of our environment goes in: bubblewrap itself starts with an empty one, because the sandboxed process can
read it in ``/proc/1/environ``.
"""

from __future__ import annotations

import itertools
import os
import select
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from sandbox import cgroup, confined, inside, launch, machine, memory, ownership, process, seccomp
from sandbox.errors import SandboxBroken, SandboxUnavailable
from sandbox.output import Output
from sandbox.text import clean
from sandbox.types import Cancelled, Command, Finished, Isolation, Limits, Mount
from sandbox.users import LeasedUser, threads_of
from sandbox.ways import ThroughDoor


class Bubblewrap:
    """See :class:`sandbox.types.Sandbox`. Safe for several threads at once.

    As root, commands run as a numeric user of their own; else as the user that we are, in a user namespace. A root that
    may not mount, as in a container with namespaces allowed, can show that user only what it could reach by itself.

    Args:
        groups: use control groups where they can be made; without them memory is watched from here.

    Raises:
        SandboxUnavailable: bubblewrap is missing or can't start here.
    """

    def __init__(self, *, groups: bool = True) -> None:
        program = _Program.find()
        _sweep()
        self._place = cgroup.find() if groups else None
        self._user = LeasedUser() if os.geteuid() == 0 else None
        # Some machines allow namespaces, but not to switch them off inside; some allow them to all but to root, and
        # some to bubblewrap alone, whose own network is the plainer one.
        programs = (program, program.without("--disable-userns"))
        *ways, last = itertools.product((True, False), (True, False) if self._user else (False,), programs)
        for self._network, self._stages, self._program in ways:
            with suppress(SandboxUnavailable):
                self._try_out()
                break
        else:
            self._network, self._stages, self._program = last
            self._try_out()
        self.isolation = Isolation("bubblewrap", degraded=False, detail=self._describe())

    def run(self, command: Command, *, cancelled: Cancelled | None = None, log: Path | None = None) -> Finished:
        way = ThroughDoor()
        begin = partial(self._begun, way)
        return confined.run(command, begin, way, place=self._place, cancelled=cancelled, log=log)

    def own(self, path: Path) -> None:
        if self._user is not None:
            ownership.give(path, self._user.uid)

    def reclaim(self, path: Path) -> None:
        ownership.take_back(path, self.user)

    def closed(self, path: Path) -> Path | None:
        return inside.closed(path, mounted=self._stages) if self._user else None

    @property
    def user(self) -> int | None:
        """The numeric user of this machine that commands run as; ``None``: ours."""
        return self._user.uid if self._user else None

    @contextmanager
    def _begun(
        self, way: ThroughDoor, command: Command, status: launch.Status, doors: tuple[str, ...]
    ) -> Iterator[confined.Begun]:
        with self._start(way, command, status, doors) as child:
            yield confined.Begun(
                child,
                members=lambda: memory.tree(child.pid),
                end=lambda: _end_namespace(status),
                code=lambda returncode, output: _code(command.argv[0], returncode, output, status),
                writable=command.writable,
            )

    def _start(
        self, way: ThroughDoor, command: Command, status: launch.Status, doors: tuple[str, ...]
    ) -> subprocess.Popen[bytes]:
        with launch.Handover(status) as handover:
            if command.egress:
                handover.lend(way.inside)
            mounts = inside.by_depth(command.mounts)
            if self._user and not self._stages:
                inside.check_reachable(mounts)
            plan = launch.Plan(
                program=self._program.path,
                argv=(f"{_mark()}{os.getpid()}", *self._options(command, mounts, handover), "--", *command.argv),
                env={},
                doors=doors,
                sources=tuple(str(mount.source) for mount in mounts) if self._stages else None,
                limits=tuple(launch.resource_limits(command.limits, others=self._other_threads)),
                network=self._network,
                user=self.user,
                pass_status=True,
            )
            return launch.start(plan, handover, stdin=command.stdin)

    def _options(self, command: Command, mounts: Sequence[Mount], handover: launch.Handover) -> tuple[str, ...]:
        """How bubblewrap finds its options, which are handed over."""
        knows = self._program.knows
        options = inside.namespaces(knows, network=not self._network)
        options += inside.system(command.limits, knows, handover.add)
        for number, mount in enumerate(mounts):
            source = launch.staged(number) if self._stages else str(mount.source)
            options += ["--bind" if mount.writable else "--ro-bind", source, mount.target]
        for folder in command.scratch:
            options += inside.empty(folder, "0755", command.limits, knows)
        options += inside.closing(command.cwd, command.env)
        options += ["--json-status-fd", str(handover.status)]
        if seccomp.supported():
            options += ["--seccomp", str(handover.add(seccomp.kernel_filter()))]
        return "--args", str(handover.add(_arguments(options)))

    def _other_threads(self) -> int:
        return 0 if self._user else threads_of(os.geteuid())

    def _try_out(self) -> None:
        try:
            result = self.run(Command(("true",), cwd="/", limits=Limits(wall_s=30)))
        except SandboxBroken as error:
            advice = machine.namespaces_advice()
            raise SandboxUnavailable("bubblewrap can't start here", why=error.why, todo=advice) from error
        if not result.ok:
            raise SandboxUnavailable("bubblewrap does not work here", why=f"`true` ended with {result}")

    def _describe(self) -> str:
        user = f"user {self.user}" if self._user else "our own user in a user namespace"
        limits = str(self._place) if self._place else "resource limits and a watch on memory"
        return f"bubblewrap {self._program.version}, {user}, limits by {limits}"


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
            raise SandboxUnavailable("bubblewrap is not installed", todo=machine.how_to_install("bubblewrap"))
        words = process.run([path, "--help"]).output.decode("ascii", "replace").split()
        version = process.run([path, "--version"]).output.decode("ascii", "replace").split()[-1:]
        return cls(path, "".join(version), frozenset(word for word in words if word.startswith("--")))

    def without(self, option: str) -> _Program:
        return replace(self, knows=self.knows - {option})


def _mark() -> str:
    """With our process id the name under which bubblewrap runs. Numbers of processes mean something in one namespace
    only, and a machine sees the processes of its containers too."""
    return f"graftsmith-{Path('/proc/self/ns/pid').stat().st_ino}-"


def _sweep() -> None:
    """Kill sandboxes whose owner is gone.

    The first process inside binds its life to bubblewrap's a moment after the command has started. An owner that was
    killed in this moment leaves a sandbox behind that nobody watches.
    """
    mark = _mark()
    for found in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            name = found.read_bytes().split(b"\0", 1)[0].decode(errors="replace")
            owner = name.removeprefix(mark)
            if name.startswith(mark) and owner.isdigit() and not Path("/proc", owner).exists():
                os.kill(int(found.parent.name), signal.SIGKILL)


def _end_namespace(status: launch.Status) -> None:
    """Kill the first process of the namespace and wait for it: the kernel lets it go as the last one inside.

    Bubblewrap's own death does the first part, but a moment later, and a moment is enough to change a file.
    """
    status.read()
    if status.child is None:
        return
    try:
        fd = os.pidfd_open(status.child)
    except ProcessLookupError:
        return
    try:
        ids = _line(Path("/proc", str(status.child), "status"), "NSpid:").split()
        if len(ids) > 1 and ids[-1] == "1":  # else the number has been given to some other process
            signal.pidfd_send_signal(fd, signal.SIGKILL)
            select.select([fd], [], [], 10)
    except ProcessLookupError:
        return
    finally:
        os.close(fd)


def _line(path: Path, key: str) -> str:
    return next((line.removeprefix(key) for line in machine.text_of(path).splitlines() if line.startswith(key)), "")


def _code(program: str, returncode: int, output: Output, status: launch.Status) -> int:
    """The command's return code by bubblewrap's end: a signal comes as 128 + its number, as from a shell. 127 when only
    the program is missing."""
    code = status.exit_code
    if code is not None:
        return 128 - code if code - 128 in signal.valid_signals() else code
    said = output.kept()
    if status.child is not None and said.startswith(b"bwrap: execvp " + os.fsencode(program) + b": "):
        return 127
    if status.child is not None:
        raise SandboxBroken("The sandbox ended before its command", why=f"bubblewrap ended with {returncode}")
    why = status.failed or status.missing or clean(said, 2000).strip()
    raise SandboxBroken("The sandbox did not start", why=why or f"bubblewrap ended with {returncode} and said nothing")


def _arguments(options: list[str]) -> bytes:
    """Options as bubblewrap reads them from a file: more may be needed than fit on a command line."""
    for option in options:
        if "\0" in option:
            raise ValueError(f"a NUL character in {option!r} would end the option")
    return b"".join(os.fsencode(option) + b"\0" for option in options)
