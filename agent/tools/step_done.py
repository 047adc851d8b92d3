from __future__ import annotations

from pydantic import Field

from agent.errors import ToolRefusal
from agent.tools.base import Arguments, StepDone, Tool, ToolContext, ToolResult


class MarkDone(Arguments):
    tests: tuple[str, ...] = Field((), max_length=200, description="test ids or files that must pass now")


def run(context: ToolContext, arguments: MarkDone) -> ToolResult:
    if context.plan is None:
        raise ToolRefusal("There is no plan", todo="Call plan first")
    if context.progress.last:
        raise ToolRefusal("No step comes after this one", todo="Call finish; it runs all tests")
    return ToolResult("Checking.", said=StepDone(arguments.tests))


TOOL = Tool(
    "step_done",
    "The present step of the plan is done: its files and the named tests are checked, a checkpoint is kept.",
    MarkDone,
    run,
)
