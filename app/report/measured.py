"""What the harness measured, each kind a section: linters, proof, tests, coverage, callers, how to see it. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from agent.types import (
    MISSED_PLACES,
    Caller,
    Check,
    Coverage,
    Evidence,
    Finding,
    Impact,
    Partial,
    TestRun,
)
from app.report import markdown as md
from app.report import words

LOG_LEAST = 4_000
"""Bytes that are kept for the end of the test log."""
_LOG_LIMIT = 30_000
_PROOFS, _SHORT, _CALLERS = 30, 100, 4
_MARKS = {
    "passed": "✔",
    "failed": "✘",
    "error": "✘",
    "xfailed": "⚠",
    "skipped": "○",
    "missing": "○",
    "not_run": "○",
}


def checks(checks: Sequence[Check]) -> str:
    """New findings in full; that a tool found nothing, or could not run, is one line of it."""
    if all(check.level == "syntax" and not check.found for check in checks):
        return ""
    told = [f"{md.code(check.tool)} {_said(check)}" for check in checks[: md.LISTED] if check.level == "static"]
    found = [(check.tool, one) for check in checks for one in check.found]
    lines = md.bullets(found, _finding, more=sum(check.more for check in checks))
    intro = f"Compared with the base: {'; '.join(told)}." if told else ""
    return "\n\n".join(part for part in ("### Checks", intro, "\n".join(lines)) if part)


def _finding(found: tuple[str, Finding]) -> str:
    tool, one = found
    return f"{md.code(one.place)}: {md.inline(one.message)} ({md.inline(f'{tool} {one.rule}'.strip())})"


def _said(check: Check) -> str:
    if check.silent:
        return f"said nothing ({md.inline(check.silent)})"
    return words.count(check.count, "new finding") if check.found else "nothing new"


def proof(evidence: Evidence) -> str:
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


def tests(evidence: Evidence) -> str:
    before, after = evidence.baseline, evidence.tests
    if after is None:
        return ""
    parts = [
        "### Tests",
        "" if evidence.final else "Only the tests that the change can reach were run, because of what they showed.",
        _counted(before, after) if evidence.final else "",
        _partial(evidence.partial),
        _cached(evidence),
        _status_note("Before", before),
        _status_note("After", after),
    ]
    if comparison := evidence.comparison:
        told = {proof.test for proof in evidence.proof[:_PROOFS]}
        parts += [
            md.listed("Fixed", [test for test in comparison.fixed if test not in told]),
            md.listed("New and passing", [test for test in comparison.added if test not in told]),
            md.listed("New and failing", comparison.added_failing, "✘ "),
            md.listed("Passed before, fail now", comparison.regressed, "✘ "),
            md.listed("Ran before, do not run now", comparison.lost, "✘ "),
            md.listed("Failed before, still fail", comparison.still_failing),
            md.listed(
                "Flaky (passed when run again alone, or failed by then without the change too)", comparison.flaky, "⚠ "
            ),
        ]
    parts.append(_coverage(evidence.coverage))
    return "\n\n".join(part for part in parts if part)


def _partial(part: Partial | None) -> str:
    if part is None:
        return ""
    files = md.details("These files", "\n".join(md.bullets(part.files, md.code)))
    return f"⚠ Only {part.short} were run, before and after: {md.inline(part.why)}\n\n{files}"


def _cached(evidence: Evidence) -> str:
    at = evidence.baseline_from
    return f"Before: measured on {at} by an earlier run on the same tree, taken from the cache." if at else ""


def _coverage(coverage: Coverage | None) -> str:
    """A sentence, and the lines that no test runs, folded."""
    said = words.coverage(coverage) if coverage else ""
    if not said or coverage is None or not coverage.missed:
        return f"{said}." if said else ""
    places = md.bullets(coverage.missed, lambda place: md.code(str(place)), more=coverage.more, most=MISSED_PLACES)
    return md.details(f"{said}; not these", "\n".join(places))


def impact(impact: Sequence[Impact], more: int) -> str:
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
        for name, one in zip(words.symbols(used[: md.LISTED]), used, strict=False)
    ]
    callers = words.count(sum(one.count for one in used), "caller")
    ran = sum(one.covered for one in used)
    title = f"Blast radius: {callers} of {words.count(len(used), 'changed symbol')}, {ran:,} of them run in a test"
    beyond = f" ({words.count(more, 'more changed symbol')} not looked at)" if more else ""
    return md.details(title + beyond, md.rows(head, "lrrrl", rows))


def _caller(caller: Caller) -> str:
    return md.cell(f"{caller.path}:{caller.line}") + ("" if caller.covered else " (not run)")


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
    if run is None or run.status.concludes:
        note = "" if run is None or run.structured else "only the exit code is known, single tests are not"
    else:
        note = words.SUITE[run.status]
    if not note or run is None:
        return ""
    detail = f" {md.inline(run.detail)}" if run.detail else ""
    return f"{when}: {note}.{detail}"


def reproduce(evidence: Evidence) -> str:
    if not evidence.reproduce:
        return ""
    lines = md.head("\n".join(evidence.reproduce[:100]), 4_000)
    return f"### See it yourself\n\nOn this branch:\n\n{md.fence(lines, 'sh')}"


def log(run: TestRun | None, room: int) -> str:
    if run is None or not run.log.strip():
        return ""
    shell = md.size(md.details("", md.fence(""))) + 400
    read = md.tail(run.log, 4 * _LOG_LIMIT)
    text = md.clean(read, most=len(read), show_direction=True).strip("\n")
    # The fence grows with the longest run of backticks inside, on both sides.
    fences = 2 * md.size(md.fence(text).split("\n", 1)[0])
    kept = md.tail(text, min(_LOG_LIMIT, room - shell - fences))
    if not kept.strip():
        return ""
    cut = "" if (kept, read) == (text, run.log) else " (the end of it)"
    command = md.code(md.head(" ".join(md.head(word, 200) for word in run.command[:100]), 200))
    return md.details(f"Test log{cut}", f"{command}\n\n{md.fence(kept)}")
