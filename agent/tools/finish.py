from __future__ import annotations

from pydantic import Field

from agent.errors import ToolRefusal
from agent.tools.base import Arguments, Claim, Conclusion, Tool, ToolContext, ToolResult
from agent.types import FileReason


class Finish(Arguments):
    claim: Claim = Claim.DONE
    summary: str = Field(min_length=1, description="what was wrong and what was done, for the maintainer")
    files: dict[str, str] = Field(default_factory=dict, description="path: why it changed, in one line")
    question: str = ""


def run(context: ToolContext, arguments: Finish) -> ToolResult:
    claim = arguments.claim
    if claim is Claim.DONE and not context.draft.edits:
        if not context.told_unchanged:
            context.told_unchanged = True
            raise ToolRefusal(
                "Nothing is changed, so the task can't be done",
                todo="Make the change, or give the claim that fits: no_change, already_fixed, not_reproduced, "
                "needs_input, blocked",
            )
        claim = Claim.NO_CHANGE
    if claim is Claim.DONE and context.plan_first and context.plan is None:
        raise ToolRefusal("There is no plan", todo="Call plan and finish; the changes so far stay")
    if arguments.claim is Claim.NEEDS_INPUT and not arguments.question.strip():
        raise ToolRefusal("needs_input wants a question", todo="Put what you must know into `question`")
    reasons = tuple(FileReason(path=path, reason=reason) for path, reason in arguments.files.items())
    conclusion = Conclusion(claim, arguments.summary, reasons, arguments.question)
    return ToolResult(f"Finished as {claim.value}.", said=conclusion)


TOOL = Tool(
    "finish",
    "End the work. The harness then runs all tests and says what it found. already_fixed and not_reproduced come with "
    "a new test that passes on the unchanged code, needs_input with the question to the maintainer.",
    Finish,
    run,
)
