from __future__ import annotations

from pydantic import AliasChoices, Field

from agent.tools.base import COMMAND_SECONDS, Arguments, Tool, ToolContext, ToolResult


class RunCommand(Arguments):
    command: str = Field(min_length=1, max_length=20_000, validation_alias=AliasChoices("command", "cmd"))


def run(context: ToolContext, arguments: RunCommand) -> ToolResult:
    return ToolResult(context.run_command(context.draft, arguments.command))


TOOL = Tool(
    "run_command",
    f"Run a shell line on a copy of the files: no network, {COMMAND_SECONDS} s, what it writes is thrown away.",
    RunCommand,
    run,
)
