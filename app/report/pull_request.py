"""The body of a pull request: what was asked, what was done, and what was measured. Pure.

Everything that comes from the model, the repository or its tests goes through ``app.report.markdown``; the words of
our own are the headings, the tables and the verdict. Each section is closed in itself, so whole sections can be left
out; the test log takes the room that the others leave.
"""

from __future__ import annotations

from collections.abc import Sequence

from agent.plan import leave
from agent.types import (
    Caller,
    Check,
    Coverage,
    Evidence,
    Impact,
    IntegrityFinding,
    Place,
    Plan,
    ReviewFinding,
    RunResult,
    SuiteStatus,
    TestRun,
)
from agent.verify.integrity import HUNK_LIMIT
from app.report import markdown as md
from app.report import words
from app.report.facts import NO_FINDINGS, PRODUCT, PULL_MARK, JobFacts, Review
from app.report.sections import Section, fitting, joined

_PROOFS, _LISTED, _FILES, _FINDINGS = 30, 20, 60, 20
_PATCHES = 16_000
_SHORT = 100
_CALLERS = 4
_LOG_LIMIT, _LOG_LEAST = 30_000, 4_000
_MARKS = {
    "passed": "✔",
    "failed": "✘",
    "error": "✘",
    "xfailed": "⚠",
    "skipped": "○",
    "missing": "○",
    "not_run": "○",
}


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
    return _document([*before, *_measured(result, facts, review), Section(_footer(result, facts))], result, limit)


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
    return _document([before, *_measured(result, facts, review), notes], result, _ACCOUNT_LIMIT)


def _measured(result: RunResult, facts: JobFacts, review: Review) -> list[Section]:
    """What a person has to decide comes first, then what was done, then why it can be believed."""
    evidence = result.evidence
    return [
        Section(_integrity(evidence, result.plan), 8, "the changes to tests"),
        Section(_left_out(review), 6, "the changes that were left out"),
        Section(_remarks(review), 7, "remarks"),
        Section(_files(result, facts, review), 5, "the reasons by file"),
        Section(_reviewed(result.review), 7, "the review"),
        Section(_checks(evidence.checks), 7, "the findings of linters"),
        Section(_proof(evidence), 8, "the proof table"),
        Section(_tests(evidence), 7, "the test numbers"),
        Section(_impact(evidence.impact, evidence.impact_more), 5, "the callers of what changed"),
        Section(_reproduce(evidence), 8, "how to reproduce"),
        Section(_plan(result.plan), 4, "the plan"),
    ]


def _document(sections: Sequence[Section], result: RunResult, limit: int) -> str:
    """The sections that fit, and the log before the last one in the room that they leave."""
    *first, last = fitting(sections[:-1], limit - _LOG_LEAST, sections[-1])
    log = Section(_log(result.evidence.tests, limit - md.size(joined([*first, last])) - 10))
    return joined([*first, log, last], limit)


# ── sections ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _verdict(result: RunResult) -> str:
    mark = "✔" if result.proven else "⚠"
    name, _, rest = words.verdict(result.evidence).partition(": ")
    lines = [f"> {mark} **{name}.** {rest[:1].upper()}{rest[1:]}"]
    if not result.proven and result.reason:
        lines.append(f"> {md.inline(result.reason)}")
    return "\\\n".join(lines)


def _checks(checks: Sequence[Check]) -> str:
    """New findings in full; that a tool found nothing, or could not run, is one line of it."""
    if all(check.level == "syntax" and not check.found for check in checks):
        return ""
    told = [f"{md.code(check.tool)} {_said(check)}" for check in checks if check.level == "static"]
    found = [
        f"- {md.code(_shown(one.place))}: {md.inline(one.message)} ({md.inline(f'{check.tool} {one.rule}'.strip())})"
        for check in checks
        for one in check.found
    ]
    shown, more = md.first(found, _LISTED)
    more += sum(check.more for check in checks)
    intro = f"Compared with the base: {'; '.join(told)}." if told else ""
    return "\n\n".join(
        part for part in ("### Checks", intro, "\n".join([*shown, *([f"- … and {more} more"] if more else [])])) if part
    )


def _said(check: Check) -> str:
    if check.silent:
        return f"said nothing ({md.inline(check.silent)})"
    return words.count(check.count, "new finding") if check.found else "nothing new"


def _proof(evidence: Evidence) -> str:
    if not evidence.proof:
        return ""
    shown, more = md.first(evidence.proof, _PROOFS)
    known = evidence.baseline.messages if evidence.baseline else {}
    table = md.rows(
        ("Test", "Before", "After"),
        "lll",
        [
            (
                md.cell(p.test),
                _seen(p.on_base, p.base_message or known.get(p.test, "")),
                _seen(p.on_head, p.head_message),
            )
            for p in shown
        ],
    )
    parts = [
        "### Proof",
        "Each test ran in a fresh sandbox: on the base commit with only this change's tests added, and with "
        "the whole change.",
        table,
        f"*… and {more} more.*" if more else "",
        _told("How it failed before", [(p.test, p.base_message or known.get(p.test, "")) for p in shown]),
        _told("What it said after", [(p.test, p.head_message) for p in shown]),
    ]
    return "\n\n".join(part for part in parts if part)


def _seen(outcome: str, message: str) -> str:
    """An outcome for a table cell, with its message where that is one short line."""
    seen = f"{_MARKS.get(outcome, '○')} {str(outcome).replace('_', ' ')}"
    return f"{seen}: {md.cell(message)}" if message.strip() and _is_short(message) else seen


def _is_short(message: str) -> bool:
    return "\n" not in message.strip() and len(message) <= _SHORT


def _told(title: str, messages: Sequence[tuple[str, str]]) -> str:
    """The messages that are too long for the table, folded."""
    long = [(test, text) for test, text in messages if text.strip() and not _is_short(text)]
    blocks = [f"{md.code(test)}\n\n{md.fence(md.head(text, 1_500))}" for test, text in long[:5]]
    return md.details(title, "\n\n".join(blocks)) if blocks else ""


def _tests(evidence: Evidence) -> str:
    before, after = evidence.baseline, evidence.tests
    if after is None:
        return ""
    parts = [
        "### Tests",
        "" if evidence.final else "Only the tests that the change can reach were run, because of what they showed.",
        _counted(before, after) if evidence.final else "",
        _cached(evidence),
        _status_note("Before", before),
        _status_note("After", after),
    ]
    if comparison := evidence.comparison:
        told = {proof.test for proof in evidence.proof[:_PROOFS]}
        parts += [
            _listed("Fixed", [test for test in comparison.fixed if test not in told]),
            _listed("New and passing", [test for test in comparison.added if test not in told]),
            _listed("New and failing", comparison.added_failing, "✘ "),
            _listed("Passed before, fail now", comparison.regressed, "✘ "),
            _listed("Ran before, do not run now", comparison.lost, "✘ "),
            _listed("Failed before, still fail", comparison.still_failing),
            _listed(
                "Flaky (passed when run again alone, or failed by then without the change too)", comparison.flaky, "⚠ "
            ),
        ]
    parts.append(_coverage(evidence.coverage))
    return "\n\n".join(part for part in parts if part)


def _cached(evidence: Evidence) -> str:
    at = evidence.baseline_from
    return f"Before: measured on {at} by an earlier run on the same tree, taken from the cache." if at else ""


def _coverage(coverage: Coverage | None) -> str:
    """A sentence, and the lines that no test runs, folded."""
    said = words.coverage(coverage) if coverage else ""
    if not said or coverage is None or not coverage.missed:
        return f"{said}." if said else ""
    places = [f"- {md.code(_span(place))}" for place in coverage.missed]
    more = [f"- … and {coverage.more} more"] if coverage.more else []
    return md.details(f"{said}; not these", "\n".join([*places, *more]))


def _impact(impact: Sequence[Impact], more: int) -> str:
    """Who uses what the change touches: one row a symbol, its first callers, folded."""
    used = [one for one in impact if one.callers]
    if not used:
        return ""
    head = ("Changed", "Callers", "By name only", "Run in a test", "Where")
    rows = [
        (
            md.cell(name),
            f"{one.resolved:,}",
            f"{one.by_name:,}",
            f"{one.covered:,} of {one.count:,}",
            ", ".join(map(_caller, one.callers[:_CALLERS])) + (", …" if one.count > _CALLERS else ""),
        )
        for name, one in zip(words.symbols(used[:_LISTED]), used, strict=False)
    ]
    callers = words.count(sum(one.count for one in used), "caller")
    ran = sum(one.covered for one in used)
    title = f"Blast radius: {callers} of {words.count(len(used), 'changed symbol')}, {ran:,} of them run in a test"
    beyond = f" ({words.count(more, 'more changed symbol')} not looked at)" if more else ""
    return md.details(title + beyond, md.rows(head, "lrrrl", rows))


def _caller(caller: Caller) -> str:
    return md.cell(f"{_shown(caller.path)}:{caller.line}") + ("" if caller.covered else " (not run)")


def _span(place: Place) -> str:
    lines = str(place.start) if place.start == place.end else f"{place.start}-{place.end}"
    return f"{_shown(place.path)}:{lines}"


def _counted(before: TestRun | None, after: TestRun) -> str:
    first = words.counts(before) if before else {}
    second = words.counts(after)
    if not any(first.values()) and not any(second.values()):
        return ""
    names = [n for n in second if n in ("passed", "failed") or first.get(n) or second[n]]
    body = [(name, f"{first[name]:,}" if name in first else "–", f"**{second[name]:,}**") for name in names]
    body.append(("took", words.duration(before.seconds) if before else "–", words.duration(after.seconds)))
    return md.rows(("", "Before", "After"), "lrr", body)


def _status_note(when: str, run: TestRun | None) -> str:
    if run is None or run.status in (SuiteStatus.OK, SuiteStatus.FAILING):
        note = "" if run is None or run.structured else "only the exit code is known, single tests are not"
    else:
        note = words.SUITE[run.status]
    if not note or run is None:
        return ""
    detail = f" {md.inline(run.detail)}" if run.detail else ""
    return f"{when}: {note}.{detail}"


def _listed(title: str, tests: Sequence[str], mark: str = "") -> str:
    if not tests:
        return ""
    shown, more = md.first(tests, _LISTED)
    lines = [f"- {md.code(test)}" for test in shown] + ([f"- … and {more} more"] if more else [])
    if len(lines) == 1:
        return f"{mark}{title}: {md.code(tests[0])}"
    return md.details(f"{mark}{title}: {len(tests)}", "\n".join(lines))


def acknowledgeable(evidence: Evidence) -> str:
    """Names the changes to tests that a person can acknowledge with a comment, since all of them are shown and nothing
    else keeps the change a draft; empty where there is nothing of the kind."""
    shown = len(evidence.integrity) <= _FINDINGS and len(evidence.given_up) <= _LISTED
    return evidence.integrity_digest if evidence.holds and shown else ""


def _integrity(evidence: Evidence, plan: Plan | None) -> str:
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
    gone = _listed("Ran before, do not run any more, as the plan says", evidence.given_up)
    parts = ["### Changes to tests", intro, _reasons(findings, plan), *blocks, gone, _acknowledging(evidence)]
    return "\n\n".join(part for part in parts if part)


def _reasons(findings: Sequence[IntegrityFinding], plan: Plan | None) -> str:
    """The model's, file by file; the same reason once."""
    files: dict[str, list[str]] = {}
    for path in dict.fromkeys(finding.path for finding in findings if finding.excused):
        files.setdefault(leave(plan, path), []).append(path)
    lines = [
        f"- {', '.join(md.code(_shown(path)) for path in paths[:6])}: {md.inline(md.head(why, 600))}"
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
    limit = min(_room(evidence), HUNK_LIMIT)
    return any(md.size(finding.hunk) > limit for finding in evidence.integrity)


def _room(evidence: Evidence) -> int:
    """Characters of one hunk."""
    return max(500, _PATCHES // max(1, min(len(evidence.integrity), _FINDINGS)))


def _left_out(review: Review) -> str:
    if not review.left_out:
        return ""
    blocks = []
    room = max(500, _PATCHES // len(review.left_out))
    for change in review.left_out[:_FINDINGS]:
        patch = md.details("The change as a patch", md.fence(md.head(change.patch, room), "diff"))
        blocks.append(f"{md.code(change.path)}: {change.reason}" + (f"\n\n{patch}" if change.patch.strip() else ""))
    return "\n\n".join(["### Left out", "Not part of this pull request:", *blocks])


def _remarks(review: Review) -> str:
    if not review.remarks:
        return ""
    shown = review.remarks[:_LISTED]
    lines = [f"- {md.code(remark.path)}: {remark.detail}" for remark in shown]
    if more := len(review.remarks) - len(shown):
        lines.append(f"- … and {more} more")
    return "\n".join(["### Look closely at", "", *lines])


def _reviewed(findings: Sequence[ReviewFinding]) -> str:
    if not findings:
        return ""
    shown, more = md.first(findings, _LISTED)
    lines = [_finding(finding) for finding in shown] + ([f"- … and {more} more"] if more else [])
    intro = "The model read the finished change once more. This is its opinion, not a measurement."
    return "\n".join(["### Review", "", intro, "", *lines])


def _finding(finding: ReviewFinding) -> str:
    place = _shown(finding.path) + ("" if finding.line is None else f":{finding.line}")
    kind = "" if finding.severity == "remark" else f"**{'reworked since' if finding.reworked else 'open'}**: "
    said = md.inline(md.head(f"{finding.problem} {finding.advice}".strip(), 600))
    return f"- {kind}{md.code(place)}: {said}"


def _files(result: RunResult, facts: JobFacts, review: Review) -> str:
    left_out = {change.path for change in review.left_out}
    paths = [change.path for change in result.change_set.changes if change.path not in left_out]
    if not paths:
        return ""
    reasons = {reason.path: reason.reason for reason in result.file_reasons}
    shown, more = md.first(paths, _FILES)
    lines = []
    for path in shown:
        why = md.inline(md.head(reasons.get(path, ""), 400), facts.links)
        lines.append(f"- {md.code(_shown(path))}{_how(path, review)}" + (f": {why}" if why else ""))
    if more:
        lines.append(f"- … and {more} more")
    return "\n".join(["### What changed", "", *lines])


def _shown(path: str) -> str:
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _how(path: str, review: Review) -> str:
    if path in review.deleted:
        return " (deleted)"
    return " (new)" if path in review.added else ""


def _plan(plan: Plan | None) -> str:
    return md.details("The plan", plan_text(plan)) if plan else ""


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


def _reproduce(evidence: Evidence) -> str:
    if not evidence.reproduce:
        return ""
    return (
        f"### See it yourself\n\nOn this branch:\n\n{md.fence(md.head(chr(10).join(evidence.reproduce), 4_000), 'sh')}"
    )


def _log(run: TestRun | None, room: int) -> str:
    if run is None or not run.log.strip():
        return ""
    shell = md.size(md.details("", md.fence(""))) + 400
    # The fence grows with the longest run of backticks inside, on both sides.
    text = md.clean(run.log, show_direction=True).strip("\n")
    fences = 2 * md.size(md.fence(text).split("\n", 1)[0])
    kept = md.tail(text, min(_LOG_LIMIT, room - shell - fences))
    if not kept.strip():
        return ""
    cut = "" if kept == text else " (the end of it)"
    command = md.code(md.head(" ".join(run.command), 200))
    return md.details(f"Test log{cut}", f"{command}\n\n{md.fence(kept)}")


def _footer(result: RunResult, facts: JobFacts) -> str:
    usage = result.usage
    took = words.duration(sum(result.seconds.values())) if result.seconds else ""
    isolation = result.evidence.isolation
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


def _sentence(parts: Sequence[str]) -> str:
    text = " · ".join(part for part in parts if part)
    return text[:1].upper() + text[1:]
