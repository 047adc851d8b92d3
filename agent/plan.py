"""What makes a plan sound: each reason to refuse one says what to change. Pure."""

from __future__ import annotations

from collections.abc import Collection
from graphlib import CycleError, TopologicalSorter

from agent.errors import UserError
from agent.types import Plan, PlanStep

MAX_STEPS = 20


def check(plan: Plan, existing: Collection[str]) -> None:
    """
    Raises:
        UserError: a plan that was made earlier can't be carried out on these files.
    """
    if found := problems(plan, existing):
        raise UserError(
            "The plan does not fit the code", why=" ".join(found[:3]), todo="Ask for a new plan on the present state"
        )


def problems(plan: Plan, existing: Collection[str]) -> tuple[str, ...]:
    """Why ``plan`` is refused, one sentence each; empty when it is sound.

    Args:
        existing: every path of the base commit.
    """
    found: list[str] = []
    if not plan.steps and plan.intent != "question":
        found.append("The plan has no step; name at least one.")
    if len(plan.steps) > MAX_STEPS:
        found.append(f"The plan has {len(plan.steps)} steps; at most {MAX_STEPS} are allowed. Join small ones.")
    ids = [step.id for step in plan.steps]
    found += [
        f"Two steps have the id {name!r}; ids must differ." for name in sorted({i for i in ids if ids.count(i) > 1})
    ]
    for step in plan.steps:
        found += _step_problems(step, ids, existing)
    try:
        order(plan)
    except CycleError as error:
        found.append(f"The steps depend on each other in a circle: {' → '.join(error.args[1])}.")
    return tuple(found)


def _step_problems(step: PlanStep, ids: Collection[str], existing: Collection[str]) -> list[str]:
    known = set(ids)
    return [
        *(f"Step {step.id!r} depends on {d!r}, which is no step." for d in step.depends_on if d not in known),
        *(
            f"Step {step.id!r} names {path!r} under `files`, but the repository has no such file. "
            "Name an existing one, or put it under `new_files`."
            for path in step.files
            if path not in existing
        ),
        *(
            f"Step {step.id!r} names {path!r} under `new_files`, but it exists. Put it under `files`."
            for path in step.new_files
            if path in existing
        ),
    ]


def leave(plan: Plan | None, path: str) -> str:
    """Why the task asks for a change to ``path`` as far as tests are concerned, as a step that names it says; empty
    where none does."""
    steps = plan.steps if plan else ()
    reasons = (step.test_changes.strip() for step in steps if path in (*step.files, *step.new_files))
    return " ".join(dict.fromkeys(filter(None, reasons)))


def amended(plan: Plan, later: Plan) -> Plan:
    """``plan`` with what ``later`` gives a reason for: in each step of the same id its files, and the reason."""
    given = {step.id: step for step in later.steps if step.test_changes.strip()}
    return plan.model_copy(update={"steps": tuple(_amended(step, given.get(step.id)) for step in plan.steps)})


def _amended(step: PlanStep, later: PlanStep | None) -> PlanStep:
    if later is None:
        return step
    reasons = dict.fromkeys(filter(None, (step.test_changes.strip(), later.test_changes.strip())))
    return step.model_copy(
        update={
            "files": tuple(dict.fromkeys((*step.files, *later.files))),
            "new_files": tuple(dict.fromkeys((*step.new_files, *later.new_files))),
            "test_changes": " ".join(reasons),
        }
    )


def order(plan: Plan) -> tuple[PlanStep, ...]:
    """The steps so that each comes after what it depends on; otherwise in the plan's own order.

    Raises:
        graphlib.CycleError: the dependencies form a circle.
    """
    steps = {step.id: step for step in plan.steps}
    sorter = TopologicalSorter({step.id: [d for d in step.depends_on if d in steps] for step in plan.steps})
    return tuple(steps[name] for name in sorter.static_order())
