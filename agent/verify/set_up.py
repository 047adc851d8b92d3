"""Runs the commands of a set-up: in the sandbox, with a way to the package registries and without a secret."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from agent.disk import check_room
from agent.errors import GraftsmithError
from agent.events import Events
from agent.verify.environment import COMMON, Environment
from agent.verify.registries import ALLOW, Registries
from agent.verify.store import SetupFailed
from agent.verify.toolchains.base import ENVIRONMENT, Step
from agent.workspace import Workspace
from sandbox.egress.policy import Destination, Egress, Refusal
from sandbox.text import clean
from sandbox.types import Cancelled, Command, End, Finished, Limits, Mount, Sandbox

_LAST_CHARS: Final = 300
"""Of the last line that a command printed, which mostly says why it failed."""


@dataclass(frozen=True)
class Failed:
    """A step that went wrong."""

    step: Step
    finished: Finished

    def __str__(self) -> str:
        last = clean(self.finished.output, _LAST_CHARS).strip().splitlines()[-1:]
        return ": ".join((f"set-up step failed: {self._said}", *last))

    @property
    def fatal(self) -> bool:
        """What the steps made is of no use, to this run or another one."""
        return self.step.required or self.finished.end is End.CANCELLED

    @property
    def error(self) -> GraftsmithError:
        """Where nothing can be tested without the step."""
        told = clean(self.finished.output, 1_500).strip()
        return SetupFailed(
            f"The set-up command failed: {self._said}",
            why="\n".join((told, *map(_told, self.finished.refused[:5]))).strip(),
            todo="Give the commands that set the project up in its configuration",
        )

    @property
    def _said(self) -> str:
        argv = self.step.argv
        spoken = argv[2] if argv[:2] == ("/bin/sh", "-c") else " ".join(argv)
        return f"{spoken} ({_ending(self.finished)})"


@dataclass(frozen=True)
class Done:
    """What came of the steps of a set-up."""

    failed: tuple[Failed, ...] = ()
    notes: tuple[str, ...] = ()
    """What a reader should know."""
    alone: bool = True
    """No step had a way to a network."""
    output: bytes = b""
    """Of the last command."""


@dataclass(frozen=True)
class SetUp:
    """Runs commands for one workspace, and tells the events of each."""

    workspace: Workspace
    sandbox: Sandbox
    registries: Registries
    events: Events
    limits: Limits
    cancelled: Cancelled | None

    def steps(
        self,
        steps: Sequence[Step],
        tools: Environment,
        project: Mount,
        more: tuple[Mount, ...],
        folder: Path,
        *,
        patient: bool,
    ) -> Done:
        """Run the steps, one after the other.

        Args:
            project: what they see of the repository, with ``more`` on top of it.
            folder: what they install, seen at ``ENVIRONMENT``.
            patient: goes on after a step that failed and is not fatal.
        """
        inside = replace(
            tools,
            mounts=(*tools.mounts, *self.registries.mounts, Mount(folder, ENVIRONMENT, writable=True)),
            env={**tools.env, **self.registries.env, "PATH": tools.leading_there()["PATH"]},
        )
        mounts = (project, *more)
        notes = list(self._reservations()) if any(step.network for step in steps) else []
        failed: list[Failed] = []
        alone, output = True, b""
        self.sandbox.own(folder)
        try:
            for step in steps:
                if step.offline:
                    finished = self.run(step.offline, mounts, inside, env=step.env)
                    output = finished.output
                    if finished.ok:
                        continue
                egress = self.registries.egress if step.network else None
                finished = self.run(step.argv, mounts, inside, egress=egress, env=step.env)
                alone, output = alone and not step.network, finished.output
                notes += map(_told, finished.refused)
                if not finished.ok:
                    failed.append(Failed(step, finished))
                    if failed[-1].fatal or not patient:
                        break
        finally:
            self.sandbox.reclaim(folder)
            self.sandbox.reclaim(project.source)
        return Done(tuple(failed), tuple(dict.fromkeys(notes)), alone, output)

    def run(
        self,
        argv: tuple[str, ...],
        mounts: tuple[Mount, ...],
        tools: Environment,
        *,
        limits: Limits | None = None,
        egress: Egress | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Finished:
        """One command on the mounted files."""
        command = Command(
            argv,
            cwd=self.workspace.spec.view,
            env={**COMMON, **tools.env, **(env or {})},
            mounts=(*mounts, *tools.mounts),
            egress=egress,
            limits=limits or self.limits,
        )
        finished = self.sandbox.run(command, cancelled=self.cancelled)
        self.events.emit(
            "note",
            text="set-up command",
            argv=argv,
            end=finished.end,
            exit_code=finished.exit_code,
            seconds=round(finished.seconds, 3),
            output=clean(finished.output, 2_000),
            refused=[str(refusal) for refusal in finished.refused],
        )
        if not finished.ok:
            check_room(Path(self.workspace.spec.work_dir))
            check_room(Path(self.workspace.spec.cache_dir))
        return finished

    def _reservations(self) -> Iterator[str]:
        """What a reader should know of the way to the registries."""
        for name, why in self.registries.left_out.items():
            yield f"registry setting left out: {name}, because {why}"
        if self.sandbox.isolation.leaks:
            yield "the set-up was not kept from this machine's network: its kernel has no Landlock 4"


def _told(refusal: Refusal) -> str:
    place = Destination(refusal.host, refusal.port)
    return f"the set-up may not reach {place}: {refusal.why}. To allow it, set {ALLOW}={place}"


def _ending(finished: Finished) -> str:
    if finished.exit_code is not None:
        return f"exit code {finished.exit_code}"
    return _STOPPED.get(finished.end, finished.end.value)


_STOPPED: Final[Mapping[End, str]] = {
    End.TIMED_OUT: "it did not end in time",
    End.HUNG: "it hung",
    End.OUT_OF_MEMORY: "it used more memory than allowed",
    End.OUT_OF_ROOM: "it left too little room on the disk",
    End.CANCELLED: "the run was cancelled",
}
