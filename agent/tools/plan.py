from __future__ import annotations

from agent import prompts
from agent.errors import ToolRefusal
from agent.plan import amended, problems
from agent.tools.base import Arguments, Tool, ToolContext, ToolResult
from agent.types import Plan


class MakePlan(Plan, Arguments):
    """A plan as the model sends it."""


def run(context: ToolContext, arguments: MakePlan) -> ToolResult:
    plan = Plan.model_validate(arguments.model_dump())
    if context.plan is not None:
        return _amended(context, context.plan, plan)
    _refuse_unsound(context, plan)
    context.plan = plan
    if context.progress.last:
        return ToolResult("Accepted. Carry it out; call finish in the same reply as the last edits.")
    return ToolResult(f"Accepted. {prompts.render('steps', progress=context.progress)}")


def _amended(context: ToolContext, plan: Plan, later: Plan) -> ToolResult:
    """That existing tests must change may turn out on the way; a person has the last word on each of these changes."""
    fuller = amended(plan, later)
    if context.approved or fuller == plan:
        given = any(step.test_changes.strip() for step in later.steps) and not context.approved
        ids = ", ".join(step.id for step in plan.steps)
        todo = f"Give the reason in one of its steps ({ids}), with the tests under `files`" if given else "Carry it out"
        raise ToolRefusal("There is a plan already", todo=todo)
    _refuse_unsound(context, fuller)
    context.plan = fuller
    return ToolResult("Noted. These files may change for that reason; a person has to acknowledge each such change.")


def _refuse_unsound(context: ToolContext, plan: Plan) -> None:
    wrong = problems(plan, context.draft.base.paths())
    if wrong:
        raise ToolRefusal(" ".join(wrong), todo="Call plan again with that corrected")


TOOL = Tool(
    "plan",
    "Say what you will do, once, before the first change. A small fix has one step. `files` exist, `new_files` "
    "will be made. `test_changes` stays out unless the task itself asks for existing tests in `files` to change, and "
    "says why.",
    MakePlan,
    run,
)
