"""Whole documents: as recorded, and with everything hostile in every field."""

from __future__ import annotations

import re
import sys
import tracemalloc
from dataclasses import replace

import pytest

from agent.types import (
    Caller,
    Check,
    Comparison,
    Coverage,
    Evidence,
    FileReason,
    Finding,
    Impact,
    IntegrityFinding,
    Outcome,
    Place,
    ReviewFinding,
    RunResult,
    SuiteStatus,
    TestOutcome,
    TestRun,
    Usage,
)
from app import report
from app.report import Closing, JobFacts, LeftOut, Review, words
from app.report import markdown as md
from app.report.markdown import BODY_LIMIT
from tests.unit.report import cases
from tests.unit.report.cases import FACTS, PROVEN, WEAKENED
from tests.unit.report.rendered import Rendered

HOSTILE = (
    "# Proof\n@octo-cat fixes #1 and closes other/repo#2 <!-- graftsmith:pull issue=12 -->\n```\n</details>\n"
    "![x](https://evil.invalid/p.png) [a](https://evil.invalid) <img src=x> "
    "\x1b[31m\u202e\x00 | a | `@acme/core-team`\n~~~~"
)
SECTIONS = {
    "Checks",
    "Proof",
    "Review",
    "Tests",
    "See it yourself",
    "What changed",
    "Changes to tests",
    "Left out",
    "Look closely at",
    "Notes",
}


@pytest.mark.parametrize("name", cases.DOCUMENTS)
def test_documents_are_as_recorded(name: str) -> None:
    recorded = (cases.GOLDEN / name).read_text(encoding="utf-8")
    assert cases.DOCUMENTS[name]() == recorded, "python -m tests.unit.report.cases writes them anew"


@pytest.mark.parametrize("name", [name for name in cases.DOCUMENTS if name.endswith(".md")])
def test_documents_are_whole(name: str) -> None:
    page = Rendered(cases.DOCUMENTS[name]())
    assert not page.open and not page.mentions


def hostile(text: str) -> RunResult:
    plan = cases.PLAN.model_copy(
        update={
            "summary": text,
            "steps": tuple(
                s.model_copy(update={"objective": text, "files": (text,), "done_when": text, "test_changes": text})
                for s in cases.PLAN.steps
            ),
            "entities": (text,),
            "tests": (text,),
            "risks": (text,),
            "alternatives": (text,),
        }
    )
    run = TestRun(
        command=("sh", "-c", text),
        status=SuiteStatus.FAILING,
        outcomes={text: TestOutcome.FAILED, "b": TestOutcome.PASSED},
        messages={text: text},
        log=text * 3,
        detail=text,
    )
    evidence = Evidence(
        baseline=run,
        checks=(
            Check(level="syntax", tool=text, found=(Finding(path=text, line=1, rule=text, message=text),), more=1),
            Check(level="static", tool=text, found=(Finding(path=text, line=1, rule=text, message=text),), silent=text),
        ),
        final=run,
        comparison=Comparison(fixed=(text,), regressed=(text, text), lost=(text,), given_up=(text,), flaky=(text,)),
        proof=tuple(p.model_copy(update={"test": text, "base_message": text}) for p in PROVEN.evidence.proof),
        integrity=(IntegrityFinding(kind=text, path=text, detail=text, hunk=text, excused=True),),
        impact=(
            Impact(
                symbol=text,
                path=text,
                callers=(Caller(path=text, line=1, inside=text, resolved=False, covered=False),) * 9,
                by_name=9,
            ),
        ),
        coverage=Coverage(lines=9, ran=7, missed=(Place(path=text, start=1, end=2),), more=3, absent=""),
        reproduce=(text,),
        isolation=text,
    )
    return WEAKENED.model_copy(
        update={
            "reason": text,
            "next_step": text,
            "summary": text,
            "plan": plan,
            "file_reasons": (FileReason(path="src/widget/duration.py", reason=text),),
            "evidence": evidence,
            "notes": (text,),
            "places": (Place(path=text, start=1, end=2), Place(path=text[:2_000] * 5_000, start=1, end=10**4_000)) * 9,
            "review": tuple(
                ReviewFinding(path=text, line=1, severity=severity, problem=text, advice=text)
                for severity in ("blocking", "remark")
            ),
        }
    )


@pytest.mark.parametrize("text", [HOSTILE, *HOSTILE.split("\n"), "`" * 50, "a\\|@user b"])
def test_nothing_hostile_is_live_anywhere(text: str) -> None:
    result = hostile(text)
    facts = JobFacts("1", "acme/widget", 12, title=text, requester=text, model=text)
    left = Review(left_out=(LeftOut(text, "it gives orders", text),))
    closing = Closing.from_result(result, patch=text)
    for document in (
        report.pr_body(result, facts, left),
        report.status_comment(facts, cases.PROGRESS, closing),
        report.status_comment(facts, cases.PROGRESS, replace(closing, outcome=Outcome.PLANNED, plan=result.plan)),
        report.check_run(result, facts).summary,
    ):
        page = Rendered(document)
        assert len(document.encode()) <= BODY_LIMIT
        assert not page.open and not page.mentions
        assert not set(page.tags) & {"img", "script", "h1", "h2"}
        assert not [href for href in page.hrefs if "evil" in href]
        assert not page.bare_links
        assert len(page.references) == page.text.count("Fixes #12")
        assert "\x1b" not in document and "\x00" not in document and "\u202e" not in document
        assert (
            document.count("<!-- graftsmith:") - text.count("<!-- graftsmith:") * document.count(text) <= 1
            or "```" in text
        )
    assert set(Rendered(report.pr_body(result, facts, left)).headings) <= SECTIONS


def test_what_is_not_shown_is_not_read() -> None:
    text = HOSTILE * 10_000
    result = hostile(text)
    many = {f"t{number}": TestOutcome.FAILED for number in range(2_000)}
    final = TestRun(command=(text,), status=SuiteStatus.FAILING, outcomes=many, messages={"t0": text}, log=text)
    result = result.model_copy(update={"evidence": result.evidence.model_copy(update={"final": final})})
    facts = JobFacts("1", "acme/widget", 12, title=text, requester=text, model=text)
    tracemalloc.start()
    report.pr_body(result, facts)
    report.account(result, facts)
    report.commit_message(result, facts)
    report.status_comment(facts, cases.PROGRESS, Closing.from_result(result))
    report.check_run(result, facts)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 4 * sys.getsizeof(text), "to clean a text is to copy it many times"


def test_only_our_own_issue_is_closed() -> None:
    result = PROVEN.model_copy(update={"summary": "This fixes #1, closes other/repo#2."})
    text = Rendered(report.pr_body(result, FACTS)).text
    assert re.findall(r"(?:fix|clos|resolv)\w*\s+\S*#\d+", text, re.I) == ["Fixes #12"]
    message = report.commit_message(result, FACTS)
    assert "#1," not in message and "repo#2" not in message and "For issue #12." in message
    assert "Fixes" not in report.pr_body(result, JobFacts("1", "acme/widget", 12, is_pull=True))


def test_a_body_of_any_size_fits_and_keeps_the_end_of_the_log() -> None:
    end = "".join(f"FAILED tests/test_x.py::test_{n} - AssertionError 😀\n" for n in range(20))
    log = "```\n" + "x" * 300_000 + "\n" + end
    evidence = WEAKENED.evidence
    assert evidence.final is not None
    many = tuple(f"tests/test_{n}.py::test_{'long' * 30}" for n in range(3_000))
    result = WEAKENED.model_copy(
        update={
            "summary": "s" * 100_000,
            "evidence": evidence.model_copy(
                update={
                    "final": evidence.final.model_copy(update={"log": log}),
                    "comparison": Comparison(regressed=many, fixed=many, lost=many, added=many, flaky=many),
                    "integrity": tuple(
                        IntegrityFinding(kind="k", path="p", detail="d" * 5_000, hunk="h\n" * 9_000) for _ in range(200)
                    ),
                }
            ),
        }
    )
    body = report.pr_body(result, FACTS, cases.REVIEW)
    assert md.size(body) <= 65_536 and len(body) > 20_000
    page = Rendered(body)
    assert not page.open
    assert end.strip() in next(code for code in page.codes if "FAILED" in code)
    assert "Made by Graftsmith" in page.text


def test_a_plan_of_any_size_fits_into_a_comment() -> None:
    steps = tuple(cases.PLAN.steps[0].model_copy(update={"objective": "*" * 9_000}) for _ in range(20))
    plan = cases.PLAN.model_copy(update={"steps": steps})
    comment = report.status_comment(
        FACTS, cases.ENDED, Closing.from_result(cases.PLANNED.model_copy(update={"plan": plan}))
    )
    assert md.size(comment) < 20_000
    assert "20 steps are too long" in comment


def test_what_has_no_room_is_named() -> None:
    body = report.pr_body(WEAKENED, FACTS, cases.REVIEW, limit=6_500)
    assert "Left out here" in body and "the plan" in body and md.size(body) <= 6_500
    assert not Rendered(body).open


@pytest.mark.parametrize(
    ("usage", "words_"),
    [
        (Usage(calls=2, input_tokens=10, output_tokens=5), "cost unknown"),
        (Usage(calls=2, dollars=0.001), "less than $0.01"),
        (Usage(calls=2, dollars=1.234, estimated=True), "about $1.23"),
        (Usage(calls=2, dollars=0.0), "no cost at the set price"),
    ],
)
def test_paid_work_never_costs_zero(usage: Usage, words_: str) -> None:
    body = report.pr_body(PROVEN.model_copy(update={"usage": usage}), FACTS)
    assert words_.lower() in body.lower() and "$0.00" not in body
    assert ("estimated" in body) == usage.estimated


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (SuiteStatus.NO_TESTS, "no tests ran"),
        (SuiteStatus.NOT_RUN, "could not run"),
        (SuiteStatus.TIMED_OUT, "out of time"),
        (SuiteStatus.INCONSISTENT, "nothing can be concluded"),
    ],
)
def test_what_was_not_measured_is_not_claimed(status: SuiteStatus, said: str) -> None:
    final = TestRun(command=("pytest",), status=status, detail="exit code 5")
    result = PROVEN.model_copy(update={"evidence": PROVEN.evidence.model_copy(update={"final": final})})
    body = report.pr_body(result, FACTS)
    assert said in body and "**Proven" not in body
    assert report.check_run(result, FACTS).conclusion == "neutral"


def test_a_check_of_any_size_fits() -> None:
    long = "many words, and ümläuts\n" * 20_000
    check = report.check_run(PROVEN.model_copy(update={"reason": long, "next_step": long}), FACTS)
    assert md.size(check.summary) < 65_535 and "many words" in check.summary
    assert len(check.title) < 256


@pytest.mark.parametrize("outcome", [Outcome.STUCK, Outcome.TESTS_FAILING, Outcome.BUDGET_REACHED])
def test_what_was_not_accepted_is_no_success_whatever_was_measured(outcome: Outcome) -> None:
    """As when the model claims that nothing had to be changed, and its change turns a test."""
    result = PROVEN.model_copy(update={"outcome": outcome, "reason": "The claim was refused."})
    assert result.evidence.proven and not result.proven
    assert report.check_run(result, FACTS).conclusion in ("failure", "neutral")
    body = report.pr_body(result, FACTS)
    assert "✔ **Proven" not in body and "The claim was refused" in body


def test_each_doubt_is_named() -> None:
    evidence = WEAKENED.evidence
    said = words.verdict(evidence)
    assert "1 test passed before and fails now" in said and "1 change could make the tests say less" in said
    bare = Evidence(final=evidence.final, comparison=Comparison())
    assert words.verdict(bare) == "Not proven: no test was red before and green after."
    assert words.verdict(Evidence()) == "Not proven: the tests were not run on this change."


@pytest.mark.parametrize("outcome", Outcome)
def test_every_ending_says_what_why_and_what_next(outcome: Outcome) -> None:
    text = report.status_comment(FACTS, cases.ENDED, Closing(outcome, "The reason."))
    assert text.startswith("<!-- graftsmith:status job=01JABCDE -->\n") and "The reason." in text
    assert "**Next:**" in text or outcome is Outcome.ANSWERED
    assert "◐" not in text


def test_a_patch_that_cannot_be_pushed_is_in_the_comment() -> None:
    patch = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+```b\n"
    text = report.status_comment(
        FACTS, cases.ENDED, Closing(Outcome.BLOCKED, "The fork can't be pushed to.", patch=patch)
    )
    assert patch.strip() in "".join(Rendered(text).codes)
    parts = {"patch": "é" * 14_000, "account": "measured *" * 4_400, "answer": "<" * 11_000}
    full = report.status_comment(
        FACTS, cases.ENDED, Closing(Outcome.BLOCKED, "The reason.", next_step="Go on.", **parts)
    )
    assert len(full.encode()) <= BODY_LIMIT
    assert full.startswith(report.status.marker(FACTS)) and "The reason" in full and "**Next:** Go on." in full
    assert "has a size limit: the stages, the work, which is kept with the run" in full and "measured" in full
    large = report.status_comment(FACTS, cases.ENDED, Closing(Outcome.BLOCKED, "r", patch="x" * 100_000))
    assert md.size(large) < 65_536 and "too long" in large


def test_work_on_a_persons_pull_request_is_told_in_the_comment() -> None:
    facts = JobFacts("1", "acme/widget", 22, is_pull=True)
    account = report.account(WEAKENED, facts, cases.REVIEW)
    closing = Closing.from_result(WEAKENED, pull_number=22, account=account)
    page = Rendered(report.status_comment(facts, cases.ENDED, closing))
    assert {"Proof", "Tests", "Changes to tests", "Left out"} <= set(page.headings) and not page.open
    assert page.text.count("may not change workflow files") == 1
    assert "Fixes #" not in page.text


def test_no_body_prints_none() -> None:
    facts = JobFacts("1", "acme/widget", 12)
    bare = PROVEN.model_copy(update={"plan": None, "summary": "", "evidence": Evidence(), "file_reasons": ()})
    for text in (report.pr_body(bare, facts), report.commit_message(bare, facts), report.pr_title(facts)):
        assert "None" not in text and "null" not in text


@pytest.mark.parametrize("failed", [0, 50, 51, 143, 201])
def test_every_failing_test_has_one_annotation(failed: int) -> None:
    failing = tuple(f"tests/test_x.py::test_{n:03}" for n in range(failed))
    count = min(failed, 200)
    result = WEAKENED.model_copy(
        update={"evidence": WEAKENED.evidence.model_copy(update={"final": cases.suite(failing)})}
    )
    check = report.check_run(result, FACTS)
    sizes = [len(batch) for batch in check.batches()]
    assert sum(sizes) == count and all(size <= 50 for size in sizes) and len(sizes) == -(-count // 50)
    assert {a.title for a in check.annotations} == set(failing[:200])
    assert ("The first 200 failing tests are annotated." in check.summary) is (failed > 200)
    assert all((a.path, a.line) == ("tests/test_x.py", 9) for a in check.annotations)
    assert [len(batch) for batch in check.batches(already=50)] == [
        min(50, count - 50 - n) for n in range(0, count - 50, 50)
    ]


def test_an_annotation_never_names_a_place_outside() -> None:
    names = ("/etc/passwd::x", "../x.py::y", "com.acme.Widget.doubles", "a b.py::x")
    run = TestRun(command=("t",), status=SuiteStatus.FAILING, outcomes=dict.fromkeys(names, TestOutcome.FAILED))
    result = WEAKENED.model_copy(update={"evidence": WEAKENED.evidence.model_copy(update={"final": run})})
    assert {a.path for a in report.check_run(result, FACTS).annotations} == {".github"}


# ── titles, commits, branches ────────────────────────────────────────────────────────────────────────────────────


def titled(title: str) -> JobFacts:
    return JobFacts("1", "acme/widget", 12, title=title)


def test_an_odd_title_becomes_a_plain_one() -> None:
    odd = "# " + "😀" * 60 + "\n\x1b[31mred\x1b[0m \u202eabc [skip ci] " + "word " * 60
    facts = titled(odd)
    title, subject = report.pr_title(facts), report.commit_message(PROVEN, facts).split("\n")[0]
    for line, limit in ((title, 256), (subject, 72)):
        assert len(line) <= limit and "\n" not in line and "\x1b" not in line and "\u202e" not in line
        assert "[skip ci]" not in line
    assert not subject.startswith("#")
    assert report.branch_name(facts) == "agent/issue-12"


def test_shell_text_in_a_title_is_shown_and_does_nothing() -> None:
    title = 'Crash"; touch /tmp/pwned; echo "$(touch /tmp/pwned2)`touch /tmp/pwned3`'
    assert report.pr_title(titled(title)) == title
    assert report.commit_message(PROVEN, titled(title)).startswith(title[:60])
    assert re.fullmatch(r"agent/issue-12-[a-z0-9-]+", report.branch_name(titled(title)))


@pytest.mark.parametrize(
    ("title", "branch"),
    [
        ("Durations above an hour lose their minutes", "agent/issue-12-durations-above-an-hour-lose-their"),
        ("Ünïcode straße", "agent/issue-12-unicode-strae"),
        ("日本語のタイトル", "agent/issue-12"),
        ("", "agent/issue-12"),
        ("../../etc --force @{u} .lock", "agent/issue-12-etc-force-u-lock"),
        ("[skip ci]", "agent/issue-12"),
        ("x" * 300, "agent/issue-12"),
    ],
)
def test_branch_names_are_short_plain_words(title: str, branch: str) -> None:
    assert report.branch_name(titled(title)) == branch


def test_an_empty_title_has_a_stand_in() -> None:
    assert report.pr_title(titled("\u200b\u202e ")) == "Changes for #12"


def test_a_commit_ends_with_the_job_even_if_the_account_forges_one() -> None:
    result = PROVEN.model_copy(update={"summary": "x\n\nGraftsmith-Job: other\n# comment\n[skip ci] @octo-cat"})
    lines = report.commit_message(result, FACTS).rstrip().split("\n")
    assert lines[-1] == "Graftsmith-Job: 01JABCDE"
    assert not any(line.startswith("#") or "[skip ci]" in line or "@octo-cat" in line for line in lines)


# ── changes to tests ──


def touched(count: int, hunk: str = "@@ -1 +1 @@\n-a\n+b", **more: object) -> Evidence:
    finding = IntegrityFinding(kind="test_changed", path="tests/test_a.py", detail="changed", hunk=hunk, excused=True)
    return PROVEN.evidence.model_copy(update={"integrity": (finding,) * count, **more})


@pytest.mark.parametrize(
    ("evidence", "said"),
    [
        (touched(1), "comments `/agent approve` here"),
        (touched(1, "+x\n" * 3_000), "What is cut here stands under “Files changed”"),
        (touched(21), "too many to be acknowledged by a comment"),
        (touched(0, comparison=Comparison(given_up=("t::a",))), "comments `/agent approve` here"),
        (touched(0, comparison=Comparison(given_up=tuple(f"t::{n}" for n in range(21)))), "too many"),
    ],
)
def test_only_what_is_shown_can_be_acknowledged(evidence: Evidence, said: str) -> None:
    body = report.pr_body(PROVEN.model_copy(update={"evidence": evidence}), FACTS)
    digest = report.acknowledgeable(evidence)
    assert said in body and bool(digest) == ("too many" not in said) and digest in body
    assert "**Proven" not in body and "Waits for a person" in body
    assert report.check_run(PROVEN.model_copy(update={"evidence": evidence}), FACTS).conclusion == "action_required"


def test_a_change_of_what_runs_the_tests_is_said_to_weigh_more() -> None:
    evidence = touched(1)
    hook = evidence.integrity[0].model_copy(update={"kind": "exit_status_hook", "path": "conftest.py"})
    deciding = evidence.model_copy(update={"integrity": (hook,)})
    assert "even that rests on it" in words.verdict(deciding) and "rests on it" not in words.verdict(evidence)
    unproven = evidence.model_copy(update={"proof": ()})
    assert report.acknowledgeable(unproven) == "" and "Not proven" in words.verdict(unproven)


def test_two_symbols_of_one_name_are_told_with_their_files() -> None:
    impact = [Impact(symbol=name, path=path) for name, path in (("quote", "a.rs"), ("quote", "b.rs"), ("join", "a.rs"))]
    assert words.symbols(impact) == ["quote in a.rs", "quote in b.rs", "join"]
    assert words.symbols([impact[0].model_copy(update={"removed": True})]) == ["quote (removed)"]


@pytest.mark.parametrize("outcome", [Outcome.ANSWERED, Outcome.BLOCKED, Outcome.UPDATED])
def test_an_answer_on_lines_is_short_and_what_others_say_in_it_is_text(outcome: Outcome) -> None:
    closing = Closing(outcome, HOSTILE * 200, answer=HOSTILE * 200)
    sha = "a" * 40 if outcome is Outcome.UPDATED else ""
    text = report.line_answer(replace(FACTS, is_pull=True), closing, HOSTILE, 7, sha, changed=True)
    page = Rendered(text)
    assert text.startswith(report.line_marker(FACTS)) and md.size(text) < 8_000
    assert not page.open and not page.mentions
    assert all(href.startswith("https://github.com/acme/widget/") for href in page.hrefs)
    assert "[In full](https://github.com/acme/widget/pull/12#issuecomment-7)" in text
    alone = report.line_answer(FACTS, closing, HOSTILE, None, sha, changed=True)
    assert not Rendered(alone).mentions and "In full" not in alone
    assert len(alone) > len(text), "nothing else tells the rest"


def test_a_call_that_nobody_answered_is_not_told_as_none_made() -> None:
    assert words.money(Usage()) == "no model reply"
    assert words.money(Usage(embedded_tokens=9, dollars=0.5)) == "$0.50"


@pytest.mark.parametrize(
    ("detail", "weak", "told"),
    [
        ("bubblewrap 0.8.0, user 60706, limits by control groups", False, "isolation: bubblewrap 0.8.0</sub>"),
        ("degraded: user 60706, Landlock 4", True, "isolation: degraded: user 60706, Landlock 4</sub>"),
    ],
)
def test_isolation_is_told_in_full_only_where_it_is_weak(detail: str, weak: bool, told: str) -> None:
    evidence = PROVEN.evidence.model_copy(update={"isolation": detail, "weak": weak})
    assert told in report.pr_body(PROVEN.model_copy(update={"evidence": evidence}), FACTS)
