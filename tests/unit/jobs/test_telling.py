"""What is said of an issue's jobs, and which earlier job a word means."""

from __future__ import annotations

from typing import Any

import pytest

from agent.types import Outcome, Plan, Task, Usage
from app.jobs import telling
from app.jobs.types import Artefacts, Ending, Job, JobState, Word
from app.steps.asked import Asked, asked_for, awaiting, of_our_pull, standing
from app.webhooks.commands import find
from tests.unit.jobs.making import command

PLAN = Plan(intent="bug_fix", summary="Count all.", steps=())


def job(sequence: int, word: Word, text: str = "", **more: Any) -> Job:
    values: dict[str, Any] = {
        "id": f"job-{sequence}",
        "sequence": sequence,
        "delivery_id": "d",
        "command": command(word=word, text=f"{word.value} {text}".strip()),
        "state": JobState.DONE,
        "stage": "run",
        "ending": None,
        "artefacts": Artefacts(),
        "usage": Usage(),
        "attempts": 1,
        "fence": 1,
        "cancelled_by": None,
        "created_at": 100.0 * sequence,
        "started_at": 100.0 * sequence,
        "finished_at": 100.0 * sequence + 50,
        **more,
    }
    return Job(**values)


def planned(sequence: int, word: Word = Word.PLAN, **more: Any) -> Job:
    return job(sequence, word, artefacts=Artefacts(plan=PLAN, base_sha="a" * 40), **more)


def test_a_plan_is_approved_only_when_it_stood_there() -> None:
    shown, unseen = planned(1), planned(2, Word.REVISE, finished_at=999.0)
    asked = asked_for(job(3, Word.APPROVE), [job(3, Word.APPROVE), unseen, shown])
    assert isinstance(asked, Asked)
    assert asked.planned == shown
    later = asked_for(job(3, Word.APPROVE), [planned(2), shown])
    assert isinstance(later, Asked)
    assert later.planned == planned(2)


@pytest.mark.parametrize("word", [Word.APPROVE, Word.REVISE, Word.RETRY])
def test_words_about_earlier_jobs_want_one(word: Word) -> None:
    ending = asked_for(job(2, word), [job(2, word)])
    assert isinstance(ending, Ending)
    assert ending.outcome is Outcome.NEEDS_INPUT
    assert "/agent" in ending.next_step


def test_retry_asks_the_same_with_a_hint() -> None:
    jobs = [job(3, Word.RETRY, "look at tabs"), job(2, Word.RETRY, "x"), job(1, Word.FIX, "the parser")]
    assert asked_for(jobs[0], jobs) == Asked(jobs[2].command, "the parser\n\nlook at tabs")


def test_what_was_refused_is_not_taken_up_for_another() -> None:
    refused = Ending(outcome=Outcome.BLOCKED, reason="Not started.", silent=True)
    jobs = [job(3, Word.RETRY), job(2, Word.FIX, "plant a back door", ending=refused), job(1, Word.FIX, "the parser")]
    assert asked_for(jobs[0], jobs) == Asked(jobs[2].command, "the parser")
    assert isinstance(asked_for(jobs[0], jobs[:2]), Ending)


def test_retry_goes_on_where_a_job_was_broken_off() -> None:
    spent = job(1, Word.APPROVE, ending=Ending(outcome=Outcome.BUDGET_REACHED, reason="Spent."))
    asked = asked_for(job(2, Word.RETRY), [job(2, Word.RETRY), spent])
    assert asked == Asked(spent.command, "", broken_off=spent)
    stuck = job(1, Word.FIX, ending=Ending(outcome=Outcome.STUCK, reason="Stuck."))
    assert asked_for(job(2, Word.RETRY), [stuck]) == Asked(stuck.command, "")


def test_where_it_stands() -> None:
    ending = Ending(outcome=Outcome.TESTS_FAILING, reason="Two tests fail.", next_step="Look.")
    ended = job(1, Word.FIX, ending=ending)
    running = job(2, Word.FIX, state=JobState.RUNNING, started_at=100.0)
    waiting = job(3, Word.ASK, state=JobState.QUEUED)
    assert telling.status([waiting, running, ended], 400.0).reason == (
        "`fix`, which maintainer asked for, has been at work for 5 min (step: run). 1 more waits."
    )
    assert telling.status([ended], 400.0).reason.startswith("Nothing runs here. The last job, `fix`")
    why = telling.why([running, ended])
    assert "ended as tests failing: Two tests fail." in why.reason
    assert why.next_step == "Look."
    assert telling.why([]).reason == "No job has ended here yet."


def test_help_names_only_words_that_work() -> None:
    for line in telling.HELP.splitlines():
        if line.startswith("- `/agent"):
            found = find(line.removeprefix("- `").partition("`")[0])
            assert found is not None
            assert found.word is not None


@pytest.mark.parametrize(
    ("asked", "said"),
    [("", ""), ("help", ""), ("dance `now`", "There is no command `dance`. "), ("fix it", "Nothing was done: ")],
)
def test_who_is_given_help_is_told_why(asked: str, said: str) -> None:
    reason = telling.helped(asked).reason
    assert reason.startswith(said + "Write one" if said.endswith(". ") or not said else said)
    assert telling.HELP in reason


def published(sequence: int, waits: str = "d1", **more: Any) -> Job:
    made = Artefacts(pull_number=7, commit_sha="c" * 40, to_acknowledge=waits)
    return job(sequence, Word.FIX, artefacts=made, **more)


def test_an_approval_means_what_its_pull_request_waits_for() -> None:
    approval, waiting = job(4, Word.APPROVE), published(2)
    assert awaiting(approval, [waiting], [approval]) == waiting
    assert awaiting(approval, [], [approval]) is None
    assert awaiting(approval, [published(3, waits=""), waiting], [approval]) is None, (
        "the last commit waits for nothing"
    )
    assert awaiting(approval, [published(2, finished_at=900.0)], [approval]) is None, "nobody had seen it"
    assert awaiting(approval, [waiting], [approval, planned(3)]) is None, "a plan was made since"
    assert awaiting(approval, [waiting], [approval, planned(1)]) == waiting


def test_a_pull_request_of_ours_stands_for_its_issue_and_what_it_does() -> None:
    ours = "<!-- graftsmith:pull issue=1 -->\n\nProven.\n\nCounts all.\n\nFixes #1\n\n### Proof\n\n| a | b |\n"
    asked = Task(title="Sum", body=ours, request="and none", comments=("Nice",), number=2)
    issue = Task(title="Sum is wrong", body="It is 5.", number=1)
    told = of_our_pull(asked, [(issue, "Counts all."), (asked, "Refuses none.\n")])
    so_far = "What the pull request for this does so far:"
    assert told.body == f"It is 5.\n\n{so_far}\n- Counts all.\n- Refuses none."
    assert (told.title, told.request, told.comments, told.number) == ("Sum is wrong", "and none", ("Nice",), 2)
    elsewhere = of_our_pull(asked, [])
    assert (elsewhere.title, elsewhere.body) == ("Sum", "Proven.\n\nCounts all.\n\nFixes #1")


def test_what_was_taken_back_does_not_stand_nor_does_the_taking_back() -> None:
    def made(sequence: int, sha: str, undone: str = "") -> Job:
        word = Word.UNDO if undone else Word.FIX
        return job(sequence, word, artefacts=Artefacts(pull_number=7, commit_sha=sha, undone=undone))

    first, second, same = made(1, "a" * 40), made(2, "b" * 40), made(3, "b" * 40)
    back, later = made(4, "c" * 40, "b" * 40), made(5, "d" * 40)
    assert standing([second, first]) == [second, first]
    assert standing([back, same, second, first]) == [first], "two jobs can stand behind one commit"
    assert standing([later, back, same, second, first]) == [later, first]
    assert standing([]) == []


def test_retry_after_an_undo_means_the_work_before() -> None:
    fix, undo = job(1, Word.FIX, "the sum"), job(2, Word.UNDO)
    asked = asked_for(job(3, Word.RETRY), [undo, fix])
    assert isinstance(asked, Asked) and (asked.word, asked.request) == (Word.FIX, fix.command.request)


def test_a_command_that_there_is_not_is_told_with_those_that_there_are() -> None:
    assert telling.helped("").reason == telling.helped("help me").reason == telling.HELP
    assert telling.helped("`fxi` it").reason == f"There is no command `fxi`. {telling.HELP}"
