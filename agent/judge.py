"""Decides whether a change is accepted, and says what is wrong with it otherwise. Pure.

The model's word never counts: everything here comes from what the harness measured.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from agent.edit import syntax
from agent.listing import listed
from agent.tools.base import Claim
from agent.tree import Draft
from agent.types import Comparison, Evidence, Plan, PlanStep, Proof, SuiteStatus, TestOutcome, TestRun
from agent.verify.paths import is_test
from agent.verify.report import gist

PROOF_FREE = frozenset({"documentation", "refactoring", "question"})
"""Intents that no test can turn from red to green. One about tests alone is a fourth, where only tests are changed."""

_NOTHING_TURNED = (
    "No test fails on the unchanged code and passes now, so nothing shows that the task is done. "
    "Add a test that does, in a new test file."
)
_NOTHING_TOLD = (
    "The tests pass, but their command tells of no single test, so none can be seen to fail without the change, and no "
    "further test can help. Call `finish` with the claim `blocked`, and say that the command has to write a JUnit "
    "file, named as `{report}` in it."
)

_SHOWN = 8
_IN_FULL = 3
"""Of many tests that fail most fail for one reason; the others are told in a line."""
_MESSAGE_CHARS = 1_200


def unusable(baseline: TestRun) -> str:
    """Why nothing can be proven on this base, for a person; empty when the work can begin.

    A base without tests is no obstacle: the change brings the first ones.
    """
    if baseline.status.concludes or baseline.status is SuiteStatus.NO_TESTS:
        return ""
    end = f"\n\n{baseline.log[-1_500:].strip()}" if baseline.log.strip() else ""
    return f"{baseline.detail or baseline.status.value}{_behind(baseline.log)}{end}"


_BEHIND = {
    r"EROFS|[Rr]ead-only file system": (
        "Something was to be written where nothing can be: what is installed is read-only here"
    ),
    r"(?i)connection (was )?refused|ECONNREFUSED|is the server running|(could not|can't|cannot) connect to"
    r"|name resolution|name or service not known|network is unreachable": (
        "Something was asked for that does not answer: there is no network and no service beside the tests. "
        "A database has to be started by the test line itself, or be one in a file"
    ),
    r"ImportError: cannot import name .*\(/environment/": (
        "What was installed is newer than this commit knows: give the day of the commit as `dependencies_before`, "
        "below [commands] in .graftsmith.toml"
    ),
}
"""Signs of an error that a person would not see with an environment of their own → what is behind it."""


def _behind(log: str) -> str:
    return next((f". {why}" for sign, why in _BEHIND.items() if re.search(sign, log)), "")


def of_claim(claim: Claim, evidence: Evidence, plan: Plan | None, changed: Collection[str]) -> tuple[str, ...]:
    """What keeps the model's claim from being accepted, each with what to do about it; empty when it is accepted.

    Args:
        changed: the paths of the change.
    """
    final, comparison = evidence.final, evidence.comparison
    if final is None:
        return _early(evidence)
    assert comparison is not None, "the whole suite is compared"
    if not final.status.concludes:
        return (f"The tests could not be judged: {final.detail or final.status.value}.",)
    found = [*_comparison(comparison, final), *_integrity(evidence)]
    if claim in (Claim.ALREADY_FIXED, Claim.NOT_REPRODUCED):
        return (*found, *_shown_by_a_test(claim, comparison, changed))
    found += _proofs(evidence.proof)
    if not found and not evidence.turned and _wants_proof(plan, changed):
        found.append(_unproven(final, evidence, changed))
    return tuple(found)


def _unproven(final: TestRun, evidence: Evidence, changed: Collection[str]) -> str:
    if not final.structured:
        return _NOTHING_TOLD
    if evidence.unbuilt:
        return (
            f"{listed(evidence.unbuilt, _SHOWN)} is compiled, and nothing builds it: the tests saw it as it was "
            "before, or not at all. Call `finish` with the claim `blocked`, and say that the command has to build it "
            "first, as in `python3 setup.py build_ext --inplace && pytest`."
        )
    ran = {test.partition("::")[0] for test in final.outcomes if "::" in test}
    idle = sorted(path for path in changed if is_test(path) and "test" in path.rsplit("/", 1)[-1] and path not in ran)
    if not (ran and idle):
        guards = [one.test for one in evidence.proof if one.guards]
        told = f"Its tests pass on the unchanged code, too: {_names(guards)}. " if guards else ""
        return f"{told}{_NOTHING_TURNED}"
    return (
        f"The test command does not reach {listed(idle, _SHOWN)}: no test of it ran, so nothing shows that the task is "
        "done. Put the test into a folder, or a file, that the command names."
    )


def of_step(
    step: PlanStep, draft: Draft, tests: TestRun | None, named: Collection[str], baseline: TestRun
) -> tuple[str, ...]:
    """What keeps one step from counting as done; empty when it does.

    Args:
        tests: the run of the tests that the model named for it.
        named: those names. A test that failed before must pass only when it is named by itself.
    """
    found = [
        f"The step makes {path}, and it is not there. Make it, or leave it out on purpose by calling finish."
        for path in step.new_files
        if path not in draft
    ]
    for path, file in draft.edits.items():
        before = draft.base.content(path) if path in draft.base.entries else None
        broken = syntax.broken(path, before, file.content) if file is not None else None
        if broken and file is not None:
            found.append(f"{path} does not parse: {syntax.explained(broken, file.content)}")
    if tests is None:
        return tuple(found)
    if not tests.status.concludes:
        return (*found, f"The tests that you named could not be judged: {tests.detail or tests.status.value}.")
    if not tests.structured and tests.status is SuiteStatus.FAILING:
        return (*found, f"The tests fail:\n{_short(tests.log)}")
    failing = sorted(tests.failed - (baseline.failed - frozenset(named)))
    return (*found, *_listed("fails", failing, tests.messages))


def _early(evidence: Evidence) -> tuple[str, ...]:
    """What a cheap level found; that is why the whole suite was not run."""
    if evidence.affected is not None and evidence.comparison is not None:
        return tuple(_comparison(evidence.comparison, evidence.affected))
    found = [
        f"{finding.place}: {finding.message} ({' '.join((check.tool, finding.rule)).strip()})"
        for check in evidence.complaints
        for finding in check.found
    ]
    more = sum(check.more for check in evidence.complaints)
    return (*found, *((f"… and {more} more of the kind",) if more else ()))


def _shown_by_a_test(claim: Claim, comparison: Comparison, changed: Collection[str]) -> list[str]:
    """The claim is that the unchanged code is right: a new test has to pass on it."""
    sources = sorted(path for path in changed if not is_test(path))
    if sources:
        return [f"You claim {claim.value}, but changed {', '.join(sources[:5])}. Undo that, or finish as done."]
    if not comparison.added:
        return [
            f"You claim {claim.value}; show it by a new test, in a new test file, that passes on the unchanged code."
        ]
    return []


def _wants_proof(plan: Plan | None, changed: Collection[str]) -> bool:
    if plan is None:
        return True
    return plan.intent not in PROOF_FREE and not (plan.intent == "tests" and all(map(is_test, changed)))


def _comparison(comparison: Comparison, final: TestRun) -> list[str]:
    found = [
        *_listed("passed before and fails now", comparison.regressed, final.messages),
        *_listed("is new and fails", comparison.added_failing, final.messages),
    ]
    if comparison.lost:
        found.append(
            f"Tests that ran before are gone, skipped or expected to fail now: {_names(comparison.lost)}. "
            "Put them back; existing tests must keep running."
        )
    return found


def _listed(what: str, tests: Sequence[str], messages: Mapping[str, str]) -> list[str]:
    shown = tests[:_SHOWN]
    full = _told_in_full(shown)
    found = [f"`{test}` {what}:{_said(messages.get(test, 'no message'), in_full=test in full)}" for test in shown]
    if len(tests) > _SHOWN:
        found.append(f"… and {len(tests) - _SHOWN} more of the kind: {_names(tests[_SHOWN:])}")
    return found


def _told_in_full(tests: Sequence[str]) -> Collection[str]:
    """One case of a test stands for all of them: their messages repeat its source."""
    firsts = {test.partition("[")[0]: test for test in reversed(tests)}
    return sorted(firsts.values(), key=tests.index)[:_IN_FULL]


def _said(message: str, *, in_full: bool) -> str:
    return f"\n{_short(message)}" if in_full else f" {gist(message)}"


def _integrity(evidence: Evidence) -> list[str]:
    return [
        f"{finding.path}: {finding.detail} ({finding.kind}). Tests must not say less than before; undo this, unless "
        "the task itself asks for it and a step of the plan says so in `test_changes`."
        for finding in evidence.integrity
        if not finding.excused
    ]


def _proofs(proofs: Sequence[Proof]) -> list[str]:
    return [
        f"`{proof.test}` {_SEEN[proof.on_base]} on the unchanged code{_why(proof.base_message)} and "
        f"{_SEEN[proof.on_head]} with the change{_why(proof.head_message)}, each in a fresh checkout. "
        "A new test must pass with the change, and run without it."
        for proof in proofs
        if not proof.holds and not proof.guards
    ]


_SEEN = {
    TestOutcome.PASSED: "passes",
    TestOutcome.FAILED: "fails",
    TestOutcome.ERROR: "ends in an error",
    TestOutcome.SKIPPED: "is skipped",
    TestOutcome.XFAILED: "fails as expected",
    "missing": "is missing",
    "not_run": "does not run",
}


def _why(message: str) -> str:
    return f" ({message})" if message else ""


def _names(tests: Sequence[str]) -> str:
    return listed([f"`{test}`" for test in tests], _SHOWN)


def _short(message: str) -> str:
    """The end of a failure message says most."""
    return message if len(message) <= _MESSAGE_CHARS else f"…{message[-_MESSAGE_CHARS:]}"
