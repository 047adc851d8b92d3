"""What the tests need besides the checkout: interpreters, installed dependencies, generated files.

Either the user's own, seen read-only, or one that was installed in the sandbox with a network and without a secret.
Installed ones are kept by content and read-only ever after; what is half-made never has its final name.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Final

from agent.errors import GraftsmithError, UserError
from agent.events import Events
from agent.verify.registries import ALLOW, Registries
from agent.verify.toolchains import TOOLCHAINS
from agent.verify.toolchains.base import ENVIRONMENT, Step, TestPlan, shell
from agent.workspace import Checkout, Workspace
from sandbox import remove_tree
from sandbox.egress.policy import Destination, Egress, Refusal
from sandbox.text import clean
from sandbox.toolchain import mounts_for
from sandbox.types import Cancelled, Command, Finished, Limits, Mount, Sandbox

_FORMAT: Final = 1
_SKIPPED: Final = frozenset({"__pycache__", ".pytest_cache", ".mypy_cache", ".git", ".ruff_cache"})
_MOUNT_LIMIT: Final = 256
_ABANDONED_S: Final = 24 * 3600

COMMON: Final[Mapping[str, str]] = {"CI": "true", "TERM": "dumb"}
"""Of every command: watchers and prompts stay away where they see these and a closed standard input."""


class SetupFailed(UserError):
    """The target's dependencies could not be installed."""


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


@dataclass(frozen=True)
class Installer:
    """Makes the environment of one plan on one base tree."""

    workspace: Workspace
    sandbox: Sandbox
    plan: TestPlan
    machine: Machine
    events: Events
    limits: Limits
    cancelled: Cancelled | None = None

    def find(self) -> Environment:
        """The user's own environment where the tests can start in it, else an installed one.

        Raises:
            SetupFailed: a step without which no test can start went wrong.
        """
        tools = self._tools()
        if self.workspace.spec.origin and self._starts(tools):
            return replace(tools, source="yours")
        steps = self._steps()
        if not steps:
            return tools
        return self._installed(tools, steps)

    def _tools(self) -> Environment:
        """The machine's interpreters: of the user's shell for a local run, of this process otherwise."""
        origin = self.workspace.spec.origin
        words = " ".join((*TOOLCHAINS[self.plan.toolchain].PROGRAMS, self.plan.line if origin else ""))
        mounts, env = mounts_for(words, self.machine.path, Path(origin) if origin else None)
        return Environment(mounts, env)

    def _steps(self) -> tuple[Step, ...]:
        own = TOOLCHAINS[self.plan.toolchain].prepare(self.workspace.base)
        if not self.plan.setup:
            return own
        # A virtual environment first, so that `pip install` in the configured lines has a place to write to.
        made = tuple(step for step in own[:1] if step.argv[1:3] == ("-m", "venv"))
        return (*made, *(Step(shell(line)) for line in self.plan.setup))

    def _starts(self, tools: Environment) -> bool:
        with self.workspace.checkout(self.workspace.base.draft(), "probe") as checkout:
            probe = TOOLCHAINS[self.plan.toolchain].probe(self.plan)
            return self._run(probe, checkout, tools, replace(self.limits, wall_s=60.0)).ok

    # ── installed ones ──

    def _installed(self, tools: Environment, steps: Sequence[Step]) -> Environment:
        own = TOOLCHAINS[self.plan.toolchain].INSTALLED
        store = Path(self.workspace.spec.cache_dir) / "environments"
        store.mkdir(parents=True, exist_ok=True, mode=0o711)
        with self.workspace.checkout(self.workspace.base.draft(), "setup") as checkout:
            program = TOOLCHAINS[self.plan.toolchain].PROGRAMS[0]
            version = self._run((program, "--version"), checkout, tools, self.limits).output
            place = store / self._key(steps, version)
            if not (place / "done.json").is_file():
                self._install(tools, steps, checkout, place)
                return _use(tools, place, self.workspace.spec.view, "installed", own)
        return _use(tools, place, self.workspace.spec.view, "cached", own)

    def _key(self, steps: Sequence[Step], version: bytes) -> str:
        facts = [
            _FORMAT,
            self.machine.repository,
            self.workspace.base.tree_id,
            self.workspace.spec.view,
            [(step.argv, sorted(step.env.items())) for step in steps],
            version.decode("utf-8", "replace"),
        ]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:32]

    def _install(self, tools: Environment, steps: Sequence[Step], checkout: Checkout, place: Path) -> None:
        _sweep(place.parent)
        making = Path(tempfile.mkdtemp(prefix=".making-", dir=place.parent))
        try:
            making.chmod(0o755)
            folder = making / "environment"
            folder.mkdir()
            tracked = frozenset(self.workspace.base.paths())
            before = frozenset(_untracked(checkout.path, tracked))  # of a local run: the user's own, carried anyway
            notes = self._run_steps(tools, steps, checkout, folder)
            made = [path for path in _untracked(checkout.path, tracked) if path not in before]
            carried = _carry(checkout.path, making / "carried", made)
            record = {"notes": notes, "carried": carried}
            (making / "done.json").write_text(json.dumps(record), encoding="utf-8")
            _put_in_place(making, place)
        finally:
            shutil.rmtree(making, ignore_errors=True)

    def _run_steps(
        self, tools: Environment, steps: Sequence[Step], checkout: Checkout, folder: Path
    ) -> tuple[str, ...]:
        registries = self.machine.registries
        inside = Environment(
            mounts=(*tools.mounts, *registries.mounts, Mount(folder, ENVIRONMENT, writable=True)),
            env={
                **tools.env,
                **registries.env,
                **TOOLCHAINS[self.plan.toolchain].INSTALLED,
                "PATH": _path(tools),
            },
        )
        notes = [
            f"package registry setting left out: {name}, because {why}" for name, why in registries.left_out.items()
        ]
        if self.sandbox.isolation.leaks:
            notes.append("the set-up was not kept from this machine's network: its kernel has no Landlock 4")
        self.sandbox.own(folder)
        try:
            for step in steps:
                finished = self._run(step.argv, checkout, inside, self.limits, egress=registries.egress, env=step.env)
                notes += map(_refused, finished.refused)
                if not finished.ok:
                    if step.required:
                        raise _failed(step, finished)
                    notes.append(f"set-up step failed: {_spoken(step)} ({_ending(finished)})")
        finally:
            self.sandbox.reclaim(folder)
            self.sandbox.reclaim(checkout.path)
        return tuple(dict.fromkeys(notes))

    def _run(
        self,
        argv: tuple[str, ...],
        checkout: Checkout,
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
            mounts=(*checkout.mounts, *tools.mounts),
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
        return finished


def _use(tools: Environment, place: Path, view: str, source: str, installed: Mapping[str, str]) -> Environment:
    record = json.loads((place / "done.json").read_text(encoding="utf-8"))
    carried = tuple(Mount(place / "carried" / path, f"{view}/{path}") for path in record["carried"])
    return Environment(
        mounts=(*tools.mounts, Mount(place / "environment", ENVIRONMENT), *carried),
        env={**tools.env, **installed, "PATH": _path(tools)},
        source=source,
        notes=tuple(record["notes"]),
    )


def _path(tools: Environment) -> str:
    return f"{ENVIRONMENT}/bin:{tools.env.get('PATH', '/usr/local/bin:/usr/bin:/bin')}"


def _sweep(store: Path) -> None:
    """Remove what killed runs left half-made; a set-up that still goes on is younger than this."""
    for path in store.glob(".making-*"):
        if time.time() - path.stat().st_mtime > _ABANDONED_S:
            remove_tree(path)


def _put_in_place(making: Path, place: Path) -> None:
    try:
        making.rename(place)
    except OSError:
        if not (place / "done.json").is_file():  # else another run was first, and its result is as good
            raise


def _carry(checkout: Path, target: Path, made: Sequence[str]) -> Sequence[str]:
    """Move what the set-up made in the checkout (``node_modules``, built extensions, version files) to ``target``."""
    if len(made) > _MOUNT_LIMIT:
        raise SetupFailed(
            f"The set-up left {len(made)} new files and folders in the checkout",
            why=f"At most {_MOUNT_LIMIT} can be carried to the test runs",
            todo="Let the set-up write them into fewer folders",
        )
    for path in made:
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.move(checkout / path, target / path)
    return made


def _untracked(checkout: Path, tracked: frozenset[str]) -> list[str]:
    """The topmost paths that hold nothing tracked, so that each can become one mount."""
    folders = {str(parent) for path in tracked for parent in PurePosixPath(path).parents}
    return list(_walk(checkout, "", tracked, folders))


def _walk(checkout: Path, below: str, tracked: frozenset[str], folders: set[str]) -> Iterator[str]:
    with os.scandir(checkout / below) as entries:
        for entry in sorted(entries, key=lambda e: e.name):
            path = f"{below}/{entry.name}" if below else entry.name
            if entry.name in _SKIPPED or path in tracked or entry.is_symlink():
                continue
            if entry.is_dir(follow_symlinks=False) and path in folders:
                yield from _walk(checkout, path, tracked, folders)
            else:
                yield path


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
    return f"exit code {finished.exit_code}" if finished.exit_code is not None else finished.end.value
