from __future__ import annotations

from pydantic import AliasChoices, Field

from agent.errors import ToolRefusal
from agent.paths import canonical
from agent.tools.base import Arguments, Tool, ToolContext, ToolResult
from agent.tools.guard import local


class Undo(Arguments):
    path: str = Field("", validation_alias=AliasChoices("path", "file_path", "file", "filename"))
    step: str = Field("", coerce_numbers_to_str=True)


def run(context: ToolContext, arguments: Undo) -> ToolResult:
    if arguments.path and arguments.step:
        raise ToolRefusal("undo takes a path or a step, not both", todo="Call it twice")
    return _file(context, arguments.path) if arguments.path else _step(context, arguments.step)


def _file(context: ToolContext, asked: str) -> ToolResult:
    path = canonical(local(context, asked))
    if path not in context.draft.edits:
        raise ToolRefusal(f"{path} was not changed", todo="Use diff to see what was")
    return ToolResult(f"{path} is as it was before the run", draft=context.draft.restored(path))


def _step(context: ToolContext, name: str) -> ToolResult:
    """Back to the checkpoint before a step; that step and those after it are to be done again."""
    begun = [step.id for step in context.progress.begun]
    if name and name not in begun:
        raise ToolRefusal(f"Step {name!r} was not begun", todo=f"Go back to {', '.join(begun) or 'a path'}")
    done = begun.index(name) if name else context.progress.done
    context.checkpoints = context.checkpoints.back(done)
    before = f"before step {begun[done]}" if done else "before the work began"
    return ToolResult(f"All files are as they were {before}.", draft=context.checkpoints.latest)


TOOL = Tool("undo", "Take back all changes to one file, or all since a step of the plan began.", Undo, run)
