"""How far a plan is carried out. Pure.

A plan with one step is one attempt: edits, then ``finish``. In a plan with several, the model marks a step with
``step_done``; the harness checks it cheaply, keeps the files as they are, and names the next one. ``finish`` stands for
every step that is left, so that nobody pays a call for a mark. Since a draft is immutable, a checkpoint is a reference.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from agent.plan import order
from agent.tree import Draft
from agent.types import Plan, PlanStep
from agent.verify.paths import is_test, is_test_config


@dataclass(frozen=True)
class Checkpoints:
    """The files before the first step, and as each finished step left them."""

    start: Draft
    done: tuple[Draft, ...] = ()

    @property
    def latest(self) -> Draft:
        """The files as the step under way found them."""
        return self.done[-1] if self.done else self.start

    def kept(self, draft: Draft) -> Checkpoints:
        """One more step is done."""
        return replace(self, done=(*self.done, draft))

    def given_up(self, draft: Draft) -> Draft:
        """``latest``, with the new tests of ``draft``: they say what is wanted, and another way wants the same."""
        kept = self.latest
        for path, file in draft.edits.items():
            if file and path not in kept and is_test(path) and not is_test_config(path):
                kept = kept.with_file(path, file.content, file.mode)
        return kept

    def back(self, steps: int) -> Checkpoints:
        """Only the first ``steps`` steps are done."""
        return replace(self, done=self.done[:steps])


@dataclass(frozen=True)
class Progress:
    """A plan's steps in the order in which they are done, and how many are."""

    steps: tuple[PlanStep, ...]
    done: int

    @classmethod
    def of(cls, plan: Plan | None, checkpoints: Checkpoints) -> Progress:
        return cls(order(plan) if plan else (), len(checkpoints.done))

    @property
    def present(self) -> PlanStep | None:
        """The step under way; ``None`` without a plan, or for the plan of a question."""
        return self.steps[self.done] if self.done < len(self.steps) else None

    @property
    def last(self) -> bool:
        """No step comes after the present one."""
        return self.done + 1 >= len(self.steps)

    @property
    def begun(self) -> tuple[PlanStep, ...]:
        """What one can go back to."""
        return self.steps[: self.done + 1]
