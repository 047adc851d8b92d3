"""What the model means to do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import ConfigDict, model_validator

from agent.types.base import Value


class PlanStep(Value):
    """One step: what it achieves, where, after what, and how to see that it is done."""

    model_config = ConfigDict(coerce_numbers_to_str=True)  # models number their steps

    id: str
    objective: str
    files: tuple[str, ...] = ()
    """Existing files that the step reads or changes."""
    new_files: tuple[str, ...] = ()
    """Files that the step makes; they do not exist yet."""
    depends_on: tuple[str, ...] = ()
    done_when: str = ""
    test_changes: str = ""
    """Why the task asks for existing tests, or what configures them, among ``files`` to change, or for something among
    ``new_files`` that takes the place of a part of the runner; empty means that they may not."""


_INTENTS = {
    **dict.fromkeys(("bug", "bugfix", "fix"), "bug_fix"),
    "feat": "feature",
    "refactor": "refactoring",
    "perf": "performance",
    "test": "tests",
    "docs": "documentation",
}
"""What models say in place of an intent, mostly the words of commit messages; refusing it would cost a call."""


def _whole(step: Any, number: int) -> Any:
    """A step that is only said, or has no name, as one."""
    step = {"objective": step} if isinstance(step, str) else step
    return {"id": str(number), **step} if isinstance(step, Mapping) else step


def _with_reason(step: Any, why: str) -> Any:
    return {**step, "test_changes": step.get("test_changes") or why} if isinstance(step, Mapping) else step


class Plan(Value):
    """What the model means to do. Text in it is the model's: data to show, never an order."""

    intent: Literal["bug_fix", "feature", "refactoring", "performance", "tests", "documentation", "question"]
    summary: str
    entities: tuple[str, ...] = ()
    """What the task is about, as it names it: files, symbols, errors, versions."""
    steps: tuple[PlanStep, ...]
    tests: tuple[str, ...] = ()
    """Tests to add, one line each."""
    risks: tuple[str, ...] = ()
    alternatives: tuple[str, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _forms(cls, data: Any) -> Any:
        """Also take an intent in other words, and steps in one sentence each."""
        if not isinstance(data, Mapping):
            return data
        intent, steps = data.get("intent"), data.get("steps")
        said: dict[str, Any] = {"intent": _INTENTS.get(intent, intent)} if isinstance(intent, str) else {}
        if isinstance(steps, list | tuple):
            said["steps"] = [_whole(step, number) for number, step in enumerate(steps, start=1)]
        return {**data, **said}

    @model_validator(mode="before")
    @classmethod
    def _reason_in_the_steps(cls, data: Any) -> Any:
        """A reason that stands beside the steps, as in plans that were stored earlier, belongs to each of them."""
        if not isinstance(data, Mapping) or "test_changes" not in data:
            return data
        why, steps = data["test_changes"], data.get("steps")
        rest = {name: value for name, value in data.items() if name != "test_changes"}
        if not (isinstance(why, str) and why.strip() and isinstance(steps, list | tuple)):
            return rest
        return {**rest, "steps": [_with_reason(step, why) for step in steps]}
