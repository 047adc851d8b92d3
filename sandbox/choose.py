"""Picks the isolation of this machine. There is no way around it: a command runs isolated or not at all."""

from __future__ import annotations

import os

from sandbox.bubblewrap import Bubblewrap
from sandbox.container import ContainerFallback
from sandbox.errors import SandboxUnavailable
from sandbox.types import Sandbox


def open_sandbox() -> Sandbox:
    """The best sandbox that starts here, tried for real.

    Raises:
        SandboxUnavailable: nothing isolates here; names the package to install.
    """
    try:
        return Bubblewrap()
    except SandboxUnavailable as error:
        if os.geteuid() != 0:
            raise
        return ContainerFallback(reason=str(error))
