"""What a set-up brings, in layers: each is kept for all runs that it suits, and begins with a copy of the one below.

=============  ========================================  =============================================================
layer          made of                                   shared by
=============  ========================================  =============================================================
bare           the steps that depend on this machine     every repository
               alone (``Step.bare``)
dependencies   the steps that say which files they read  the trees of one repository in which these files are the same
               (``Step.reads``)
tree           all steps                                 runs on the same tree
=============  ========================================  =============================================================

The two below are made where none but those files are, so that nothing else can have had an influence, neither by
accident nor because a proposed change wants to leave something behind for later ones. What remains to be done for a
tree, such as the installation of the project itself, is done without a network where that is enough (``Step.offline``).
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from agent.disk import Root
from agent.listing import listed
from agent.tree import BaseTree, Draft
from agent.verify.compiled import native, telling
from agent.verify.environment import Environment, Machine
from agent.verify.set_up import SetUp
from agent.verify.store import Place, SetupFailed, Store, carry, copy, untracked
from agent.verify.toolchains.base import Step
from agent.workspace import Checkout, Workspace
from sandbox import remove_tree
from sandbox.text import clean
from sandbox.types import Mount

_FORMAT: Final = 3
_FRESH_S: Final = 7 * 24 * 3600
"""So long dependencies that nothing pins stay as they are, though new releases come."""
_SAID: Final = 20_000
"""Characters of what the last command printed that are kept."""
_NAMED: Final = 5


@dataclass(frozen=True)
class Layer:
    """One that trees share."""

    key: str
    steps: tuple[Step, ...]
    """Its own and those of the layers below."""
    names: tuple[str, ...] = ()
    """The files of the repository that are there."""


@dataclass(frozen=True)
class Layers:
    """Those of one base tree.

    Args:
        program: its version has an influence on all that is installed.
    """

    workspace: Workspace
    set_up: SetUp
    machine: Machine
    store: Store
    program: str

    def installed(self, tools: Environment, steps: Sequence[Step], checkout: Checkout) -> Environment:
        """``tools`` with what ``steps`` bring.

        Args:
            checkout: of the base, as fresh as on the first day; what the steps leave there is the caller's to remove.

        Raises:
            SetupFailed: a required step went wrong.
        """
        facts = self._facts(tools, checkout)
        key = self._key(facts, self.workspace.base.tree_id, steps)
        place, is_new = self.store.find(key), False
        if place is None:
            below, is_new = self._shared(tools, tuple(self._layers(facts, steps)))
            fitting = self._fitting(below)
            if fitting is not None and fitting.record["steps"] == len(steps):
                place = fitting
            else:
                place, is_new = self._of_tree(tools, steps, checkout, fitting, key, self.workspace.base), True
        return tools.with_installed(place, self.workspace.spec.view, "installed" if is_new else "cached")

    def rebuilt(
        self, tools: Environment, steps: Sequence[Step], checkout: Checkout, draft: Draft
    ) -> Environment | None:
        """What ``installed`` gave for the base, made of ``draft`` in its place, without a network.

        Args:
            checkout: of ``draft``; what the steps leave there is the caller's to remove.

        Returns:
            ``None`` where the base could not be made without a network, or the same is compiled of both.

        Raises:
            SetupFailed: the draft does not compile.
        """
        facts = self._facts(tools, checkout)
        base = self.store.find(self._key(facts, self.workspace.base.tree_id, steps))
        if base is None or not base.record.get("alone"):
            return None
        offline = tuple(_without_network(step) for step in steps)
        key = self._key(facts, draft.tree_id(), offline)
        place = self.store.find(key)
        if place is None:
            below, _ = self._shared(tools, tuple(self._layers(facts, steps)))
            place = self._of_tree(tools, offline, checkout, self._fitting(below), key, draft)
        theirs, ours = (native((one.environment, one.carried)) for one in (base, place))
        if lost := sorted(theirs.keys() - ours.keys()):
            raise SetupFailed(
                f"The change does not compile: {listed(lost, _NAMED)} can't be built any more",
                why=telling(place.record["said"]),
                todo="Repair what the compiler says",
            )
        return None if ours == theirs else tools.with_installed(place, self.workspace.spec.view, "installed")

    def _facts(self, tools: Environment, checkout: Checkout) -> tuple[object, ...]:
        """Of this machine, what has an influence on each set-up."""
        version = self.set_up.run((self.program, "--version"), checkout.mounts, tools).output
        return (
            [*os.uname()[:1], os.uname().machine, version.decode("utf-8", "replace")],
            [str(mount.source) for mount in tools.mounts],
            sorted(tools.env.items()),
        )

    def _key(self, facts: tuple[object, ...], read: object, steps: Sequence[Step], *more: object) -> str:
        """Names what ``steps`` bring to this repository, where they can read ``read``."""
        settings = sorted(self.machine.registries.settings.items())
        own = (self.machine.repository, self.workspace.spec.view, settings)
        return _key(*own, *facts, read, [_fact(step) for step in steps], *more)

    def _layers(self, facts: tuple[object, ...], steps: Sequence[Step]) -> Iterator[Layer]:
        """Those that trees share, the lowest first."""
        steps = tuple(itertools.takewhile(lambda step: step.reads is not None, steps))
        alone = bare(steps)
        if alone:
            yield Layer(_key("bare", *facts, [_fact(step) for step in alone]), alone)
        if len(alone) < len(steps):
            entries = self.workspace.base.entries
            names = tuple(sorted({path for step in steps for path in step.reads or () if path in entries}))
            read = [(path, entries[path].mode, entries[path].blob) for path in names]
            yield Layer(self._key(facts, read, steps, int(time.time() // _FRESH_S)), steps, names)

    def _shared(self, tools: Environment, layers: Sequence[Layer]) -> tuple[Place | None, bool]:
        """The uppermost of ``layers``, and whether it was made just now; ``None`` where there is nothing to share."""
        if not layers:
            return None, False
        *lower, layer = layers
        found = self.store.find(layer.key)
        if found is not None:
            return found, False
        below, _ = self._shared(tools, lower)
        return self._apart(tools, layer, below), True

    def _apart(self, tools: Environment, layer: Layer, below: Place | None) -> Place | None:
        """Make ``layer`` where nothing else of the repository is."""
        base = self.workspace.base
        with self.store.making() as making:
            before = self._begun(making, below)
            project = making.path / "project"
            project.mkdir()
            with Root(project) as root:
                for path in layer.names:
                    root.create(path, base.content(path), 0o755 if base.entries[path].mode == "100755" else 0o644)
            self.set_up.sandbox.own(project)
            there = Mount(project, self.workspace.spec.view, writable=True)
            rest = layer.steps[before:]
            made = self.set_up.steps(rest, tools, there, (), making.environment, patient=False)
            # One that fails may need more of the repository, and is left to each tree with all that come after it.
            done = before + (rest.index(made.failed[0].step) if made.failed else len(rest))
            if not done or any(one.fatal for one in made.failed):
                return None
            carried = carry(project, making.carried, untracked(project, frozenset(layer.names)))
            remove_tree(project)
            return self.store.keep(making, layer.key, {"notes": made.notes, "carried": carried, "steps": done})

    def _of_tree(
        self,
        tools: Environment,
        steps: Sequence[Step],
        checkout: Checkout,
        below: Place | None,
        key: str,
        tree: BaseTree | Draft,
    ) -> Place:
        """Make the uppermost layer: all steps on the whole tree, or those that remain on a copy of ``below``."""
        tracked = frozenset(tree.paths())
        before = frozenset(untracked(checkout.path, tracked))  # of a local run: the user's own, carried anyway
        told = below.record["notes"] if below else ()
        if below is not None and below.record["carried"]:
            below = None  # to copy into a checkout of strangers is to follow their links
        with self.store.making() as making:
            rest = [step for step in steps[self._begun(making, below) :] if not step.ahead]
            project, *over = checkout.mounts
            done = self.set_up.steps(rest, tools, project, tuple(over), making.environment, patient=True)
            for one in done.failed:
                if one.fatal:
                    raise one.error
            made = [path for path in untracked(checkout.path, tracked) if path not in before]
            record = {
                "notes": list(dict.fromkeys((*told, *done.notes, *map(str, done.failed)))),
                "carried": carry(checkout.path, making.carried, made),
                "alone": done.alone and not done.failed,
                "said": clean(done.output, _SAID),
            }
            return self.store.keep(making, key, record)

    def _begun(self, making: Place, below: Place | None) -> int:
        """Make the environment's folder: a copy of ``below``, and never a link, because what comes next may write
        anywhere. Returns how many steps that saves."""
        if below is None:
            making.environment.mkdir()
            return 0
        started = time.monotonic()
        copy(below.environment, making.environment)
        self.set_up.events.emit("note", text="dependencies copied", seconds=round(time.monotonic() - started, 3))
        return int(below.record["steps"])

    def _fitting(self, shared: Place | None) -> Place | None:
        """It, where nothing of this tree is at a place of what was made, and would be hidden by it."""
        tracked = self.workspace.base.paths()
        made = shared.record["carried"] if shared else ()
        hides = any(path in tracked or any(t.startswith(f"{path}/") for t in tracked) for path in made)
        return None if hides else shared


def bare(steps: Sequence[Step]) -> tuple[Step, ...]:
    """The first of them, as far as they depend on this machine alone."""
    return tuple(itertools.takewhile(lambda step: step.bare, steps))


def _without_network(step: Step) -> Step:
    env = {**step.env, "PIP_VERBOSE": "2"}  # against `--quiet`: what the compiler says
    return replace(step, argv=step.offline or step.argv, offline=(), network=False, env=env)


def _key(*facts: object) -> str:
    return hashlib.sha256(json.dumps((_FORMAT, *facts)).encode()).hexdigest()[:32]


def _fact(step: Step) -> object:
    return step.argv, sorted(step.env.items()), step.offline
