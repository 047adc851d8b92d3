from __future__ import annotations

from pydantic import Field

from agent.tools.base import Arguments, Tool, ToolContext, ToolResult


class RunTests(Arguments):
    tests: tuple[str, ...] = Field((), max_length=200, description="test ids or files; empty: all")


def run(context: ToolContext, arguments: RunTests) -> ToolResult:
    return ToolResult(context.run_tests(context.draft, arguments.tests))


TOOL = Tool("run_tests", "Run tests on the files as they are now. finish runs all of them anyway.", RunTests, run)
