"""Results of runs to report on. ``python -m tests.unit.report.cases`` writes the golden files anew."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from agent.types import (
    Caller,
    ChangeSet,
    Check,
    Comparison,
    Coverage,
    Evidence,
    FileChange,
    FileReason,
    Finding,
    Impact,
    IntegrityFinding,
    Outcome,
    Place,
    Plan,
    PlanStep,
    Proof,
    ReviewFinding,
    RunResult,
    Stage,
    SuiteStatus,
    TestOutcome,
    TestRun,
    Usage,
)
from app import report
from app.report import Closing, JobFacts, LeftOut, Progress, Remark, Review, StageState

GOLDEN = Path(__file__).parents[2] / "golden" / "report"
BASE, TREE_A, TREE_B = "a1" * 20, "b2" * 20, "c3" * 20

FACTS = JobFacts(
    job_id="01JABCDE",
    repository="acme/widget",
    number=12,
    title="Durations above an hour lose their minutes",
    requester="octo-cat",
    base_ref="main",
    base_sha=BASE,
    model="gpt-small",
)

NEW_TEST = "tests/test_duration.py::test_minutes_survive_above_an_hour"
OLD_TESTS = [f"tests/test_duration.py::test_case_{n}" for n in range(41)]
LOG = (
    "============================= test session starts ==============================\n"
    "collected 43 items\n\ntests/test_duration.py ..........................................s         [100%]\n\n"
    "======================== 42 passed, 1 skipped in 0.31s =========================\n"
)


def suite(failing: tuple[str, ...] = (), *, new: bool = False, **more: object) -> TestRun:
    outcomes = dict.fromkeys(OLD_TESTS, TestOutcome.PASSED)
    outcomes |= {"tests/test_locale.py::test_german": TestOutcome.SKIPPED}
    outcomes |= {NEW_TEST: TestOutcome.PASSED} if new else {}
    outcomes |= dict.fromkeys(failing, TestOutcome.FAILED)
    values: dict[str, object] = {
        "command": ("python", "-m", "pytest", "-q"),
        "status": SuiteStatus.FAILING if failing else SuiteStatus.OK,
        "outcomes": outcomes,
        "messages": {test: f"{test.split('::')[0]}:9: AssertionError: assert 1 == 2" for test in failing},
        "exit_code": 1 if failing else 0,
        "seconds": 1.4,
        "log": LOG,
    }
    return TestRun.model_validate(values | more)


PLAN = Plan(
    intent="bug_fix",
    summary="`format_duration` divides the minutes away as soon as there are hours.",
    steps=(
        PlanStep(
            id="1",
            objective="Write a test that shows the lost minutes",
            files=("tests/test_duration.py",),
            done_when="it fails on the base",
        ),
        PlanStep(id="2", objective="Keep the remainder in `format_duration`", files=("src/widget/duration.py",)),
    ),
    entities=("format_duration", "version 2.1"),
    risks=("Callers that parse the output may rely on the old text.",),
    alternatives=("Use `datetime.timedelta` for the text.",),
)

PROVEN = RunResult(
    run_id="r1",
    outcome=Outcome.PROPOSED,
    reason="1 test fails without the change and passes with it; no other test got worse.",
    next_step="Review the pull request.",
    summary=(
        "`format_duration` lost the minutes of any duration of an hour or more, because the remainder was taken from "
        "the wrong value.\n\n- take the remainder from the seconds that the hours leave\n"
        "- leave shorter durations as they are"
    ),
    plan=PLAN,
    change_set=ChangeSet(
        base_sha=BASE,
        changes=(
            FileChange(path="src/widget/duration.py", content=b"x"),
            FileChange(path="tests/test_duration_hours.py", content=b"y"),
        ),
    ),
    file_reasons=(
        FileReason(path="src/widget/duration.py", reason="the remainder is now taken before it is divided"),
        FileReason(path="tests/test_duration_hours.py", reason="shows the lost minutes"),
    ),
    evidence=Evidence(
        baseline=suite(),
        final=suite(new=True),
        comparison=Comparison(added=(NEW_TEST,)),
        proof=(
            Proof(
                test=NEW_TEST,
                on_base=TestOutcome.FAILED,
                on_head=TestOutcome.PASSED,
                command=("python", "-m", "pytest", NEW_TEST),
                base_digest=TREE_A,
                head_digest=TREE_B,
                base_message="    def test_minutes_survive_above_an_hour():\n"
                ">       assert format_duration(3720) == '1 h 2 min'\n"
                "E       AssertionError: assert '1 h' == '1 h 2 min'",
            ),
        ),
        reproduce=(
            "git fetch origin agent/issue-12-durations && git checkout FETCH_HEAD",
            f"python -m pytest {NEW_TEST}",
        ),
        isolation="bubblewrap",
    ),
    usage=Usage(calls=6, input_tokens=41_250, cached_tokens=30_100, output_tokens=1_834, dollars=0.0412),
    seconds={"prepare": 1.2, "baseline": 3.4, "plan": 6.0, "work": 21.5, "verify": 3.1, "prove": 4.2},
)

REGRESSED = OLD_TESTS[3]
WEAKENED = PROVEN.model_copy(
    update={
        "outcome": Outcome.TESTS_FAILING,
        "reason": "One test that passed before fails now, after 3 rounds of fixing.",
        "next_step": "Look at the draft, or ask again with a hint.",
        "notes": ("Isolation is degraded: bubblewrap cannot start here.",),
        "usage": Usage(calls=3, input_tokens=9_000, output_tokens=400, dollars=None, estimated=True),
        "evidence": PROVEN.evidence.model_copy(
            update={
                "final": suite((REGRESSED,), new=True),
                "comparison": Comparison(regressed=(REGRESSED,), added=(NEW_TEST,), flaky=(OLD_TESTS[7],)),
                "integrity": (
                    IntegrityFinding(
                        kind="skipped test",
                        path="tests/test_duration.py",
                        detail="test_case_5 is skipped now",
                        hunk="@@ -10,3 +10,4 @@\n+@pytest.mark.skip\n def test_case_5():\n     assert True",
                    ),
                ),
            }
        ),
    }
)

REVIEWED = PROVEN.model_copy(
    update={
        "review": (
            ReviewFinding(
                path="src/widget/duration.py",
                line=12,
                severity="blocking",
                problem="A negative duration still shows a minus before each part.",
                advice="Put one in front.",
                reworked=True,
            ),
            ReviewFinding(path="README.md", severity="remark", problem="The example shows the old text."),
        ),
    }
)
CHANGED = PROVEN.model_copy(
    update={
        "reason": "What was tested before is tested in another way now, or not at all, as the plan says.",
        "plan": PLAN.model_copy(
            update={
                "steps": (
                    PLAN.steps[0].model_copy(
                        update={"test_changes": "The issue asks for another text, which an old test pins."}
                    ),
                    PLAN.steps[1],
                )
            }
        ),
        "evidence": PROVEN.evidence.model_copy(
            update={
                "integrity": (
                    IntegrityFinding(
                        kind="test_changed",
                        path="tests/test_duration.py",
                        detail="the existing test `test_case_5` is changed",
                        hunk="@@ -10,2 +10,2 @@\n def test_5():\n-    assert f(5) == 5\n+    assert f(5) == '5 s'",
                        excused=True,
                    ),
                    IntegrityFinding(
                        kind="test_deleted",
                        path="tests/test_duration.py",
                        detail="`test_case_6` is gone",
                        hunk="@@ -12,2 +12,0 @@\n-def test_6():\n-    assert f(6) == 6",
                        excused=True,
                    ),
                ),
                "comparison": Comparison(added=(NEW_TEST,), given_up=("tests/test_duration.py::test_case_6",)),
            }
        ),
    }
)
MEASURED = PROVEN.model_copy(
    update={
        "reason": f"{PROVEN.reason} New findings of ruff are left.",
        "evidence": PROVEN.evidence.model_copy(
            update={
                "baseline_from": "2026-02-03 09:30 UTC",
                "checks": (
                    Check(level="syntax", tool="syntax"),
                    Check(
                        level="static",
                        tool="ruff",
                        found=(
                            Finding(path="src/widget/duration.py", line=14, rule="F841", message="`x` is never used"),
                        ),
                        more=2,
                    ),
                    Check(level="static", tool="mypy", silent="it is not installed"),
                    Check(level="static", tool="flake8"),
                ),
                "impact": (
                    Impact(
                        symbol="format_duration",
                        path="src/widget/duration.py",
                        callers=(
                            Caller(path="src/widget/page.py", line=31, inside="Page.head", resolved=True, covered=True),
                            Caller(path="src/widget/mail.py", line=9, inside="subject", resolved=True, covered=False),
                        ),
                        resolved=2,
                        by_name=4,
                        covered=3,
                    ),
                    Impact(symbol="Duration.old", path="src/widget/duration.py", removed=True),
                ),
                "coverage": Coverage(
                    lines=14, ran=12, missed=(Place(path="src/widget/duration.py", start=20, end=21),), tests=3
                ),
            }
        ),
    }
)
PLANNED = RunResult(
    run_id="r2",
    outcome=Outcome.PLANNED,
    reason="The plan is ready. Nothing was changed.",
    plan=PLAN,
    change_set=ChangeSet(base_sha=BASE),
    usage=Usage(calls=1, input_tokens=9_000, output_tokens=400, dollars=0.01),
)
ANSWERED = RunResult(
    run_id="r3",
    outcome=Outcome.ANSWERED,
    reason="Answered from the code. Nothing was changed, and nothing was run.",
    summary="The remainder is taken in `src/widget/duration.py:12`; the test of it is `tests/test_duration.py:3-9`.",
    places=(
        Place(path="src/widget/duration.py", start=12, end=12),
        Place(path="tests/test_duration.py", start=3, end=9),
    ),
    change_set=ChangeSet(base_sha=BASE),
    usage=Usage(calls=2, input_tokens=9_000, output_tokens=400, dollars=0.01),
)

REVIEW = Review(
    left_out=(
        LeftOut(
            ".github/workflows/ci.yml",
            "the App may not change workflow files (it lacks the `workflows` permission)",
            "--- a/.github/workflows/ci.yml\n+++ b/.github/workflows/ci.yml\n@@ -1 +1 @@\n-on: push\n+on: [push]\n",
        ),
    ),
    remarks=(Remark("src/widget/duration.py", "holds signs that turn the reading direction (U+202E, line 3)"),),
    added=frozenset({"tests/test_duration_hours.py"}),
)

PROGRESS = Progress(
    stages=(
        StageState(Stage.PREPARE, "done", 1.2),
        StageState(Stage.BASELINE, "done", 3.4, "41 passed, 1 skipped"),
        StageState(Stage.INDEX, "done", 0.4),
        StageState(Stage.PLAN, "done", 6.0),
        StageState(Stage.WORK, "running"),
    ),
    now="running the tests, round 1",
    elapsed_s=72.0,
)
ENDED = Progress(
    stages=(*PROGRESS.stages[:4], *(StageState(s, "done", 4.0) for s in (Stage.WORK, Stage.VERIFY, Stage.PROVE))),
    elapsed_s=95.0,
)

DOCUMENTS: dict[str, Callable[[], str]] = {
    "proven.md": lambda: report.pr_body(PROVEN, FACTS, Review(added=REVIEW.added)),
    "changed_tests.md": lambda: report.pr_body(CHANGED, FACTS, Review(added=REVIEW.added)),
    "measured.md": lambda: report.pr_body(MEASURED, FACTS, Review(added=REVIEW.added)),
    "reviewed.md": lambda: report.pr_body(REVIEWED, FACTS, Review(added=REVIEW.added)),
    "status_planned.md": lambda: report.status_comment(FACTS, Progress(), Closing.from_result(PLANNED)),
    "status_answered.md": lambda: report.status_comment(FACTS, Progress(), Closing.from_result(ANSWERED)),
    "status_planning.md": lambda: report.status_comment(
        replace(FACTS, command="plan"), replace(PROGRESS, stages=PROGRESS.stages[:3])
    ),
    "weakened.md": lambda: report.pr_body(WEAKENED, FACTS, REVIEW),
    "commit.txt": lambda: report.commit_message(PROVEN, FACTS),
    "status_waiting.md": lambda: report.status_comment(FACTS, Progress()),
    "status_running.md": lambda: report.status_comment(FACTS, PROGRESS),
    "status_proposed.md": lambda: report.status_comment(FACTS, ENDED, Closing.from_result(PROVEN, pull_number=34)),
    "status_draft.md": lambda: report.status_comment(
        FACTS, ENDED, Closing.from_result(WEAKENED, pull_number=34, draft=True)
    ),
    "status_failed.md": lambda: report.status_comment(
        FACTS, PROGRESS, Closing(Outcome.FAILED, "The model endpoint answered 401 three times.")
    ),
}


if __name__ == "__main__":
    GOLDEN.mkdir(parents=True, exist_ok=True)
    for name, document in DOCUMENTS.items():
        (GOLDEN / name).write_text(document(), encoding="utf-8")
