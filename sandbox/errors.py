"""What can go wrong in this package. Standard library only, so the tree of ``agent.errors`` is out of reach here."""

from __future__ import annotations


class SandboxError(Exception):
    """Base: what happened, why we think so, what to do next; ``str()`` gives all three on one line."""

    def __init__(self, what: str, *, why: str = "", todo: str = "") -> None:
        super().__init__(what, why, todo)
        self.what = what
        self.why = why
        self.todo = todo

    def __str__(self) -> str:
        return ". ".join(part.rstrip(".") for part in (self.what, self.why, self.todo) if part) + "."


class SandboxUnavailable(SandboxError):
    """Nothing on this machine isolates a command. The operator must act; ``todo`` names the package to install."""


class SandboxBroken(SandboxError):
    """The sandbox itself did not start, so nothing is known about the command: never read it as a failed test."""


class CommandNotFound(SandboxError):
    """A trusted program is not there. The operator must act."""
