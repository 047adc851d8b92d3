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
        return _amended(context, context.plan, arguments.test_changes.strip())
    plan = Plan.model_validate(arguments.model_dump())
    wrong = problems(plan, context.draft.base.paths())
    if wrong:
        raise ToolRefusal(" ".join(wrong), todo="Call plan again with that corrected")
    context.plan = plan
    if context.progress.last:
        return ToolResult("Accepted. Carry it out; call finish in the same reply as the last edits.")
    return ToolResult(f"Accepted. {prompts.render('steps', progress=context.progress)}")


def _amended(context: ToolContext, plan: Plan, why: str) -> ToolResult:
    """That existing tests must change may turn out on the way; a person has the last word on each of these changes."""
    if not why or plan.test_changes.strip() or context.approved:
        raise ToolRefusal("There is a plan already", todo="Carry it out")
    context.plan = plan.model_copy(update={"test_changes": why})
    return ToolResult("Noted. Existing tests may change for that reason; a person has to acknowledge each such change.")


TOOL = Tool(
    "plan",
    "Say what you are going to do, once, before the first change. A small fix has one step. `files` exist, `new_files` "
    "will be made. `test_changes` stays empty unless the task itself asks for existing tests to change; then it says "
    "why.",
    MakePlan,
    run,
)
