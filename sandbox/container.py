"""For plain containers, where bubblewrap can't start: weaker, and it says so.

A user of its own, Landlock for paths and ports, a system call filter, resource limits and an empty environment. What is
missing against namespaces: other processes' command lines can be read, paths appear where they really are, there is no
network at all (not even loopback), and the temporary folder is bounded by file, not as a whole.

With ``egress`` a command may make TCP sockets and connect to one port, which is our proxy's on this machine's loopback;
whatever has the same port on another machine is not kept from it. Before Landlock 4 no port can be closed, which
``Isolation.leaks`` says.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePosixPath

from sandbox import cgroup, confined, inside, landlock, launch, machine, ownership, places, seccomp, supervise
from sandbox.errors import SandboxBroken, SandboxUnavailable
from sandbox.output import Output
from sandbox.types import Cancelled, Command, End, Finished, Isolation, Limits, Mount
from sandbox.users import RANGE, LeasedUser, kill_all, processes_of, reap
from sandbox.ways import OverLoopback

_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_HOME = "graftsmith-home-"
_HOMES = Path("/tmp")  # noqa: S108 - made with a name that can't be guessed, for one user
_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - semaphores live there; what is left behind is removed
_LOST = "no own process list, paths or loopback network"


class ContainerFallback:
    """See :class:`sandbox.types.Sandbox`. Safe for several threads at once, but runs one command at a time, since all
    that its user runs is killed at the end of each. Of those that mount something one at a time runs on the machine:
    the places where that is seen are everybody's.

    A mount whose target is not its source becomes a link for the time of the command, so nothing may be at that place,
    but for an empty folder in another mount.

    Args:
        reason: why there is nothing better.
        groups: use control groups where they can be made; without them memory is watched from here.

    Raises:
        SandboxUnavailable: not root, or the kernel lacks Landlock.
    """

    def __init__(self, reason: str, *, groups: bool = True) -> None:
        self._landlock = landlock.version()
        _require(os.geteuid() == 0, "only root can run commands as another user")
        _require(self._landlock > 0, "this kernel has no Landlock")
        _require(seccomp.supported(), "no system call filter is known for this processor")
        self._place = cgroup.find() if groups else None
        self._user = LeasedUser()
        self._one_at_a_time = threading.Lock()
        _sweep()
        limits = str(self._place) if self._place else "resource limits and a watch on memory"
        self.isolation = Isolation(
            "container-fallback",
            degraded=True,
            detail=f"degraded: user {self.user}, Landlock {self._landlock}, system call filter, limits by {limits}; "
            f"{_LOST}. Why: {reason}",
            leaks=not landlock.keeps_ports(self._landlock),
            hides=False,
        )
        self._try_out()

    def run(self, command: Command, *, cancelled: Cancelled | None = None, log: Path | None = None) -> Finished:
        way = OverLoopback()
        begin = partial(self._begun, way)
        with self._one_at_a_time, places.turn(cancelled) if command.mounts else nullcontext(True) as has_come:
            if not has_come:
                return Finished(End.CANCELLED, None, None, b"", 0, 0.0)
            return confined.run(command, begin, way, place=self._place, cancelled=cancelled, log=log)

    def own(self, path: Path) -> None:
        ownership.give(path, self.user)

    def reclaim(self, path: Path) -> None:
        ownership.take_back(path, self.user)

    def closed(self, path: Path) -> Path | None:
        return inside.closed(path, mounted=False)

    @property
    def user(self) -> int:
        """The numeric user of this machine that commands run as."""
        return self._user.uid

    @contextmanager
    def _begun(
        self, way: OverLoopback, command: Command, status: launch.Status, doors: tuple[str, ...]
    ) -> Iterator[confined.Begun]:
        port = way.port if command.egress else None
        with (
            self._home() as home,
            self._views(command.mounts, home),
            self._start(command, home, port, status, doors) as child,
        ):
            yield confined.Begun(
                child,
                members=lambda: processes_of(self.user),
                end=self._end_all,
                code=lambda returncode, _: _code(returncode, status),
                writable=(home, *command.writable),
            )

    @staticmethod
    def _views(mounts: tuple[Mount, ...], home: Path) -> AbstractContextManager[None]:
        inside.check_reachable(mounts)
        return places.views(replace(mount, target=_below(mount.target, home)) for mount in mounts)

    def _start(
        self, command: Command, home: Path, port: int | None, status: launch.Status, doors: tuple[str, ...]
    ) -> subprocess.Popen[bytes]:
        folders = {"HOME": str(home), "TMPDIR": str(home / "tmp")}
        plan = launch.Plan(
            argv=command.argv,
            env={**inside.BASE_ENV, **folders, **{name: _below(value, home) for name, value in command.env.items()}},
            doors=doors,
            limits=tuple(launch.resource_limits(command.limits)),
            user=self.user,
            ruleset=landlock.ruleset(self._landlock),
            rules=tuple(self._rules(command, home)),
            ports=() if port is None or self.isolation.leaks else (port,),
            filter=seccomp.lone_filter(tcp=port is not None),
            cwd=command.cwd,
        )
        with launch.Handover(status) as handover:
            return launch.start(plan, handover, stdin=command.stdin)

    def _rules(self, command: Command, home: Path) -> Iterator[tuple[str, int]]:
        """(path, rights), nothing but what bubblewrap would show."""
        known = landlock.all_rights(self._landlock)
        for path in inside.system_paths():
            yield path, landlock.READ & known
        for name in _DEVICES:
            yield f"/dev/{name}", landlock.DEVICE & known
        for path in ("/proc", "/dev/fd"):
            yield path, landlock.READ & known
        for folder in (_SHARED_MEMORY, home):
            yield str(folder), landlock.write_rights(self._landlock)
        for mount in command.mounts:
            rights = landlock.write_rights(self._landlock) if mount.writable else landlock.READ & known
            yield str(mount.source), rights

    def _end_all(self) -> None:
        """One signal to all of the user's processes at once: a fork bomb can't run ahead of it."""
        if processes_of(self.user):
            with launch.Status() as status, launch.Handover(status) as handover:
                plan = launch.Plan(argv=(), env={}, user=self.user, kill=True)
                with launch.start(plan, handover, stdin=b"") as child:
                    supervise.watch(child, {child.stdout: Output(0)}, 10, lambda: None, gentle=False)
        kill_all(self.user)
        reap(self.user)

    @contextmanager
    def _home(self) -> Iterator[Path]:
        """A home for one command, with a temporary folder; gone afterwards, like what it left in shared memory."""
        home = Path(tempfile.mkdtemp(prefix=f"{_HOME}{os.getpid()}-", dir=_HOMES))
        try:
            (home / "tmp").mkdir()
            self.own(home)
            yield home
        finally:
            self._remove(home)
            for left in _SHARED_MEMORY.glob("*"):
                self._remove(left)

    def _remove(self, left: Path) -> None:
        with suppress(FileNotFoundError):  # of others, who remove theirs at the same time
            if left.lstat().st_uid == self.user:
                self.reclaim(left)
                ownership.remove(left)

    def _try_out(self) -> None:
        try:
            result = self.run(Command(("true",), cwd="/", limits=Limits(wall_s=30)))
        except SandboxBroken as error:
            raise _unavailable(error.why) from error
        _require(result.ok, f"`true` ended with {result}")


def _sweep() -> None:
    """Remove the homes of commands whose owner was killed."""
    for left in _HOMES.glob(f"{_HOME}*"):
        owner = left.name.removeprefix(_HOME).partition("-")[0]
        if owner.isdigit() and not Path("/proc", owner).exists():
            with suppress(FileNotFoundError):
                if left.lstat().st_uid in RANGE:  # anybody can make a folder of this name
                    ownership.remove(left)


def _code(returncode: int, status: launch.Status) -> int:
    if status.failed:
        raise SandboxBroken("The sandbox did not start", why=status.failed)
    return returncode


def _below(path: str, home: Path) -> str:
    """A path in the usual home, seen in this command's home."""
    usual = PurePosixPath(inside.HOME)
    if path == inside.HOME or path.startswith(f"{inside.HOME}/"):
        return str(home / PurePosixPath(path).relative_to(usual))
    return path


def _require(condition: bool, why: str) -> None:
    if not condition:
        raise _unavailable(why)


def _unavailable(why: str) -> SandboxUnavailable:
    todo = machine.how_to_install("bubblewrap")
    return SandboxUnavailable("Nothing isolates commands on this machine", why=why, todo=todo)
