"""The check run on the head commit: verdict, numbers, and an annotation for each failing test. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from agent.types import Outcome, RunResult, TestRun
from app.report import markdown as md
from app.report import words
from app.report.facts import PRODUCT, JobFacts
from app.report.status import ENDINGS

ANNOTATIONS_PER_REQUEST = 50
_MESSAGE_LIMIT, _TITLE_LIMIT, _PATH_LIMIT = 4_000, 250, 1_000
_ANNOTATED = 200
"""Failing tests that get an annotation: what breaks thousands at once shows in the first ones."""

Conclusion = Literal["success", "failure", "neutral", "cancelled", "action_required"]

_CONCLUSIONS: dict[Outcome, Conclusion] = {
    Outcome.TESTS_FAILING: "failure",
    Outcome.STUCK: "failure",
    Outcome.FAILED: "failure",
    Outcome.CANCELLED: "cancelled",
    Outcome.NEEDS_INPUT: "action_required",
    Outcome.BLOCKED: "action_required",
}


@dataclass(frozen=True)
class Annotation:
    """One failing test, at the line of the file when that is known."""

    path: str
    line: int
    title: str
    message: str
    level: Literal["failure", "warning", "notice"] = "failure"


@dataclass(frozen=True)
class CheckRun:
    """What GitHub's check run shows."""

    name: str
    external_id: str
    title: str
    summary: str
    conclusion: Conclusion
    annotations: tuple[Annotation, ...] = ()

    def batches(self, already: int = 0) -> Iterator[Sequence[Annotation]]:
        """The annotations that GitHub does not have yet, 50 a request, since each request appends."""
        for start in range(already, len(self.annotations), ANNOTATIONS_PER_REQUEST):
            yield self.annotations[start : start + ANNOTATIONS_PER_REQUEST]


def check_run(result: RunResult, facts: JobFacts) -> CheckRun:
    """The check run of a job that has ended."""
    evidence = result.evidence
    failed = len(evidence.final.failed) if evidence.final else 0
    if result.proven:
        conclusion: Conclusion = "success"
    elif result.outcome is Outcome.PROPOSED and evidence.holds:
        conclusion = "action_required"
    else:
        conclusion = _CONCLUSIONS.get(result.outcome, "neutral")
    _, heading, _ = ENDINGS[result.outcome]
    parts = [
        f"**{words.verdict(evidence)}**" if evidence.final or result.change_set else "",
        md.prose(result.reason, limit=4_000),
        f"Before: {words.tests_in_short(evidence.baseline)}. After: {words.tests_in_short(evidence.final)}."
        if evidence.final
        else "",
        f"The first {_ANNOTATED} failing tests are annotated." if failed > _ANNOTATED else "",
        f"**Next:** {md.inline(result.next_step)}" if result.next_step else "",
    ]
    return CheckRun(
        name=PRODUCT,
        external_id=facts.job_id,
        title=f"{heading}: {words.tests_in_short(evidence.final)}" if evidence.final else heading,
        summary="\n\n".join(part for part in parts if part) or "Nothing was measured.",
        conclusion=conclusion,
        annotations=tuple(_annotations(evidence.final)) if failed and evidence.final else (),
    )


def acknowledged(facts: JobFacts, digest: str) -> CheckRun:
    """The check run of a commit whose changes to existing tests a person has acknowledged."""
    return CheckRun(
        name=PRODUCT,
        external_id=facts.job_id,
        title="Changes to tests acknowledged",
        summary=f"{md.code(facts.requester)} has acknowledged the changes to tests ({md.code(digest)}) in this commit.",
        conclusion="success",
    )


def _annotations(run: TestRun) -> Iterator[Annotation]:
    for test in sorted(run.failed)[:_ANNOTATED]:
        said = md.clean(run.messages.get(test, ""), most=_MESSAGE_LIMIT)
        message = md.head(said, _MESSAGE_LIMIT).strip() or "No message was given."
        path = _path(test)
        yield Annotation(path, _line(path, message), md.plain(test, _TITLE_LIMIT), message)


def _path(test: str) -> str:
    """The file that a test id names; the root's config folder where it names none, as GitHub wants some path."""
    path = md.clean(test.split("::", 1)[0], most=_PATH_LIMIT).strip()
    return path if re.fullmatch(r"[^\s:*?\"<>|]+\.\w{1,5}", path) and not path.startswith(("/", "../")) else ".github"


def _line(path: str, message: str) -> int:
    found = re.search(rf"{re.escape(path)}:(\d{{1,6}})\b", message)
    return max(1, int(found[1])) if found else 1
