"""What is accepted, what is not, and what the model is told about it."""

from __future__ import annotations

import re
from typing import Any

import pytest

from agent import endings, judge
from agent.brief import test_report as report_of
from agent.brief import verdict
from agent.budget import BudgetReached
from agent.errors import BugError, GraftsmithError, OperatorError, RetryLater, UserError
from agent.loop import Stuck
from agent.model.errors import CallCancelled, ContentRefused, InvalidOutput
from agent.tools import Claim, Conclusion
from agent.types import (
    Check,
    Comparison,
    Evidence,
    Finding,
    IntegrityFinding,
    Outcome,
    Plan,
    PlanStep,
    Proof,
    SuiteStatus,
    TestOutcome,
    TestRun,
)
from agent.verify.compiled import unbuilt, unseen
from app.report import words

NEW = "tests/test_new.py::test_x"


def run(status: SuiteStatus = SuiteStatus.OK, **more: Any) -> TestRun:
    return TestRun(command=("pytest",), status=status, **more)


def proof(on_base: str = "failed", on_head: str = "passed", **more: Any) -> Proof:
    fields = {"test": NEW, "on_base": on_base, "on_head": on_head, "command": ("pytest",)}
    return Proof.model_validate({**fields, "base_digest": "a", "head_digest": "b", **more})


def evidence(*proofs: Proof, **more: Any) -> Evidence:
    return Evidence(**{"final": run(), "comparison": Comparison(added=(NEW,)), "proof": proofs, **more})


def plan(intent: str = "bug_fix") -> Plan:
    return Plan.model_validate({"intent": intent, "summary": "s", "steps": (PlanStep(id="1", objective="o"),)})


def judged(found: Evidence, claim: Claim = Claim.DONE, intent: str = "bug_fix", changed: Any = ("a.py",)) -> str:
    return "\n".join(judge.of_claim(claim, found, plan(intent), changed))


# ── before the tests ──


def test_what_a_look_at_the_code_finds_is_told_alone() -> None:
    one = Finding(path="a.py", line=3, rule="F401", message="`os` imported but unused")
    file = Finding(path="b.py", line=0, rule="", message="deep")
    checks = (
        Check(level="syntax", tool="syntax", found=(file,)),
        Check(level="static", tool="ruff", found=(one,), more=2),
    )
    assert judged(evidence(final=None, comparison=None, checks=checks)).splitlines() == [
        "b.py: deep (syntax)",
        "a.py:3: `os` imported but unused (ruff F401)",
        "… and 2 more of the kind",
    ]


def test_findings_that_are_left_make_a_tested_change_not_ready() -> None:
    found = (Finding(path="a.py", line=3, rule="F401", message="unused"),)
    left = evidence(proof(), checks=(Check(level="static", tool="ruff", found=found),))
    assert judged(left) == "" and not left.proven
    assert evidence(proof(), checks=(Check(level="static", tool="ruff"),)).proven


# ── done ──


def test_red_then_green_is_accepted() -> None:
    assert judged(evidence(proof())) == ""
    assert judged(evidence(proof("error"))) == ""
    assert evidence(proof()).proven


def test_tests_that_pass_on_both_are_welcome_beside_a_proof() -> None:
    found = evidence(proof(), proof("passed"))
    assert judged(found) == ""
    assert found.proven
    assert endings.accepted(Claim.DONE, found).reason.startswith("1 test fails without the change")


def test_tests_that_pass_on_both_prove_nothing() -> None:
    found = evidence(proof("passed"))
    assert "No test fails on the unchanged code" in judged(found)
    assert f"pass on the unchanged code, too: `{found.proof[0].test}`" in judged(found)
    seen = {"tests/test_a.py::test_x": TestOutcome.PASSED}
    elsewhere = found.model_copy(update={"final": run(outcomes=seen)})
    assert "does not reach b/test_b.py: no test" in judged(elsewhere, changed=("a.py", "b/test_b.py"))
    assert "No test fails on the unchanged code" in judged(elsewhere, changed=("a.py", "tests/test_a.py"))
    silent = judged(found.model_copy(update={"final": run(structured=False)}))
    assert "tells of no single test" in silent and "Add a test" not in silent
    assert not found.proven


def test_a_change_that_the_tests_did_not_see_is_never_ready() -> None:
    assert unbuilt("python3 -m pytest", ("b.c", "a.py", "tests/c.c")) == ("b.c",)
    assert unbuilt("python3 setup.py build_ext -i && pytest", ("b.c",)) == ()
    told = {"unbuilt": ("b.c",)}
    idle, turned = (evidence(proof(before)).model_copy(update=told) for before in ("passed", "failed"))
    assert unseen(("b.c",), ("b.c", "tests/test_b.py"), turned.proof) == (), "nothing else can have turned it"
    assert unseen(("b.c",), ("b.c", "tests/test_b.py"), idle.proof) == ("b.c",)
    assert unseen(("b.c",), ("b.c", "a.py", "tests/test_b.py"), turned.proof) == ("b.c",)
    assert judged(idle).startswith("b.c is compiled, and nothing builds it")
    assert judged(turned) == "" and not turned.proven
    ending = endings.accepted(Claim.DONE, turned)
    assert "b.c is compiled" in ending.reason and "1 test fails without" in ending.reason
    assert "build first" in ending.next_step
    assert "nothing built 1 changed file for the tests" in words.verdict(turned)


@pytest.mark.parametrize("intent", sorted(judge.PROOF_FREE))
def test_some_changes_need_no_proof(intent: str) -> None:
    assert judged(evidence(), intent=intent) == ""
    assert "no test can prove" in endings.accepted(Claim.DONE, evidence()).reason


def test_a_task_about_tests_needs_no_proof_as_long_as_nothing_else_is_changed() -> None:
    assert judged(evidence(), intent="tests", changed=("tests/test_a.py",)) == ""
    assert "No test fails on the unchanged code" in judged(
        evidence(), intent="tests", changed=("tests/test_a.py", "a.py")
    )
    assert not evidence().proven


@pytest.mark.parametrize(
    ("one", "says"),
    [
        (proof(on_head="failed", head_message="assert 1 == 2"), "fails with the change (assert 1 == 2)"),
        (proof("not_run", base_message="no module x"), "does not run on the unchanged code (no module x)"),
        (proof("missing"), "is missing on the unchanged code"),
        (proof(on_head="skipped"), "is skipped with the change"),
    ],
)
def test_a_proof_that_does_not_hold_is_explained(one: Proof, says: str) -> None:
    assert says in judged(evidence(one, proof()))
    assert not evidence(one, proof()).proven


def test_what_got_worse_is_listed_with_its_message() -> None:
    final = run(SuiteStatus.FAILING, messages={"t::a": "AssertionError: 3"}, outcomes={"t::a": TestOutcome.FAILED})
    worse = Comparison(regressed=("t::a",), lost=("t::b",), added_failing=tuple(f"t::n{i}" for i in range(10)))
    text = judged(Evidence(final=final, comparison=worse))
    assert "`t::a` passed before and fails now:\nAssertionError: 3" in text
    assert "gone, skipped or expected to fail now: `t::b`" in text
    assert "and 2 more of the kind" in text


def test_of_many_failures_only_some_are_told_at_length() -> None:
    message = ">       assert f() == 1\nE       assert 2 == 1\nE        +  where 2 = f()\n\na.py:3: AssertionError"
    tests = tuple(f"t::{n}" for n in range(6))
    final = run(SuiteStatus.FAILING, messages=dict.fromkeys(tests, message) | {"t::5": "at line 3\nError: boom"})
    found = judged(Evidence(final=final, comparison=Comparison(regressed=tests)))
    assert found.count("where 2 = f()") == 3
    assert "`t::4` passed before and fails now: assert 2 == 1\n" in found
    assert found.endswith("`t::5` passed before and fails now: Error: boom")


def test_one_case_of_a_test_stands_for_the_others() -> None:
    tests = ("t::f[1]", "t::f[2]", "t::f[3]", "t::g", "t::h[1]", "t::i")
    messages = {test: f"source of it\nE  {test} failed" for test in tests}
    final = run(SuiteStatus.FAILING, messages=messages)
    found = judged(Evidence(final=final, comparison=Comparison(regressed=tests)))
    told = re.findall(r"source of it\nE  (\S+) failed", found)
    assert told == ["t::f[1]", "t::g", "t::h[1]"]
    assert "`t::f[3]` passed before and fails now: t::f[3] failed" in found


def test_what_the_plan_excuses_is_accepted_and_not_ready() -> None:
    changed = IntegrityFinding(kind="test_changed", path="tests/test_a.py", detail="changed", excused=True)
    found = evidence(proof(), integrity=(changed,))
    assert judged(found) == "" and found.holds and not found.proven
    ending = endings.accepted(Claim.DONE, found)
    assert ending.outcome is Outcome.PROPOSED and "acknowledged" in ending.next_step


def test_weakened_tests_are_not_accepted() -> None:
    weaker = IntegrityFinding(kind="deleted", path="tests/test_a.py", detail="test_a is gone")
    assert "tests/test_a.py: test_a is gone" in judged(evidence(proof(), integrity=(weaker,)))


def test_tests_that_did_not_run_are_no_verdict() -> None:
    text = judged(evidence(proof(), final=run(SuiteStatus.NOT_RUN, detail="conftest.py can't be loaded")))
    assert text == "The tests could not be judged: conftest.py can't be loaded."


def test_long_messages_are_cut_at_their_beginning() -> None:
    final = run(SuiteStatus.FAILING, messages={"t": "x" * 5_000 + " end"})
    text = judged(Evidence(final=final, comparison=Comparison(regressed=("t",))))
    assert len(text) < 1_500
    assert text.endswith(" end")


# ── other claims ──


@pytest.mark.parametrize("claim", [Claim.ALREADY_FIXED, Claim.NOT_REPRODUCED])
def test_a_claim_about_the_unchanged_code_is_shown_by_a_test(claim: Claim) -> None:
    good = evidence(proof("passed"))
    assert judged(good, claim, changed=("tests/test_new.py",)) == ""
    assert "changed src/a.py" in judged(good, claim, changed=("src/a.py", "tests/test_new.py"))
    assert "show it by a new test" in judged(evidence(comparison=Comparison()), claim, changed=())
    assert endings.accepted(claim, good).outcome == claim.value


@pytest.mark.parametrize(
    ("claim", "outcome"),
    [
        (Claim.NEEDS_INPUT, Outcome.NEEDS_INPUT),
        (Claim.NO_CHANGE, Outcome.NO_CHANGE),
        (Claim.BLOCKED, Outcome.BLOCKED),
    ],
)
def test_claims_that_need_no_measuring(claim: Claim, outcome: Outcome) -> None:
    ending = endings.without_change(Conclusion(claim, "why", question="which?"))
    assert ending is not None
    assert ending.outcome is outcome
    assert ending.reason in ("why", "which?")
    assert ending.next_step


def test_claims_that_are_measured() -> None:
    for claim in (Claim.DONE, Claim.ALREADY_FIXED, Claim.NOT_REPRODUCED):
        assert endings.without_change(Conclusion(claim, "s")) is None


# ── the base ──


@pytest.mark.parametrize("status", list(SuiteStatus))
def test_a_base_that_can_not_be_judged_is_told(status: SuiteStatus) -> None:
    usable = status in (SuiteStatus.OK, SuiteStatus.FAILING, SuiteStatus.NO_TESTS)
    why = judge.unusable(run(status, detail="it hangs", log="the end"))
    assert why == ("" if usable else "it hangs\n\nthe end")
    for log, said in (
        ("EROFS: read-only file system", "is read-only"),
        ("port 5432 failed: Connection refused", "a database"),
    ):
        assert (said in judge.unusable(run(status, detail="it hangs", log=log)).lower()) is not usable


# ── endings ──


@pytest.mark.parametrize(
    ("kind", "outcome"),
    [
        (BudgetReached, Outcome.BUDGET_REACHED),
        (CallCancelled, Outcome.CANCELLED),
        (Stuck, Outcome.STUCK),
        (InvalidOutput, Outcome.STUCK),
        (ContentRefused, Outcome.NEEDS_INPUT),
        (RetryLater, Outcome.FAILED),
        (OperatorError, Outcome.FAILED),
        (UserError, Outcome.BLOCKED),
        (BugError, Outcome.FAILED),
    ],
)
def test_each_error_leads_to_an_ending(kind: type[GraftsmithError], outcome: Outcome) -> None:
    ending = endings.of_error(kind("the thing broke", why="because", todo="Mend it"))
    assert ending.outcome is outcome
    assert ending.reason == "The thing broke. because."
    assert ending.next_step == "Mend it"
    assert ending.our_fault is (kind is BugError)


def test_other_endings() -> None:
    assert endings.our_bug(KeyError("x")).our_fault
    assert "--test-command" in endings.blocked("no", by="They were run by `x`. ").next_step
    assert "a part of the tests" in endings.blocked("no", too_long=True).next_step
    assert endings.rejected(("first\nmore", "second")).reason.endswith("first (and 1 more)")
    assert endings.rejected(("first",)).outcome is Outcome.TESTS_FAILING


# ── what the model reads ──


def test_a_report_counts_first() -> None:
    failing = run(
        SuiteStatus.FAILING,
        outcomes={"t::a": TestOutcome.PASSED, "t::b": TestOutcome.FAILED},
        messages={"t::b": "AssertionError"},
        seconds=1.24,
    )
    assert report_of(failing, "seed").startswith("failing: 1 passed, 1 failed, in 1.2 s\n<<<failure ")
    before = report_of(failing, "seed", baseline=True)
    assert "unless the task says so: t::b\n<<<failure " in before
    assert before.splitlines()[-2] == "t::b: AssertionError"
    many = {f"tests/test_a.py::test_{n}": TestOutcome.FAILED for n in range(30)} | {"b.py::test_x": TestOutcome.ERROR}
    why = dict.fromkeys(many, "E   no name is resolved") | {"b.py::test_x": "E   timed out"}
    told = report_of(run(SuiteStatus.FAILING, outcomes=many, messages=why), "seed", baseline=True)
    assert "tests/test_a.py (30), b.py (1)" in told
    assert "30 × no name is resolved\nb.py::test_x: timed out\n" in told
    assert "no report of single tests" in report_of(run(structured=False), "seed")
    silent = report_of(run(structured=False), "seed", baseline=True)
    assert "claim `blocked` at once" in silent and "<<<output" not in silent
    assert "the end" in report_of(run(SuiteStatus.NOT_RUN, log="the end"), "seed")
    assert "the end" in report_of(run(SuiteStatus.FAILING, structured=False, log="the end"), "seed")


def test_a_verdict_lists_problems_and_the_log_where_it_helps() -> None:
    text = verdict(("one", "two"), run(SuiteStatus.TIMED_OUT, log="still waiting"), 1, "seed", step=None)
    assert "1 more try" in text
    assert "- one\n- two" in text
    assert "still waiting" in text
    assert "still waiting" not in verdict(
        ("one",), run(log="still waiting"), 2, "seed", step=PlanStep(id="2", objective="o")
    )
