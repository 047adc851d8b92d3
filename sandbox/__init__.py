"""Runs commands: trusted ones under supervision, untrusted ones isolated. Standard library only."""

from sandbox.choose import open_sandbox
from sandbox.errors import CommandNotFound, SandboxBroken, SandboxError, SandboxUnavailable
from sandbox.ownership import remove as remove_tree
from sandbox.text import clean
from sandbox.types import Command, End, Finished, Isolation, Limits, Mount, Sandbox

__all__ = [
    "Command",
    "CommandNotFound",
    "End",
    "Finished",
    "Isolation",
    "Limits",
    "Mount",
    "Sandbox",
    "SandboxBroken",
    "SandboxError",
    "SandboxUnavailable",
    "clean",
    "open_sandbox",
    "remove_tree",
]
