"""Tools that the target repository brings: each runs one command of its configuration, and takes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from agent.config import FILE_NAME, OwnTool
from agent.errors import UserError
from agent.tools.base import COMMAND_SECONDS, Arguments, Registry, Tool, ToolContext, ToolResult


class Nothing(Arguments):
    pass


def with_own(registry: Registry, own: Mapping[str, OwnTool]) -> Registry:
    """``registry`` with the repository's tools after ours.

    Raises:
        UserError: a name that one of ours has.
    """
    taken = sorted(own.keys() & registry.keys())
    if taken:
        raise UserError(
            f"{FILE_NAME} has a tool {taken[0]!r}, which is one of Graftsmith's own",
            todo="Give it another name on the base branch",
        )
    return {**registry, **{name: _tool(name, tool) for name, tool in own.items()}}


def _tool(name: str, own: OwnTool) -> Tool[Nothing]:
    description = f"{own.description} (A command of the repository, run as by run_command: {COMMAND_SECONDS} s.)"
    return Tool(name, description, Nothing, partial(_run, own.command))


def _run(command: str, context: ToolContext, arguments: Nothing) -> ToolResult:
    return ToolResult(context.run_command(context.draft, command))
