"""What a person has to look at: changes to tests, what was left out, remarks, and the review. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from agent.plan import leave
from agent.types import HUNK_CHARS, Evidence, IntegrityFinding, Plan, ReviewFinding
from app.report import markdown as md
from app.report.facts import Review

_FINDINGS, _EXCUSED = 20, 200
_PATCHES = 16_000


def acknowledgeable(evidence: Evidence) -> str:
    """Names the changes to tests that a person can acknowledge with a comment, since all of them are shown and nothing
    else keeps the change a draft; empty where there is nothing of the kind."""
    shown = len(evidence.integrity) <= _FINDINGS and len(evidence.given_up) <= md.LISTED
    return evidence.integrity_digest if evidence.holds and shown else ""


def integrity(evidence: Evidence, plan: Plan | None) -> str:
    findings = evidence.integrity
    if not evidence.touches_tests:
        return ""
    shown, more = md.first(findings, _FINDINGS)
    room = _room(evidence)
    blocks = [
        f"**{md.inline(f.kind)}** in {md.code(f.path)}: {md.inline(f.detail)}"
        + (f"\n\n{md.fence(md.head(f.hunk, room), 'diff')}" if f.hunk.strip() else "")
        for f in shown
    ]
    if more:
        blocks.append(f"*… and {more} more.*")
    intro = "These changes could make the tests say less than before. Please look at each of them."
    gone = md.listed("Ran before, do not run any more, as the plan says", evidence.given_up)
    parts = ["### Changes to tests", intro, _reasons(findings, plan), *blocks, gone, _acknowledging(evidence)]
    return "\n\n".join(part for part in parts if part)


def _reasons(findings: Sequence[IntegrityFinding], plan: Plan | None) -> str:
    """The model's, file by file; the same reason once."""
    files: dict[str, list[str]] = {}
    excused = dict.fromkeys(finding.path for finding in findings if finding.excused)
    for path in list(excused)[:_EXCUSED]:
        files.setdefault(leave(plan, path), []).append(path)
    lines = [
        f"- {', '.join(md.code(path) for path in paths[:6])}: {md.inline(md.head(why, 600))}"
        for why, paths in list(files.items())[:_FINDINGS]
        if why
    ]
    return "\n".join(["The plan's reasons, in the model's words:", "", *lines]) if lines else ""


def _acknowledging(evidence: Evidence) -> str:
    if not evidence.holds:
        return ""
    if not acknowledgeable(evidence):
        return (
            "These are too many to be acknowledged by a comment: look at all of them under “Files changed”, then mark "
            "the pull request as ready yourself."
        )
    cut = " What is cut here stands under “Files changed”." if _is_cut(evidence) else ""
    return (
        "This stays a draft until somebody with write permission comments `/agent approve` here. That acknowledges "
        f"exactly these changes (`{evidence.integrity_digest}`) on this commit, and none that comes later."
        f"{cut}"
    )


def _is_cut(evidence: Evidence) -> bool:
    limit = min(_room(evidence), HUNK_CHARS)
    return any(md.size(finding.hunk) > limit for finding in evidence.integrity)


def _room(evidence: Evidence) -> int:
    """Characters of one hunk."""
    return max(500, _PATCHES // max(1, min(len(evidence.integrity), _FINDINGS)))


def left_out(review: Review) -> str:
    if not review.left_out:
        return ""
    blocks = []
    room = max(500, _PATCHES // len(review.left_out))
    for change in review.left_out[:_FINDINGS]:
        patch = md.details("The change as a patch", md.fence(md.head(change.patch, room), "diff"))
        blocks.append(f"{md.code(change.path)}: {change.reason}" + (f"\n\n{patch}" if change.patch.strip() else ""))
    return "\n\n".join(["### Left out", "Not part of this pull request:", *blocks])


def remarks(review: Review) -> str:
    if not review.remarks:
        return ""
    lines = md.bullets(review.remarks, lambda remark: f"{md.code(remark.path)}: {remark.detail}")
    return "\n".join(["### Look closely at", "", *lines])


def reviewed(findings: Sequence[ReviewFinding]) -> str:
    if not findings:
        return ""
    lines = md.bullets(findings, _finding)
    intro = "The model read the finished change once more. This is its opinion, not a measurement."
    return "\n".join(["### Review", "", intro, "", *lines])


def _finding(finding: ReviewFinding) -> str:
    kind = "" if finding.severity == "remark" else f"**{'reworked since' if finding.reworked else 'open'}**: "
    parts = (md.head(part.strip(), 600) for part in (finding.problem, finding.advice))
    said = md.inline(md.head(" → ".join(filter(None, parts)), 600))
    return f"{kind}{md.code(finding.place)}: {said}"
