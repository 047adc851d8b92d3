"""A plan as safe Markdown. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from agent.types import Plan
from app.report import markdown as md

_NAMED = 12


def plan_text(plan: Plan) -> str:
    """A plan as safe Markdown."""
    steps = [
        f"{number}. {md.inline(step.objective)}"
        + (f" ({', '.join(map(md.code, files[:6]))})" if (files := (*step.files, *step.new_files)) else "")
        + (f"  \n   Done when {md.inline(step.done_when)}" if step.done_when else "")
        + (f"  \n   **Existing tests change because:** {md.inline(step.test_changes)}" if step.test_changes else "")
        for number, step in enumerate(plan.steps[:25], 1)
    ]
    parts = [
        md.prose(plan.summary, limit=2_000),
        f"About {', '.join(map(md.code, plan.entities[:_NAMED]))}" if plan.entities else "",
        "\n".join(steps),
        _bullets("Tests to add", plan.tests),
        _bullets("Risks", plan.risks),
        _bullets("Alternatives", plan.alternatives),
    ]
    return "\n\n".join(part for part in parts if part)


def _bullets(title: str, lines: Sequence[str]) -> str:
    if not lines:
        return ""
    return f"**{title}**\n\n" + "\n".join(f"- {md.inline(line)}" for line in lines[:15])
