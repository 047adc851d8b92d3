"""Finds what the tests need: the user's own environment, seen read-only, or one that is installed without a secret."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from agent.verify.dated import dated
from agent.verify.environment import Environment, Machine
from agent.verify.layers import Layers, bare
from agent.verify.set_up import SetUp
from agent.verify.store import Store
from agent.verify.toolchains import TOOLCHAINS, build_of, setup_line
from agent.verify.toolchains.base import BUILD, Step, TestPlan, shell
from agent.workspace import Checkout, Workspace
from sandbox.toolchain import mounts_for

_PROBE_S: Final = 60.0


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
        leading = replace(tools, env={**tools.env, **self._toolchain.INSTALLED})
        return self._layers.installed(leading, steps, self._checkout())

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
