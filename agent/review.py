"""A second reading of an accepted change, by the model, with the plan's criteria in hand: one call."""

from __future__ import annotations

from collections.abc import Sequence

from agent import brief, prompts
from agent.model.structured import structured
from agent.model.types import Message, Model
from agent.tree import Draft
from agent.types import Evidence, Plan, ReviewFinding, RunSpec, Value
from sandbox.text import clean

_DIFF_CHARS = 60_000
MOST = 12
"""Findings that are told; of more it is said how many."""


class Review(Value):
    """What the reading found."""

    findings: tuple[ReviewFinding, ...] = ()


def read(model: Model, spec: RunSpec, plan: Plan | None, draft: Draft, evidence: Evidence) -> tuple[ReviewFinding, ...]:
    """The findings, blocking ones first. It is a conversation of its own, so that the author's words persuade nobody.

    Raises:
        InvalidOutput: no usable review after one correction.
        GraftsmithError: whatever the model call raises.
    """
    diff = clean(draft.diff(), _DIFF_CHARS)
    messages = [
        Message.system(prompts.render("review")),
        Message.user(brief.for_review(spec, plan, diff, evidence)),
    ]
    found = structured(model, messages, Review).findings
    return tuple(sorted((_sound(finding, draft) for finding in found), key=lambda f: f.severity != "blocking"))


def blocking(findings: Sequence[ReviewFinding]) -> tuple[str, ...]:
    """The findings that must be repaired, as the model is told."""
    return tuple(f"{f.place}: {f.problem} {f.advice}".strip() for f in findings if f.severity == "blocking")


def _sound(finding: ReviewFinding, draft: Draft) -> ReviewFinding:
    """A line that the file does not have is left out; the finding may be right all the same."""
    edit = draft.edits.get(finding.path)
    lines = edit.content.count(b"\n") + 1 if edit is not None and edit.content is not None else 0
    return finding if finding.line is None or finding.line <= lines else finding.model_copy(update={"line": None})
