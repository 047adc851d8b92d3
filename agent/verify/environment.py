"""What the tests need besides the checkout: interpreters, installed dependencies, generated files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Self

from agent.verify.registries import Registries
from agent.verify.store import Place
from agent.verify.toolchains.base import ENVIRONMENT, NODE, VENV
from sandbox.types import Mount

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

    def leading_there(self) -> Mapping[str, str]:
        """The variables with which programs at ``ENVIRONMENT`` are found before all others."""
        return {**self.env, "PATH": f"{VENV}/bin:{NODE}/bin:{self.env.get('PATH', '/usr/local/bin:/usr/bin:/bin')}"}

    def with_installed(self, place: Place, view: str, source: str) -> Self:
        """These tools with what was installed at ``place``.

        Args:
            view: where the checkout is seen.
        """
        carried = (Mount(place.carried / path, f"{view}/{path}") for path in place.record["carried"])
        return replace(
            self,
            mounts=(*self.mounts, Mount(place.environment, ENVIRONMENT), *carried),
            env=self.leading_there(),
            source=source,
            notes=(*self.notes, *place.record["notes"]),
            id=str(place.record.get("id", "")),
        )
