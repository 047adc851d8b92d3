"""The status comment: one comment an issue, edited in place while a job runs, closed out on every closing. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from agent.types import Outcome, Place, Plan, RunResult, Stage
from app.report import markdown as md
from app.report import words
from app.report.facts import PRODUCT, JobFacts
from app.report.planned import plan_text
from app.report.sections import Section, fitting, joined

STAGES: dict[Stage, str] = {
    Stage.PREPARE: "Prepare the checkout",
    Stage.BASELINE: "Run the tests as they are",
    Stage.INDEX: "Read the repository",
    Stage.PLAN: "Plan",
    Stage.ANSWER: "Look for the answer",
    Stage.WORK: "Change the code",
    Stage.VERIFY: "Run the tests with the change",
    Stage.PROVE: "Prove it: red before, green after",
    Stage.REVIEW: "Read it once more",
    Stage.REPORT: "Write it down",
}
_ASKED = (Stage.PREPARE, Stage.INDEX, Stage.ANSWER, Stage.REPORT)
_PLANNED = (Stage.PREPARE, Stage.BASELINE, Stage.INDEX, Stage.PLAN, Stage.REPORT)
_FULL = tuple(stage for stage in STAGES if stage not in (Stage.ANSWER, Stage.REVIEW))
_COURSES = {"ask": _ASKED, "plan": _PLANNED, "revise": _PLANNED}
"""Command → the stages to come; other commands go through the rest, with a review where one is set."""
_PLACES = 20
_PATH_BYTES, _LAST_LINE = 1_000, 10_000_000
"""Beyond these, a place is none that anybody could go to."""
_PLAN_BYTES = 40_000

# Outcome → (mark, heading, what to do when the run itself named nothing).
ENDINGS: dict[Outcome, tuple[str, str, str]] = {
    Outcome.PROPOSED: ("✔", "Pull request opened", "Review the pull request."),
    Outcome.UPDATED: ("✔", "Pull request updated", "Review the new commit."),
    Outcome.ANSWERED: ("»", "Answered", ""),
    Outcome.PLANNED: (
        "✎",
        "Plan ready",
        "Comment `/agent approve` to have it carried out, or `/agent revise …` with what should be different.",
    ),
    Outcome.NO_CHANGE: ("–", "No change", "Say in a comment what should be different, then ask again."),
    Outcome.ALREADY_FIXED: ("✔", "Already fixed", "Close the issue if you agree."),
    Outcome.NOT_REPRODUCED: ("?", "Not reproduced", "Add steps, versions or a failing example, then ask again."),
    Outcome.NEEDS_INPUT: ("?", "A question first", "Answer in a comment, then ask again."),
    Outcome.TESTS_FAILING: ("⚠", "Tests are failing", "Look at the draft, or ask again with a hint."),
    Outcome.STUCK: ("⚠", "Stuck", "Ask again with a hint, for example the file or function at fault."),
    Outcome.BUDGET_REACHED: ("⚠", "Budget reached", "Ask for something smaller, or raise the budget."),
    Outcome.BLOCKED: ("⊘", "Blocked", "Resolve what is named above, then ask again."),
    Outcome.CANCELLED: ("■", "Stopped", "Ask again whenever you like."),
    Outcome.FAILED: ("✘", "Failed", "Ask whoever runs this service to look at the log of the run."),
}


@dataclass(frozen=True)
class StageState:
    """One stage so far. ``note`` may hold others' text, for example ``213 passed, 1 failed``."""

    stage: Stage
    state: Literal["done", "running"]
    seconds: float | None = None
    note: str = ""


@dataclass(frozen=True)
class Progress:
    """Where a job is."""

    stages: tuple[StageState, ...] = ()
    now: str = ""
    """What is happening this moment, in a few words."""
    elapsed_s: float = 0.0


NOT_BEGUN = Progress()


@dataclass(frozen=True)
class Closing:
    """How a job ended, as far as the comment tells it; ``from_result`` fills it from a run."""

    outcome: Outcome
    reason: str
    """Empty where the verdict says it all."""
    next_step: str = ""
    answer: str = ""
    """An answer, a question or an account of what was found, in the model's words."""
    plan: Plan | None = None
    """A plan that waits for approval."""
    places: tuple[Place, ...] = ()
    """Lines that an answer names."""
    account: str = ""
    """What ``pull_request.account`` tells, for work that has no description of its own; safe Markdown already."""
    pull_number: int | None = None
    draft: bool = False
    kept_branch: str = ""
    """A branch of ours that holds the work where it could not go where it was meant to."""
    patch: str = ""
    """The work as a patch, where it could not be pushed at all; or the test that shows that there is none to do."""
    verdict: str = ""
    proven: bool = False
    cost: str = ""

    @classmethod
    def from_result(cls, result: RunResult, **more: object) -> Closing:
        """The parts that the run itself decides; ``more`` sets the others by name."""
        measured = bool(result.change_set) or result.evidence.final is not None
        cost = " · ".join(part for part in (words.money(result.usage), words.tokens(result.usage)) if part)
        return cls(
            outcome=result.outcome,
            reason="" if result.proven else result.reason,
            next_step=result.next_step,
            answer=result.summary,
            plan=result.plan if result.outcome is Outcome.PLANNED else None,
            places=result.places,
            verdict=words.verdict(result.evidence, result.outcome) if measured else "",
            proven=result.proven,
            cost=cost if result.usage.calls else "",
            **more,  # type: ignore[arg-type]
        )


def marker(facts: JobFacts) -> str:
    """The hidden first line by which this job's comment is found again."""
    return f"<!-- graftsmith:status job={facts.job_id} -->"


def status_comment(facts: JobFacts, progress: Progress, closing: Closing | None = None) -> str:
    """The whole comment, at most ``markdown.BODY_LIMIT`` bytes, beginning with ``marker(facts)``."""
    if closing is not None:
        return ending(marker(facts), facts, closing, progress)
    return joined([Section(marker(facts)), *map(Section, _running(facts, progress))], md.BODY_LIMIT)


def ending(first: str, facts: JobFacts, closing: Closing, progress: Progress = NOT_BEGUN) -> str:
    """How a job ended, below the line ``first``; at most ``markdown.BODY_LIMIT`` bytes."""
    *parts, last = [Section(first), *_ended(facts, progress, closing)]
    return joined(fitting(parts, md.BODY_LIMIT, last), md.BODY_LIMIT)


def _running(facts: JobFacts, progress: Progress) -> list[str]:
    asked = f" for {md.code(facts.requester)}" if facts.requester else ""
    if not progress.stages:
        return [f"### ◐ {PRODUCT} will work on this{asked}", "It starts in a moment.", _promise(facts)]
    now = md.inline(md.head(progress.now, 300))
    return [
        f"### ◐ {PRODUCT} is working on this{asked}",
        _stages(progress.stages, _COURSES.get(facts.command, _FULL)),
        f"**Now:** {now}" if now else "",
        _small([f"{words.duration(progress.elapsed_s)} so far"]),
        _promise(facts),
    ]


def _promise(facts: JobFacts) -> str:
    kind = "pull request" if facts.is_pull else "issue"
    return f"<sub>This comment is kept up to date. The result will be linked here, on this {kind}.</sub>"


def _stages(states: Sequence[StageState], to_come: Collection[Stage]) -> str:
    """
    Args:
        to_come: stages that are shown before they begin; empty when the job has ended.
    """
    known = {state.stage: state for state in states}
    lines = []
    ended = not to_come
    for stage, name in STAGES.items():
        state = known.get(stage)
        if state is None:
            lines += [f"○ {name}"] if stage in to_come else []
            continue
        took = f" · {words.duration(state.seconds)}" if state.seconds is not None else ""
        note = f" · {md.inline(md.head(state.note, 200))}" if state.note else ""
        if state.state != "running":
            lines.append(f"✔ {name}{took}{note}")
        elif ended:
            lines.append(f"■ {name} · not finished{note}")
        else:
            lines.append(f"◐ **{name}**{took}{note}")
    return "\\\n".join(lines)


def _ended(facts: JobFacts, progress: Progress, closing: Closing) -> list[Section]:
    mark, heading, otherwise = ENDINGS[closing.outcome]
    if closing.pull_number is not None:
        heading += f": #{closing.pull_number}" + (" (draft)" if closing.draft else "")
    if closing.draft and mark == "✔" and not closing.proven:  # else it is a draft because a person wants it to be
        mark = "⚠"
    told = closing.answer if closing.pull_number is None and not closing.account else ""
    next_step = md.inline(closing.next_step or otherwise)
    return [
        Section(f"### {mark} {heading}"),
        Section(md.prose(closing.reason, limit=2_000), 8, "the reason"),
        Section(f"**{closing.verdict}**" if closing.verdict else ""),
        Section(_kept(facts, closing), 4, "the work, which is kept with the run"),
        Section(md.prose(told, facts.links, limit=12_000), 7, "the answer"),
        Section(_places(facts, closing.places), 3, "the lines that it names"),
        Section(_plan(closing.plan) if closing.plan else "", 6, "the plan, which is kept with the run"),
        Section(closing.account.strip(), 5, "what was measured"),
        Section(f"**Next:** {next_step}" if next_step else ""),
        Section(md.details("What was done", _stages(progress.stages, ())) if progress.stages else "", 2, "the stages"),
        Section(_small([f"{words.duration(progress.elapsed_s)} in all" if progress.elapsed_s else "", closing.cost])),
    ]


def _plan(plan: Plan) -> str:
    text = plan_text(plan)
    if md.fits(text, _PLAN_BYTES):
        return text
    summary = md.prose(plan.summary, limit=2_000)
    return f"{summary}\n\nThe plan's {len(plan.steps)} steps are too long for a comment; they are kept with the run."


def _places(facts: JobFacts, places: Sequence[Place]) -> str:
    """Links to the lines that an answer names, as they were when it was given."""
    places = [p for p in places if md.fits(p.path, _PATH_BYTES) and max(p.start, p.end) <= _LAST_LINE]
    if not places or not facts.base_sha:
        return ""
    links = []
    for place in places[:_PLACES]:
        anchor = f"#L{place.start}" + (f"-L{place.end}" if place.end > place.start else "")
        # GitHub shows a rendered document without lines unless it is asked for its text.
        url = f"{facts.blob_url(place.path, facts.base_sha)}?plain=1{anchor}"
        links.append(f"- [{md.code(str(place))}]({url})")
    return "\n".join(["The lines it names:", "", *links])


def _kept(facts: JobFacts, closing: Closing) -> str:
    if closing.kept_branch:
        return (
            f"The work is kept on the branch [{md.code(closing.kept_branch)}]"
            f"({facts.repository_url}/tree/{closing.kept_branch})."
        )
    if not closing.patch.strip():
        return ""
    if not md.fits(closing.patch, 30_000):
        return f"The patch ({md.size(closing.patch):,} bytes) is too long for a comment; it is kept with the run."
    what = "The test that shows it" if closing.outcome in words.SHOWN_BY_A_TEST else "The work"
    intro = f"{what} as a patch; save it to a file and apply it with `git apply`:"
    return md.details(f"{what} as a patch", f"{intro}\n\n{md.fence(closing.patch, 'diff')}")


def _small(parts: Sequence[str]) -> str:
    text = " · ".join(part for part in parts if part)
    return f"<sub>{text[:1].upper()}{text[1:]}</sub>" if text else ""
