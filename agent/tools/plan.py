from __future__ import annotations

from agent import prompts
from agent.errors import ToolRefusal
from agent.plan import problems
from agent.tools.base import Arguments, Tool, ToolContext, ToolResult
from agent.types import Plan


class MakePlan(Plan, Arguments):
    """A plan as the model sends it."""


def run(context: ToolContext, arguments: MakePlan) -> ToolResult:
    if context.plan is not None:
        raise ToolRefusal("There is a plan already", todo="Carry it out")
    plan = Plan.model_validate(arguments.model_dump())
    wrong = problems(plan, context.draft.base.paths())
    if wrong:
        raise ToolRefusal(" ".join(wrong), todo="Call plan again with that corrected")
    context.plan = plan
    if context.progress.last:
        return ToolResult("Accepted. Carry it out; call finish in the same reply as the last edits.")
    return ToolResult(f"Accepted. {prompts.render('steps', progress=context.progress)}")


TOOL = Tool(
    "plan",
    "Say what you are going to do, once, before the first change. A small fix has one step. `files` exist, `new_files` "
    "will be made. `test_changes` stays empty unless the task itself asks for existing tests to change; then it says "
    "why.",
    MakePlan,
    run,
)
