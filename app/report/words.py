"""Numbers and measured facts as short phrases. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agent.types import Comparison, Coverage, Evidence, Impact, Outcome, SuiteStatus, TestOutcome, TestRun, Usage
from app.report import markdown as md

_TOOL_BYTES = 100

SUITE = {
    SuiteStatus.OK: "the tests pass",
    SuiteStatus.FAILING: "some tests fail",
    SuiteStatus.NO_TESTS: "no tests ran",
    SuiteStatus.NOT_RUN: "the tests could not run",
    SuiteStatus.TIMED_OUT: "the tests ran out of time",
    SuiteStatus.OUT_OF_MEMORY: "the tests ran out of memory",
    SuiteStatus.INCONSISTENT: "the test report and the exit code disagree, so nothing can be concluded",
}


def duration(seconds: float) -> str:
    """``0.4 s``, ``12 s``, ``3 min 5 s``, ``1 h 3 min``."""
    if seconds < 10:
        return f"{max(0.0, seconds):.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def count(number: int, one: str, many: str = "") -> str:
    """``1 test``, ``1,204 tests``."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def money(usage: Usage) -> str:
    """What the model calls cost; never a zero for paid work. A call that nobody answered is none that was counted."""
    if not (usage.calls or usage.embedded_tokens):
        return "no model reply"
    if usage.dollars is None:
        return "cost unknown (no price is set for this model)"
    about = "about " if usage.estimated else ""
    if usage.dollars <= 0:
        return "no cost at the set price"
    if usage.dollars < 0.01:
        return f"{about}less than $0.01"
    return f"{about}${usage.dollars:,.2f}"


def tokens(usage: Usage) -> str:
    """Calls and tokens, for example ``4 model calls, 12,000 tokens in (9,000 of them cached), 800 out``."""
    if not usage.calls:
        return ""
    cached = f" ({usage.cached_tokens:,} of them cached)" if usage.cached_tokens else ""
    estimated = " (estimated: the endpoint gave no counts)" if usage.estimated else ""
    read = f"{usage.input_tokens:,} tokens in{cached}"
    return f"{count(usage.calls, 'model call')}, {read}, {usage.output_tokens:,} out{estimated}"


def counts(run: TestRun) -> Mapping[str, int]:
    """Row name → number of tests, in the order to show."""
    return {
        "passed": len(run.ids(TestOutcome.PASSED)),
        "failed": len(run.ids(TestOutcome.FAILED)),
        "errors": len(run.ids(TestOutcome.ERROR)),
        "skipped": len(run.ids(TestOutcome.SKIPPED)),
        "expected failures": len(run.ids(TestOutcome.XFAILED)),
    }


def failures(run: Mapping[str, Any]) -> int:
    """How many tests failed, of the event of a run, which names only the first of them."""
    return len(run["failed"]) + int(run.get("more", 0))


def tests_in_short(run: TestRun | None) -> str:
    """``213 passed, 1 failed``; or why there are no numbers."""
    if run is None:
        return "the tests were not run"
    if not run.structured or not run.outcomes:
        return SUITE[run.status]
    shown = counts(run)
    return ", ".join(f"{number:,} {name}" for name, number in shown.items() if number or name == "passed")


def coverage(coverage: Coverage) -> str:
    """``12 of 14 changed lines ran in a test``; empty where nothing was seen."""
    if coverage.absent or not coverage.lines:
        return ""
    of = f" (of {count(coverage.tests, 'test file')} that can reach them)" if coverage.tests else ""
    return f"{coverage.ran:,} of {count(coverage.lines, 'changed line')} ran in a test{of}"


SHOWN_BY_A_TEST = frozenset({Outcome.ALREADY_FIXED, Outcome.NOT_REPRODUCED})
"""Outcomes that say that the code is right as it is: a new test passes on it."""


def symbols(impact: Sequence[Impact]) -> Sequence[str]:
    """What a change touches, by name; with its file where two have the same name."""
    known = Counter(one.symbol for one in impact)
    places = [f"{one.symbol} in {one.path}" if known[one.symbol] > 1 else one.symbol for one in impact]
    return [f"{place} (removed)" if one.removed else place for place, one in zip(places, impact, strict=True)]


def verdict(evidence: Evidence, outcome: Outcome | None = None) -> str:
    """What was measured, in one or two sentences of our own; the only line many will read."""
    if outcome in SHOWN_BY_A_TEST and evidence.comparison is not None:
        number = len(evidence.comparison.added)
        return f"Shown: {count(number, 'new test')} {'passes' if number == 1 else 'pass'} on the unchanged code."
    if evidence.proven:
        return _proven(evidence)
    if evidence.holds:
        return _waits(evidence)
    if evidence.final is None:
        why = "; ".join(_early(evidence))
        return f"Not proven: {f'{why}, so not all tests were run' if why else 'the tests were not run on this change'}."
    if not evidence.final.status.concludes:
        return f"Not proven: {SUITE[evidence.final.status]}."
    return f"Not proven: {'; '.join(_doubts(evidence))}."


_DECIDING = frozenset(
    {
        *("collection_changed", "config_changed", "ci_changed", "exit_status_hook", "runner_shadowed"),
        *("aware_of_tests", "unreadable"),
    }
)
"""Kinds of findings after which a report of the tests is no independent word any more."""


def _waits(evidence: Evidence) -> str:
    turned = len(evidence.turned)
    touched = count(len(evidence.integrity) or len(evidence.given_up), "change")
    deciding = any(finding.kind in _DECIDING for finding in evidence.integrity)
    return (
        f"Waits for a person: {count(turned, 'test')} failed before this change and "
        f"{'passes' if turned == 1 else 'pass'} with it, but {touched} to what was tested before must be "
        "acknowledged first."
        + (
            " How the tests run or what their result means is changed too, so even that rests on it."
            if deciding
            else ""
        )
    )


def _proven(evidence: Evidence) -> str:
    number = len(evidence.turned)
    assert evidence.comparison is not None  # part of being proven
    said = (
        f"Proven: {count(number, 'test')} failed before this change and {'passes' if number == 1 else 'pass'} with it, "
        "and no test that passed before fails now."
    )
    if still := len(evidence.comparison.still_failing):
        said += f" {count(still, 'test')} failed before and still {'does' if still == 1 else 'do'}."
    return said


def _early(evidence: Evidence) -> Iterator[str]:
    """Why the measuring ended before the whole suite."""
    if evidence.complaints:
        yield _complained(evidence)
    if evidence.comparison is not None:
        yield from _worse(evidence.comparison)


def _worse(comparison: Comparison) -> Iterator[str]:
    for tests, kind, one, many in (
        (comparison.regressed, "test", "passed before and fails now", "passed before and fail now"),
        (comparison.lost, "test", "ran before and does not run now", "ran before and do not run now"),
        (comparison.added_failing, "new test", "fails", "fail"),
    ):
        if tests:
            yield f"{count(len(tests), kind)} {one if len(tests) == 1 else many}"


def _doubts(evidence: Evidence) -> Iterator[str]:
    if evidence.partial:
        yield f"only {evidence.partial.short} were run, since all tests do not end in their time"
    if evidence.unbuilt:
        yield f"nothing built {count(len(evidence.unbuilt), 'changed file')} for the tests"
    if evidence.comparison is None:
        yield "there is nothing to compare the tests with"
    else:
        yield from _worse(evidence.comparison)
    if evidence.complaints:
        yield _complained(evidence)
    if evidence.integrity:
        yield f"{count(len(evidence.integrity), 'change')} could make the tests say less than before"
    if evidence.given_up:
        gone = len(evidence.given_up)
        yield f"{count(gone, 'test')} that ran before {'is' if gone == 1 else 'are'} given up, as the plan says"
    if not evidence.turned:
        yield "no test was red before and green after"
    if not all(proof.holds or proof.guards for proof in evidence.proof):
        yield "not every new or changed test passes with the change and runs without it"


def _complained(evidence: Evidence) -> str:
    said = [
        f"{md.inline(md.head(check.tool, _TOOL_BYTES))} has {count(check.count, 'new finding')}"
        if check.level == "static"
        else f"{count(check.count, 'file')} can't be parsed any more"
        for check in evidence.complaints
    ]
    return " and ".join(said)


PARTS = {
    "part": "a part of the tests, as they are",
    "proof": "single tests, before and after",
    "again": "a failed test again, alone",
    "watched": "which lines run in the tests",
}
"""Runs of tests that say nothing of the whole, by name: single tests, half of which are meant to fail, and the one for
the lines."""
