"""The body of a pull request: what was asked, what was done, and what was measured. Pure.

Everything that comes from the model, the repository or its tests goes through ``app.report.markdown``; the words of
our own are the headings, the tables and the verdict. Each section is closed in itself, so whole sections can be left
out; the test log takes the room that the others leave.
"""

from __future__ import annotations

from collections.abc import Sequence

from agent.types import Evidence, Plan, RunResult
from app.report import judged, measured, words
from app.report import markdown as md
from app.report.facts import NO_FINDINGS, PRODUCT, PULL_MARK, JobFacts, Review
from app.report.planned import plan_text
from app.report.sections import Section, fitting, joined

_FILES = 60


def marker(facts: JobFacts) -> str:
    """The hidden first line by which the pull request of this issue is found again."""
    return f"{PULL_MARK}{'pr' if facts.is_pull else 'issue'}={facts.number} -->"


def pr_body(result: RunResult, facts: JobFacts, review: Review = NO_FINDINGS, *, limit: int = md.BODY_LIMIT) -> str:
    """The whole body, at most ``limit`` bytes of UTF-8, beginning with ``marker(facts)``."""
    before = [
        Section(marker(facts)),
        Section(_verdict(result)),
        Section(md.prose(result.summary, facts.links), 8, "the summary"),
        Section("" if facts.is_pull else f"Fixes #{facts.number}"),
    ]
    return _document([*before, *_sections(result, facts, review), Section(_footer(result, facts))], result, limit)


def with_undone(body: str, sha: str, by: str) -> str:
    """``body`` with a line at its beginning that says that commit ``sha`` was taken back by commit ``by``. What it says
    already is not said again."""
    marker, _, rest = body.replace("\r\n", "\n").partition("\n")
    told = f"**Taken back:** commit {sha[:12]}, by commit {by[:12]}. What is said of it below does not hold any more."
    longer = f"{marker}\n\n{told}\n{rest}"
    return body if told in body or md.size(longer) > md.BODY_LIMIT else longer


_ACCOUNT_LIMIT = 45_000
"""Bytes; a comment has other parts beside it."""


def account(result: RunResult, facts: JobFacts, review: Review = NO_FINDINGS) -> str:
    """The same facts as a part of a comment, for work that was added to a person's own pull request."""
    before = Section(md.prose(result.summary, facts.links), 8, "the summary")
    notes = Section("\n".join(f"- {md.inline(note)}" for note in result.notes[:10]))
    return _document([before, *_sections(result, facts, review), notes], result, _ACCOUNT_LIMIT)


def _sections(result: RunResult, facts: JobFacts, review: Review) -> list[Section]:
    """What a person has to decide comes first, then what was done, then why it can be believed."""
    evidence = result.evidence
    return [
        Section(judged.integrity(evidence, result.plan), 8, "the changes to tests"),
        Section(judged.left_out(review), 6, "the changes that were left out"),
        Section(judged.remarks(review), 7, "remarks"),
        Section(_files(result, facts, review), 5, "the reasons by file"),
        Section(judged.reviewed(result.review), 7, "the review"),
        Section(measured.checks(evidence.checks), 7, "the findings of linters"),
        Section(measured.proof(evidence), 8, "the proof table"),
        Section(measured.tests(evidence), 7, "the test numbers"),
        Section(measured.impact(evidence.impact, evidence.impact_more), 5, "the callers of what changed"),
        Section(measured.reproduce(evidence), 8, "how to reproduce"),
        Section(_plan(result.plan), 4, "the plan"),
    ]


def _document(sections: Sequence[Section], result: RunResult, limit: int) -> str:
    """The sections that fit, and the log before the last one in the room that they leave."""
    *first, last = fitting(sections[:-1], limit - measured.LOG_LEAST, sections[-1])
    log = Section(measured.log(result.evidence.tests, limit - md.size(joined([*first, last])) - 10))
    return joined([*first, log, last], limit)


def _verdict(result: RunResult) -> str:
    mark = "✔" if result.proven else "⚠"
    name, _, rest = words.verdict(result.evidence).partition(": ")
    lines = [f"> {mark} **{name}.** {rest[:1].upper()}{rest[1:]}"]
    if not result.proven and result.reason:
        lines.append(f"> {md.inline(result.reason)}")
    return "\\\n".join(lines)


def _files(result: RunResult, facts: JobFacts, review: Review) -> str:
    left_out = {change.path for change in review.left_out}
    paths = [change.path for change in result.change_set.changes if change.path not in left_out]
    if not paths:
        return ""
    reasons = {reason.path: reason.reason for reason in result.file_reasons}

    def line(path: str) -> str:
        why = md.inline(md.head(reasons.get(path, ""), 400), facts.links)
        return f"{md.code(path)}{_how(path, review)}" + (f": {why}" if why else "")

    return "\n".join(["### What changed", "", *md.bullets(paths, line, most=_FILES)])


def _how(path: str, review: Review) -> str:
    if path in review.deleted:
        return " (deleted)"
    return " (new)" if path in review.added else ""


def _plan(plan: Plan | None) -> str:
    return md.details("The plan", plan_text(plan)) if plan else ""


def _footer(result: RunResult, facts: JobFacts) -> str:
    usage = result.usage
    took = words.duration(sum(result.seconds.values())) if result.seconds else ""
    isolation = _isolation(result.evidence)
    facts_line = [
        f"Model {md.code(facts.model)}" if facts.model else "",
        words.money(usage),
        words.tokens(usage),
        f"{took} in all" if took else "",
        f"isolation: {md.inline(isolation)}" if isolation else "",
    ]
    notes = [f"- {md.inline(note)}" for note in result.notes[:10]]
    ask = (
        "To have something changed, request changes in a review, write a comment that begins with `/agent fix` and "
        "says what, or push to this branch yourself."
    )
    parts = [
        "\n".join(["### Notes", "", *notes]) if notes else "",
        "---",
        ask,
        f"<sub>Made by {PRODUCT} for {md.code(facts.requester)}. {_sentence(facts_line)}</sub>"
        if facts.requester
        else f"<sub>Made by {PRODUCT}. {_sentence(facts_line)}</sub>",
    ]
    return "\n\n".join(part for part in parts if part)


def _isolation(evidence: Evidence) -> str:
    """What weakens it is told in full; of what does not, the name is enough."""
    return evidence.isolation if evidence.weak else evidence.isolation.partition(",")[0]


def _sentence(parts: Sequence[str]) -> str:
    text = " · ".join(part for part in parts if part)
    return text[:1].upper() + text[1:]
