"""One confined command, from its start to what is known of it: what every isolation has in common.

An isolation brings how a command begins, and how all that it has started ends (:class:`Begun`). What is asked while it
runs, in which order it is over, and what it then counts as is the same everywhere.
"""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from sandbox import cgroup, idle, launch, memory, room, supervise
from sandbox.egress.proxy import Proxy
from sandbox.output import Output
from sandbox.types import Cancelled, Command, End, Finished
from sandbox.ways import Way


@dataclass(frozen=True)
class Begun:
    """A command that runs, and what only its isolation knows of it."""

    child: subprocess.Popen[bytes]
    """Ends when the command does."""
    members: Callable[[], Iterable[int]]
    """Ids of all its processes."""
    end: Callable[[], None]
    """Kills whatever it has started; nothing of it is alive then. Called once more where it is over already."""
    code: Callable[[int, Output], int]
    """The command's return code, by that of ``child`` and what was printed; a signal is negative, as ``subprocess`` has
    it. Raises SandboxBroken."""
    writable: tuple[Path, ...]
    """Folders of this machine's disks that it can write to."""


Begin = Callable[[Command, launch.Status, tuple[str, ...]], AbstractContextManager[Begun]]
"""With the files of the control groups to enter."""


def run(
    command: Command,
    begin: Begin,
    way: Way,
    *,
    place: cgroup.Place | None,
    cancelled: Cancelled | None,
    log: Path | None,
) -> Finished:
    """See ``sandbox.types.Sandbox.run``.

    Args:
        begin: is left when nothing of the command is alive.
        way: is entered, and the command led to it, where it has ``egress``.
        place: where control groups can be made.
    """
    if command.unfit:
        return Finished.unstarted(command.unfit)
    began = time.monotonic()
    with ExitStack() as stack:
        sink = stack.enter_context(log.open("wb")) if log else None
        group = stack.enter_context(cgroup.Group(place, command.limits)) if place else None
        status = stack.enter_context(launch.Status())
        proxy = None
        if command.egress is not None:
            stack.enter_context(way)
            proxy = stack.enter_context(Proxy(command.egress, way.arrive))
            command = way.lead(command, command.egress)
        begun = stack.enter_context(begin(command, status, group.doors if group else ()))
        stack.callback(begun.end)  # also where something goes wrong from here on
        stack.callback(begun.child.kill)
        output = Output.of(command.limits, sink)
        stop = _stop(command, begun, group, output, cancelled)
        ending = supervise.watch(begun.child, {begun.child.stdout: output}, command.limits.wall_s, stop, gentle=False)
        begun.end()
        status.read()
        ended = supervise.finished(_judge(ending, begun, group, output), output, log=log)
        return replace(ended, seconds=time.monotonic() - began, refused=proxy.refused if proxy else ())


def _stop(
    command: Command, begun: Begun, group: cgroup.Group | None, output: Output, cancelled: Cancelled | None
) -> supervise.Stop:
    limits = command.limits
    too_much = group.out_of_memory if group else memory.watch(limits, begun.members)
    full = room.watch(limits, begun.writable)
    hung = idle.watch(limits, begun.members, lambda: output.total)
    return supervise.stop_when(cancelled, {End.OUT_OF_MEMORY: too_much, End.OUT_OF_ROOM: full, End.HUNG: hung})


def _judge(ending: supervise.Ending, begun: Begun, group: cgroup.Group | None, output: Output) -> supervise.Ending:
    """The command's ending, by that of the process that was started for it."""
    if ending.forced:
        return ending
    if ending.returncode != 0 and group is not None and group.out_of_memory():
        return replace(ending, forced=End.OUT_OF_MEMORY)
    code = begun.code(ending.returncode, output)
    return replace(ending, returncode=code, forced=End.TIMED_OUT if code == -signal.SIGXCPU else None)
