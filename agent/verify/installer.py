"""Finds what the tests need: the user's own environment, seen read-only, or one that is installed without a secret."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from agent.tree import Draft
from agent.verify import astray
from agent.verify.compiled import to_build
from agent.verify.dated import dated
from agent.verify.environment import Environment, Machine
from agent.verify.layers import Layers, bare
from agent.verify.set_up import SetUp
from agent.verify.store import SetupFailed, Store
from agent.verify.toolchains import TOOLCHAINS, build_of, setup_line
from agent.verify.toolchains.base import BUILD, Step, TestPlan, shell
from agent.workspace import Checkout, Workspace
from sandbox.text import clean
from sandbox.toolchain import mounts_for

_PROBE_S: Final = 60.0
_PLACE_CHARS: Final = 400


class Installer:
    """Makes the environment of one plan on one base tree.

    Args:
        checkout: of the base, as fresh as on the first day; what a set-up leaves there is the caller's to remove.
    """

    def __init__(
        self,
        workspace: Workspace,
        checkout: Callable[[], Checkout],
        plan: TestPlan,
        machine: Machine,
        set_up: SetUp,
        store: Store,
    ) -> None:
        self._workspace = workspace
        self._checkout = checkout
        self._plan = plan
        self._toolchain = TOOLCHAINS[plan.toolchain]
        self._machine = machine
        self._set_up = set_up
        self._built: dict[str, Environment | SetupFailed | None] = {}
        self._layers = Layers(workspace, set_up, machine, store, self._toolchain.PROGRAMS[0])

    def find(self, *, own: bool = True) -> Environment:
        """The user's own environment where the tests can start in it, else an installed one.

        Args:
            own: whether the user's may be taken.

        Raises:
            SetupFailed: a step without which no test can start went wrong.
        """
        tools, build = self._tools(), self._build()
        if own and not self._plan.before and self._workspace.spec.origin and self._starts(tools):
            built = self._layers.installed(tools, build, self._checkout()) if build else tools
            return replace(built, source="yours", id="")
        steps = (*self._steps(), *build)
        if not steps:
            return tools
        return self._layers.installed(self._leading(tools), steps, self._checkout())

    def astray(self, environment: Environment) -> str:
        """Where the tests would import the project from in the user's own ``environment``, if from another place than
        the checkout; empty else."""
        names = astray.packages(self._plan.line, self._workspace.base) if "python3" in self._toolchain.PROGRAMS else ()
        if not names or environment.source != "yours":
            return ""
        limits, look = replace(self._set_up.limits, wall_s=_PROBE_S), astray.look(self._plan.line, names)
        found = self._set_up.run(look, self._checkout().mounts, environment, limits=limits)
        return clean(found.output, _PLACE_CHARS).strip().partition("\n")[0] if found.ok else ""

    def rebuilt(self, draft: Draft, checkout: Callable[[Draft], Checkout]) -> Environment | None:
        """What ``find`` installed, with what is compiled made of ``draft``; ``None`` where that brings nothing else.

        Args:
            checkout: makes one that no run has touched; what a build leaves there is the caller's to remove.

        Raises:
            SetupFailed: ``draft`` does not compile.
        """
        sources = to_build(self._plan.line, draft)
        if sources is None:
            return None
        tree = sources.tree_id()
        if tree not in self._built:
            tools, steps = self._leading(self._tools()), (*self._steps(), *self._build())
            try:
                self._built[tree] = self._layers.rebuilt(tools, steps, checkout(sources), sources)
            except SetupFailed as error:
                self._built[tree] = error
        found = self._built[tree]
        if isinstance(found, SetupFailed):
            raise found
        return found

    def _leading(self, tools: Environment) -> Environment:
        return replace(tools, env={**tools.env, **self._toolchain.INSTALLED})

    def _tools(self) -> Environment:
        """The machine's interpreters: of the user's shell for a local run, of this process otherwise."""
        origin = self._workspace.spec.origin
        words = " ".join((*self._toolchain.PROGRAMS, self._plan.line if origin else ""))
        mounts, env = mounts_for(words, self._machine.path, Path(origin) if origin else None)
        hidden = {mount: closed for mount in mounts if (closed := self._set_up.sandbox.closed(mount.source))}
        own = {shutil.which(program, path=env["PATH"]) or "" for program in words.split()}
        notes = (
            f"The tests can't use {mount.source}: {closed} is closed to the user that they run as"
            for mount, closed in hidden.items()
            if any(Path(program).is_relative_to(mount.target) for program in own)
        )
        return Environment(tuple(mount for mount in mounts if mount not in hidden), env, notes=tuple(notes))

    def _steps(self) -> tuple[Step, ...]:
        own = self._toolchain.prepare(self._workspace.base)
        if not self._plan.setup:
            return dated(own, self._plan.before)
        made = bare(own)  # so that `pip install` in the configured lines has a place to write to
        lines = (setup_line.steps(line, self._workspace.base) for line in self._plan.setup)
        return dated((*made, *itertools.chain.from_iterable(lines)), self._plan.before)

    def _build(self) -> tuple[Step, ...]:
        """What a compiler does with the base. Whether that builds is for the tests to tell."""
        build = build_of(self._plan)
        if build is None:
            return ()
        line = shell(f"({build.line}) || true")
        return (Step(line, {**build.env, build.variable: BUILD}, required=False, network=False),)

    def _starts(self, tools: Environment) -> bool:
        limits = replace(self._set_up.limits, wall_s=_PROBE_S)
        return self._set_up.run(self._toolchain.probe(self._plan), self._checkout().mounts, tools, limits=limits).ok
