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
from dataclasses import dataclass
from typing import Final

from agent.disk import Root
from agent.verify.environment import Environment, Machine
from agent.verify.set_up import SetUp
from agent.verify.store import Place, Store, carry, copy, untracked
from agent.verify.toolchains.base import Step
from agent.workspace import Checkout, Workspace
from sandbox import remove_tree
from sandbox.types import Mount

_FORMAT: Final = 3
_FRESH_S: Final = 7 * 24 * 3600
"""So long dependencies that nothing pins stay as they are, though new releases come."""


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
            fitting = below if below is not None and self._fits(below) else None
            if fitting is not None and fitting.record["steps"] == len(steps):
                place = fitting
            else:
                place, is_new = self._of_tree(tools, steps, checkout, fitting, key), True
        return tools.with_installed(place, self.workspace.spec.view, "installed" if is_new else "cached")

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
            failed, notes = self.set_up.steps(rest, tools, there, (), making.environment, patient=False)
            # One that fails may need more of the repository, and is left to each tree with all that come after it.
            done = before + (rest.index(failed[0].step) if failed else len(rest))
            if not done or any(one.step.required for one in failed):
                return None
            carried = carry(project, making.carried, untracked(project, frozenset(layer.names)))
            remove_tree(project)
            return self.store.keep(making, layer.key, {"notes": notes, "carried": carried, "steps": done})

    def _of_tree(
        self, tools: Environment, steps: Sequence[Step], checkout: Checkout, below: Place | None, key: str
    ) -> Place:
        """Make the uppermost layer: all steps on the whole tree, or those that remain on a copy of ``below``."""
        tracked = frozenset(self.workspace.base.paths())
        before = frozenset(untracked(checkout.path, tracked))  # of a local run: the user's own, carried anyway
        told = below.record["notes"] if below else ()
        if below is not None and below.record["carried"]:
            below = None  # to copy into a checkout of strangers is to follow their links
        with self.store.making() as making:
            rest = [step for step in steps[self._begun(making, below) :] if not step.ahead]
            project, *over = checkout.mounts
            failed, notes = self.set_up.steps(rest, tools, project, tuple(over), making.environment, patient=True)
            for one in failed:
                if one.step.required:
                    raise one.error
            made = [path for path in untracked(checkout.path, tracked) if path not in before]
            record = {
                "notes": list(dict.fromkeys((*told, *notes, *map(str, failed)))),
                "carried": carry(checkout.path, making.carried, made),
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

    def _fits(self, shared: Place) -> bool:
        """Whether nothing of this tree is at a place of what was made, and would be hidden by it."""
        tracked = self.workspace.base.paths()
        made = shared.record["carried"]
        return not any(path in tracked or any(t.startswith(f"{path}/") for t in tracked) for path in made)


def bare(steps: Sequence[Step]) -> tuple[Step, ...]:
    """The first of them, as far as they depend on this machine alone."""
    return tuple(itertools.takewhile(lambda step: step.bare, steps))


def _key(*facts: object) -> str:
    return hashlib.sha256(json.dumps((_FORMAT, *facts)).encode()).hexdigest()[:32]


def _fact(step: Step) -> object:
    return step.argv, sorted(step.env.items()), step.offline
