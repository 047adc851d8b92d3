"""What the tests need besides the checkout: interpreters, installed dependencies, generated files.

Either the user's own, seen read-only, or one that was installed in the sandbox without a secret and kept for every run
on the same tree.

Between trees only *dependencies* are shared: what comes of the first steps of a set-up, those that say which files they
read (``Step.reads``). They run where none but these files are, so that nothing else can have had an influence, neither
by accident nor because a proposed change wants to leave something behind for later ones. The steps that remain, such
as the installation of the project itself, are done on a copy for each tree; without a network where that is enough.
Those before them all that depend on this machine alone (``Step.bare``) are done once for every repository.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from agent.disk import Root, check_room
from agent.errors import GraftsmithError
from agent.events import Events
from agent.types import SuiteStatus, TestOutcome, TestRun
from agent.verify.dated import dated
from agent.verify.registries import ALLOW, Registries
from agent.verify.store import Place, SetupFailed, Store, carry, copy, untracked
from agent.verify.toolchains import TOOLCHAINS, build_of, setup_line
from agent.verify.toolchains.base import BUILD, ENVIRONMENT, NODE, VENV, Step, TestPlan, shell
from agent.workspace import Checkout, Workspace
from sandbox import remove_tree
from sandbox.egress.policy import Destination, Egress, Refusal
from sandbox.text import clean
from sandbox.toolchain import mounts_for
from sandbox.types import Cancelled, Command, End, Finished, Limits, Mount, Sandbox

_FORMAT: Final = 3
_LAST_CHARS: Final = 300
"""Of the last line that a command printed, which mostly says why it failed."""
_FRESH_S: Final = 7 * 24 * 3600
"""So long dependencies that nothing pins stay as they are, though new releases come."""

COMMON: Final[Mapping[str, str]] = {"CI": "true", "TERM": "dumb"}
"""Of every command: watchers and prompts stay away where they see these and a closed standard input."""


@dataclass(frozen=True)
class Machine:
    """Facts of this machine that the caller reads, since nothing here looks at the environment."""

    path: str
    """Its ``PATH``: where programs of the user are looked for."""
    registries: Registries = field(default_factory=Registries)
    repository: str = "local"
    """A stable key of the repository: environments are never shared between two of them."""


@dataclass(frozen=True)
class Environment:
    """Added to each command that runs the target's code."""

    mounts: tuple[Mount, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    source: str = "none"
    """``yours``, ``installed``, ``cached`` or ``none``."""
    notes: tuple[str, ...] = ()
    id: str = ""
    """Names what is installed, byte for byte; empty where somebody else may change it."""


@dataclass(frozen=True)
class Installer:
    """Makes the environment of one plan on one base tree.

    Args:
        checkout: of the base, as fresh as on the first day; what a set-up leaves there is the caller's to remove.
    """

    workspace: Workspace
    checkout: Callable[[], Checkout]
    sandbox: Sandbox
    plan: TestPlan
    machine: Machine
    events: Events
    limits: Limits
    store: Store
    cancelled: Cancelled | None = None

    def find(self, *, own: bool = True) -> Environment:
        """The user's own environment where the tests can start in it, else an installed one.

        Args:
            own: whether the user's may be taken.

        Raises:
            SetupFailed: a step without which no test can start went wrong.
        """
        tools, build = self._tools(), self._build()
        if own and not self.plan.before and self.workspace.spec.origin and self._starts(tools):
            built = self._installed(tools, build) if build else tools
            return replace(built, source="yours", id="")
        steps = (*self._steps(), *build)
        if not steps:
            return tools
        return self._installed(replace(tools, env={**tools.env, **TOOLCHAINS[self.plan.toolchain].INSTALLED}), steps)

    def _tools(self) -> Environment:
        """The machine's interpreters: of the user's shell for a local run, of this process otherwise."""
        origin = self.workspace.spec.origin
        words = " ".join((*TOOLCHAINS[self.plan.toolchain].PROGRAMS, self.plan.line if origin else ""))
        mounts, env = mounts_for(words, self.machine.path, Path(origin) if origin else None)
        hidden = {mount: closed for mount in mounts if (closed := self.sandbox.closed(mount.source))}
        own = {shutil.which(program, path=env["PATH"]) or "" for program in words.split()}
        notes = (
            f"The tests can't use {mount.source}: {closed} is closed to the user that they run as"
            for mount, closed in hidden.items()
            if any(Path(program).is_relative_to(mount.target) for program in own)
        )
        return Environment(tuple(mount for mount in mounts if mount not in hidden), env, notes=tuple(notes))

    def _steps(self) -> tuple[Step, ...]:
        own = TOOLCHAINS[self.plan.toolchain].prepare(self.workspace.base)
        if not self.plan.setup:
            return dated(own, self.plan.before)
        made = _bare(own)  # so that `pip install` in the configured lines has a place to write to
        lines = (setup_line.steps(line, self.workspace.base) for line in self.plan.setup)
        return dated((*made, *itertools.chain.from_iterable(lines)), self.plan.before)

    def _build(self) -> tuple[Step, ...]:
        """What a compiler does with the base. Whether that builds is for the tests to tell."""
        build = build_of(self.plan)
        if build is None:
            return ()
        line = shell(f"({build.line}) || true")
        return (Step(line, {**build.env, build.variable: BUILD}, required=False, network=False),)

    def _starts(self, tools: Environment) -> bool:
        probe = TOOLCHAINS[self.plan.toolchain].probe(self.plan)
        return self._run(probe, self.checkout().mounts, tools, replace(self.limits, wall_s=60.0)).ok

    # ── installed ones ──

    def _installed(self, tools: Environment, steps: Sequence[Step]) -> Environment:
        checkout = self.checkout()
        machine = self._facts(tools, checkout)
        key = self._key(machine, self.workspace.base.tree_id, steps)
        place = self.store.find(key)
        if place is not None:
            return self._use(tools, place, "cached")
        dependencies, is_new = self._dependencies(tools, machine, steps)
        if dependencies is not None and dependencies.record["steps"] == len(steps):
            return self._use(tools, dependencies, "installed" if is_new else "cached")
        place = self._install(tools, steps, checkout, dependencies, key)
        return self._use(tools, place, "installed")

    def _facts(self, tools: Environment, checkout: Checkout) -> tuple[object, ...]:
        """Of this machine, what has an influence on each set-up."""
        program = TOOLCHAINS[self.plan.toolchain].PROGRAMS[0]
        version = self._run((program, "--version"), checkout.mounts, tools, self.limits).output
        return (
            [*os.uname()[:1], os.uname().machine, version.decode("utf-8", "replace")],
            [str(mount.source) for mount in tools.mounts],
            sorted(tools.env.items()),
        )

    def _key(self, machine: tuple[object, ...], read: object, steps: Sequence[Step], *more: object) -> str:
        """Names what ``steps`` bring to this repository, where they can read ``read``."""
        settings = sorted(self.machine.registries.settings.items())
        own = (self.machine.repository, self.workspace.spec.view, settings)
        return _key(*own, *machine, read, [_fact(step) for step in steps], *more)

    def _dependencies(
        self, tools: Environment, machine: tuple[object, ...], steps: Sequence[Step]
    ) -> tuple[Place | None, bool]:
        """What the first steps bring, and whether it was made just now; ``None`` where there is nothing to share."""
        steps = tuple(itertools.takewhile(lambda step: step.reads is not None, steps))
        bare = _bare(steps)
        found, is_new = self._shared(tools, _key("bare", *machine, [_fact(step) for step in bare]), bare)
        if len(bare) < len(steps):
            base = self.workspace.base
            named = sorted({path for step in steps for path in step.reads or () if path in base.entries})
            read = [(path, base.entries[path].mode, base.entries[path].blob) for path in named]
            key = self._key(machine, read, steps, int(time.time() // _FRESH_S))
            found, is_new = self._shared(tools, key, steps, named, found)
        return self._if_it_fits(found), is_new

    def _shared(
        self,
        tools: Environment,
        key: str,
        steps: Sequence[Step],
        named: Sequence[str] = (),
        below: Place | None = None,
    ) -> tuple[Place | None, bool]:
        """What ``steps`` bring where of the repository there are only the files ``named``, and whether it was made just
        now.

        Args:
            below: what the first of them have brought.
        """
        found = self.store.find(key) if steps else None
        if found is not None or not steps:
            return found, False
        base = self.workspace.base
        with self.store.making() as making:
            before = self._begun(making, below)
            project = making.path / "project"
            project.mkdir()
            with Root(project) as root:
                for path in named:
                    root.create(path, base.content(path), 0o755 if base.entries[path].mode == "100755" else 0o644)
            self.sandbox.own(project)
            mounts = (Mount(project, self.workspace.spec.view, writable=True),)
            rest = steps[before:]
            failed, notes = self._run_steps(tools, rest, project, mounts, making.environment, patient=False)
            # One that fails may need more of the repository, and is left to each tree with all that come after it.
            done = before + (rest.index(failed[0][0]) if failed else len(rest))
            if not done or any(step.required for step, _ in failed):
                return None, True
            carried = carry(project, making.carried, untracked(project, frozenset(named)))
            remove_tree(project)
            return self.store.keep(making, key, {"notes": notes, "carried": carried, "steps": done}), True

    def _begun(self, making: Place, below: Place | None) -> int:
        """Make the environment's folder: a copy of ``below``, and never a link, because what comes next may write
        anywhere. Returns how many steps that saves."""
        if below is None:
            making.environment.mkdir()
            return 0
        started = time.monotonic()
        copy(below.environment, making.environment)
        self.events.emit("note", text="dependencies copied", seconds=round(time.monotonic() - started, 3))
        return int(below.record["steps"])

    def _if_it_fits(self, dependencies: Place | None) -> Place | None:
        """Not where something of this tree is at a place of what was made, and would be hidden by it."""
        tracked = self.workspace.base.paths()
        made = dependencies.record["carried"] if dependencies else ()
        hidden = any(path in tracked or any(t.startswith(f"{path}/") for t in tracked) for path in made)
        return None if hidden else dependencies

    def _install(
        self,
        tools: Environment,
        steps: Sequence[Step],
        checkout: Checkout,
        dependencies: Place | None,
        key: str,
    ) -> Place:
        """All steps on the whole tree, or those that remain on a copy of ``dependencies``."""
        tracked = frozenset(self.workspace.base.paths())
        before = frozenset(untracked(checkout.path, tracked))  # of a local run: the user's own, carried anyway
        if dependencies is not None and dependencies.record["carried"]:
            dependencies = None  # to copy into a checkout of strangers is to follow their links
        told = dependencies.record["notes"] if dependencies else ()
        with self.store.making() as making:
            steps = [step for step in steps[self._begun(making, dependencies) :] if not step.ahead]
            failed, notes = self._run_steps(tools, steps, checkout.path, checkout.mounts, making.environment)
            for step, finished in failed:
                if step.required:
                    raise _failed(step, finished)
                last = clean(finished.output, _LAST_CHARS).strip().splitlines()[-1:]
                notes.append(": ".join((f"set-up step failed: {_spoken(step)} ({_ending(finished)})", *last)))
            made = [path for path in untracked(checkout.path, tracked) if path not in before]
            record = {
                "notes": list(dict.fromkeys((*told, *notes))),
                "carried": carry(checkout.path, making.carried, made),
            }
            return self.store.keep(making, key, record)

    def _run_steps(
        self,
        tools: Environment,
        steps: Sequence[Step],
        project: Path,
        mounts: tuple[Mount, ...],
        folder: Path,
        *,
        patient: bool = True,
    ) -> tuple[list[tuple[Step, Finished]], list[str]]:
        """Which steps failed, and what a reader should know. Goes on after one that is not required if ``patient``."""
        registries = self.machine.registries
        inside = Environment(
            mounts=(*tools.mounts, *registries.mounts, Mount(folder, ENVIRONMENT, writable=True)),
            env={
                **tools.env,
                **registries.env,
                "PATH": _path(tools),
            },
        )
        notes = self._reservations() if any(step.network for step in steps) else []
        failed: list[tuple[Step, Finished]] = []
        self.sandbox.own(folder)
        try:
            for step in steps:
                if step.offline and self._run(step.offline, mounts, inside, self.limits, env=step.env).ok:
                    continue
                egress = registries.egress if step.network else None
                finished = self._run(step.argv, mounts, inside, self.limits, egress=egress, env=step.env)
                notes += map(_refused, finished.refused)
                if not finished.ok:
                    failed.append((step, finished))
                    if step.required or not patient:
                        break
        finally:
            self.sandbox.reclaim(folder)
            self.sandbox.reclaim(project)
        return failed, list(dict.fromkeys(notes))

    def _reservations(self) -> list[str]:
        """What a reader should know of a set-up's way to the registries."""
        left_out = self.machine.registries.left_out
        notes = [f"registry setting left out: {name}, because {why}" for name, why in left_out.items()]
        if self.sandbox.isolation.leaks:
            notes.append("the set-up was not kept from this machine's network: its kernel has no Landlock 4")
        return notes

    def _use(self, tools: Environment, place: Place, source: str) -> Environment:
        record = place.record
        view = self.workspace.spec.view
        carried = tuple(Mount(place.carried / path, f"{view}/{path}") for path in record["carried"])
        return Environment(
            mounts=(*tools.mounts, Mount(place.environment, ENVIRONMENT), *carried),
            env={**tools.env, "PATH": _path(tools)},
            source=source,
            notes=(*tools.notes, *record["notes"]),
            id=str(record.get("id", "")),
        )

    def _run(
        self,
        argv: tuple[str, ...],
        mounts: tuple[Mount, ...],
        tools: Environment,
        limits: Limits,
        *,
        egress: Egress | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Finished:
        command = Command(
            argv,
            cwd=self.workspace.spec.view,
            env={**COMMON, **tools.env, **(env or {})},
            mounts=(*mounts, *tools.mounts),
            egress=egress,
            limits=limits,
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


def lacking(run: TestRun) -> str:
    """What says that the environment has the runner and not what the project needs; empty where nothing does. That
    tests took too long or too much says nothing of it."""
    if run.status not in (SuiteStatus.FAILING, SuiteStatus.NOT_RUN, SuiteStatus.INCONSISTENT):
        return ""
    if not run.passed:
        return "No test passed" if may_lack(run) else ""
    without = sum(_WITHOUT.search(message) is not None for message in run.messages.values())
    return "More tests lacked a module than passed" if without > len(run.passed) else ""


_WITHOUT: Final = re.compile(r"ModuleNotFoundError|[Cc]annot find (?:module|package)|cannot load such file")


def may_lack(run: TestRun) -> bool:
    """Whether tests that did not pass may want something that the environment has not: none ran, one could not be set
    up or loaded, or what is missing is named."""
    ran = set(run.outcomes.values())
    return TestOutcome.FAILED not in ran or TestOutcome.ERROR in ran or any(map(_LACKS.search, run.messages.values()))


_LACKS: Final = re.compile(
    r"ModuleNotFound|ImportError|No module named|[Cc]annot find (?:module|package)|cannot load such file|LoadError"
    r"|not found|No such file|NoClassDefFound|ClassNotFound|DistributionNotFound|PackageNotFound"
)


def _key(*facts: object) -> str:
    return hashlib.sha256(json.dumps((_FORMAT, *facts)).encode()).hexdigest()[:32]


def _bare(steps: Sequence[Step]) -> tuple[Step, ...]:
    return tuple(itertools.takewhile(lambda step: step.bare, steps))


def _fact(step: Step) -> object:
    return step.argv, sorted(step.env.items()), step.offline


def _path(tools: Environment) -> str:
    return f"{VENV}/bin:{NODE}/bin:{tools.env.get('PATH', '/usr/local/bin:/usr/bin:/bin')}"


def _failed(step: Step, finished: Finished) -> GraftsmithError:
    return SetupFailed(
        f"The set-up command failed: {_spoken(step)} ({_ending(finished)})",
        why="\n".join((clean(finished.output, 1_500).strip(), *map(_refused, finished.refused[:5]))).strip(),
        todo="Give the commands that set the project up in its configuration",
    )


def _refused(refusal: Refusal) -> str:
    place = Destination(refusal.host, refusal.port)
    return f"the set-up may not reach {place}: {refusal.why}. To allow it, set {ALLOW}={place}"


def _spoken(step: Step) -> str:
    return step.argv[2] if step.argv[:2] == ("/bin/sh", "-c") else " ".join(step.argv)


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
