"""Picks the isolation of this machine. There is no way around it: a command runs isolated or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from sandbox.bubblewrap import Bubblewrap
from sandbox.container import ContainerFallback
from sandbox.errors import SandboxUnavailable
from sandbox.types import Cancelled, Command, Finished, Isolation, OnOutput, Sandbox


def open_sandbox(*, require: bool = True) -> Sandbox:
    """The best sandbox that starts here, tried for real.

    Args:
        require: raise where nothing isolates. Without it the result refuses every command with that same error, so
            that work which runs no command can go on.

    Raises:
        SandboxUnavailable: nothing isolates here; names the package to install.
    """
    try:
        return _best()
    except SandboxUnavailable as error:
        if require:
            raise
        return Refusing(error)


def _best() -> Sandbox:
    try:
        return Bubblewrap()
    except SandboxUnavailable as error:
        if os.geteuid() != 0:
            raise
        return ContainerFallback(reason=str(error))


class Refusing:
    """A sandbox that runs nothing and says why."""

    def __init__(self, reason: SandboxUnavailable) -> None:
        self._reason = reason
        self.isolation = Isolation("none", degraded=True, detail=f"no command can run: {reason}")

    def run(
        self,
        command: Command,
        *,
        on_output: OnOutput | None = None,
        cancelled: Cancelled | None = None,
        log: Path | None = None,
    ) -> Finished:
        raise self._reason

    def own(self, path: Path) -> None:
        """Nobody else will use it."""

    def reclaim(self, path: Path) -> None:
        """It has been ours all the time."""
