"""A job's way through its steps: errors by who must act, retries, stops, replays; on a real store."""

from __future__ import annotations

import asyncio
import errno
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from agent.errors import BugError, OperatorError, RetryLater, UserError
from agent.types import Outcome
from app.jobs.store import JobStore, LeaseLost
from app.jobs.tables import sqlite_url
from app.jobs.types import Artefacts, Ending, Job, Word
from app.jobs.workflow import MAX_ATTEMPTS, Halted, Patience, Verdict, Work, perform
from tests.unit.jobs.making import add, command

pytestmark = pytest.mark.anyio

QUICK = Patience(tries=3, first_s=0.001)
PROPOSED = Ending(outcome=Outcome.PROPOSED, reason="pull request 3")
STAGES = ["authorise", "acknowledge", "prepare", "run", "authorise", "publish", "close_out"]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[JobStore]:
    store = JobStore(sqlite_url(tmp_path / "jobs.sqlite"))
    yield store
    store.close()


class Scripted:
    """Steps that do what ``on`` says, each time that step is called, and otherwise succeed."""

    def __init__(self, **on: Callable[[Work], Awaitable[Ending | None]]) -> None:
        self._on = on
        self.called: list[str] = []
        self.told: list[Ending] = []
        self.let_go_of: list[str] = []

    async def _do(self, name: str, work: Work) -> Ending | None:
        self.called.append(name)
        return await self._on[name](work) if name in self._on else None

    async def authorise(self, work: Work) -> Ending | None:
        return await self._do("authorise", work)

    async def acknowledge(self, work: Work) -> Ending | None:
        return await self._do("acknowledge", work)

    async def prepare(self, work: Work) -> Ending | None:
        return await self._do("prepare", work)

    async def run(self, work: Work) -> Ending | None:
        return await self._do("run", work)

    async def publish(self, work: Work) -> Ending | None:
        return await self._do("publish", work) or PROPOSED

    async def take_back(self, work: Work) -> Ending | None:
        return await self._do("take_back", work)

    async def undo(self, work: Work) -> Ending | None:
        return await self._do("undo", work)

    async def close_out(self, work: Work, ending: Ending) -> None:
        await self._do("close_out", work)
        self.told.append(ending)

    def let_go(self, work: Work) -> None:
        self.let_go_of.append(work.job.id)


class Memory:
    """Keeps verdicts as the executor does, so that a second life can be played."""

    def __init__(self) -> None:
        self.kept: dict[str, str] = {}

    async def __call__(self, name: str, attempt: Callable[[], Awaitable[Verdict]]) -> Verdict:
        if name not in self.kept:
            self.kept[name] = (await attempt()).model_dump_json()
        return Verdict.model_validate_json(self.kept[name])


def raising(*errors: Exception) -> Callable[[Work], Awaitable[None]]:
    """Raises each error once, then succeeds."""
    left = list(errors)

    async def step(work: Work) -> None:
        if left:
            raise left.pop(0)

    return step


def always(error: Exception) -> Callable[[Work], Awaitable[None]]:
    async def step(work: Work) -> None:
        raise error

    return step


def take_up(store: JobStore, job: Job, owner: str = "a") -> Work:
    lease = store.claim(job.id, owner, 60.0)
    current = store.get(job.id)
    assert lease is not None
    assert current is not None
    return Work(store, current, lease)


async def through(store: JobStore, steps: Scripted, job: Job | None = None, memory: Memory | None = None) -> Ending:
    job = job or add(store)
    await perform(take_up(store, job), steps, memory or Memory(), QUICK)
    ended = store.get(job.id)
    assert ended is not None
    assert ended.ending is not None
    return ended.ending


async def test_steps_in_order_and_permission_asked_again_before_publishing(store: JobStore) -> None:
    steps = Scripted()
    assert await through(store, steps) == PROPOSED
    assert steps.called == STAGES
    assert steps.told == [PROPOSED]


async def test_a_step_can_end_the_job(store: JobStore) -> None:
    async def no_change(work: Work) -> Ending:
        return Ending(outcome=Outcome.NO_CHANGE, reason="nothing to do")

    steps = Scripted(run=no_change)
    assert (await through(store, steps)).outcome is Outcome.NO_CHANGE
    assert steps.called == [*STAGES[:4], "close_out"]


async def test_a_refused_person_is_told_nothing(store: JobStore) -> None:
    async def refuse(work: Work) -> Ending:
        return Ending(outcome=Outcome.BLOCKED, reason="no write permission", silent=True)

    steps = Scripted(authorise=refuse)
    assert (await through(store, steps)).outcome is Outcome.BLOCKED
    assert steps.called == ["authorise"]


async def test_permission_lost_while_running_is_told_where_a_comment_stands(store: JobStore) -> None:
    asked = 0

    async def refuse_later(work: Work) -> Ending | None:
        nonlocal asked
        asked += 1
        return Ending(outcome=Outcome.BLOCKED, reason="no write permission", silent=True) if asked == 2 else None

    async def comment(work: Work) -> None:
        await work.save(artefacts=Artefacts(comment_id=5))

    steps = Scripted(authorise=refuse_later, acknowledge=comment)
    await through(store, steps)
    assert steps.called == [*STAGES[:5], "close_out"]
    assert "publish" not in steps.called


@pytest.mark.parametrize(
    ("error", "outcome", "words"),
    [
        (UserError("The branch is protected", why="GitHub said so", todo="Allow it"), "blocked", "GitHub said so."),
        (OperatorError("The disk is full", todo="Make room"), "blocked", "Whoever runs Graftsmith has to act."),
        (BugError("impossible"), "failed", "a bug of ours"),
        (ZeroDivisionError("secret detail"), "failed", "ZeroDivisionError, reference "),
    ],
)
async def test_errors_end_the_job_by_who_must_act(store: JobStore, error: Exception, outcome: str, words: str) -> None:
    steps = Scripted(run=always(error))
    ending = await through(store, steps)
    assert ending.outcome == outcome
    assert words in ending.reason
    assert ending.next_step
    assert "secret detail" not in ending.reason
    assert steps.told == [ending], "told once"


async def test_a_passing_trouble_is_waited_out(store: JobStore) -> None:
    steps = Scripted(publish=raising(RetryLater("busy"), RetryLater("busy", after_s=0.05)))  # type: ignore[arg-type]
    began = time.monotonic()
    assert await through(store, steps) == PROPOSED
    assert steps.called.count("publish") == 3
    assert time.monotonic() - began >= 0.05, "as long as the other side said"
    assert steps.called.count("run") == 1, "what was done stays done"


async def test_a_full_disk_is_waited_out_and_named(store: JobStore) -> None:
    full = OSError(errno.ENOSPC, "No space left on device", "/state/jobs/1/brief.json")
    steps = Scripted(prepare=raising(full))  # type: ignore[arg-type]
    assert await through(store, steps) == PROPOSED
    assert steps.called.count("prepare") == 2


async def test_a_lasting_trouble_ends_the_job(store: JobStore) -> None:
    steps = Scripted(authorise=always(RetryLater("GitHub does not answer")))
    ending = await through(store, steps)
    assert (ending.outcome, steps.called) == (Outcome.FAILED, ["authorise"] * 3 + ["close_out"])
    assert ending.reason == "Gave up after 3 tries. GitHub does not answer."


async def test_an_ending_that_cannot_be_told_is_still_the_ending(store: JobStore) -> None:
    steps = Scripted(close_out=always(OperatorError("The App was uninstalled")))
    ending = await through(store, steps)
    assert ending.outcome is Outcome.PROPOSED
    assert "could not be told on GitHub: The App was uninstalled." in ending.reason_in_full


# ── stops ────────────────────────────────────────────────────────────────────────────────────────────────────────


def stop(store: JobStore, word: Word = Word.STOP) -> None:
    store.cancel_others(add(store, command(word=word, requester="lena")))


@pytest.mark.parametrize(
    ("word", "reason", "next_step"),
    [
        (Word.STOP, "Stopped by lena.", "Comment `/agent retry`"),
        (Word.UNLABELED, "Stopped by lena, who removed the label.", "Put the label back"),
        (Word.CLOSED, "Stopped by lena, who closed it.", "Reopen it"),
    ],
)
async def test_stopped_before_a_step(store: JobStore, word: Word, reason: str, next_step: str) -> None:
    store.cancel_others(add(store, command(word=Word.CLOSED, requester="lena")))  # of an earlier day

    async def stop_now(work: Work) -> None:
        add(store, command(word=Word.UNLABELED, requester="otto"))  # not carried out yet
        stop(store, word)
        stop(store, Word.CLOSED)  # too late to be the reason

    steps = Scripted(prepare=stop_now)
    ending = await through(store, steps)
    assert (ending.outcome, ending.reason) == (Outcome.CANCELLED, reason)
    assert ending.next_step.startswith(next_step)
    assert steps.called == ["authorise", "acknowledge", "prepare", "close_out"]


@pytest.mark.parametrize("error", [Halted(), RuntimeError("killed"), UserError("no result")])
async def test_stopped_while_running_whatever_the_run_makes_of_it(store: JobStore, error: Exception) -> None:
    async def run(work: Work) -> None:
        stop(store)
        work.halt()  # as the monitor does when it sees the stop
        assert work.cancelled()
        raise error

    assert (await through(store, Scripted(run=run))).reason == "Stopped by lena."


async def test_stopped_just_before_a_write(store: JobStore) -> None:
    written = []

    async def publish(work: Work) -> None:
        stop(store)
        await work.check()
        written.append(1)

    assert (await through(store, Scripted(publish=publish))).outcome is Outcome.CANCELLED
    assert written == []


async def test_a_stop_wakes_a_long_wait(store: JobStore) -> None:
    job = add(store)
    work = take_up(store, job)

    async def busy(_: Work) -> None:
        stop(store)
        asyncio.get_running_loop().call_later(0.01, work.halt)
        raise RetryLater("rate limit", after_s=3600.0)

    await asyncio.wait_for(perform(work, Scripted(run=busy), Memory(), QUICK), 10)
    ended = store.get(job.id)
    assert ended is not None
    assert ended.ending is not None
    assert ended.ending.reason == "Stopped by lena."


async def test_the_ending_is_told_although_stopped(store: JobStore) -> None:
    async def close(work: Work) -> None:
        stop(store)
        work.halt()
        await work.check()
        assert not work.cancelled()

    steps = Scripted(close_out=close)
    assert await through(store, steps) == PROPOSED
    assert steps.told == [PROPOSED]


async def test_stop_job_asks_for_permission_too(store: JobStore) -> None:
    waiting = add(store)
    steps = Scripted()
    ending = await through(store, steps, add(store, command(word=Word.STOP)))
    assert (ending.outcome, ending.reason) == (Outcome.ANSWERED, "Stopped 1 job.")
    assert steps.called == ["authorise", "close_out"]
    stopped = store.get(waiting.id)
    assert stopped is not None
    assert stopped.cancelled_by == "maintainer"


@pytest.mark.parametrize("word", [Word.UNLABELED, Word.CLOSED])
async def test_what_was_taken_away_is_told_by_the_job_that_it_stops_alone(store: JobStore, word: Word) -> None:
    waiting, steps = add(store), Scripted()
    ending = await through(store, steps, add(store, command(word=word)))
    assert (ending.silent, steps.called) == (True, [])
    assert ending.reason == "Stopped 1 job."
    later = add(store)
    stopped = store.get(waiting.id)
    assert stopped is not None and stopped.cancelled_by == "maintainer"
    assert await through(store, steps, later) == PROPOSED


# ── lives ────────────────────────────────────────────────────────────────────────────────────────────────────────


class Died(BaseException):
    """The process was killed."""


@pytest.mark.parametrize("place", range(len(STAGES)))
async def test_killed_in_any_step_only_that_step_is_done_again(store: JobStore, place: int) -> None:
    job, memory, steps = add(store), Memory(), Scripted()
    first_life = Scripted()

    async def die(name: str, work: Work) -> Ending | None:
        first_life.called.append(name)
        if len(first_life.called) == place + 1:
            raise Died
        return PROPOSED if name == "publish" else None

    first_life._do = die  # type: ignore[method-assign]
    with pytest.raises(Died):
        await perform(take_up(store, job), first_life, memory, QUICK)
    assert await through(store, steps, job, memory) == PROPOSED
    assert steps.called == STAGES[place:]


async def test_a_worker_that_lost_its_lease_stops_and_says_nothing(store: JobStore) -> None:
    job = add(store)

    async def taken_away(work: Work) -> None:
        store.claim(job.id, "a", 60.0)  # a second life of the same worker
        await work.check()

    steps = Scripted(run=taken_away)
    with pytest.raises(LeaseLost):
        await perform(take_up(store, job), steps, Memory(), QUICK)
    assert steps.called == STAGES[:4]
    assert steps.let_go_of == [job.id]
    still = store.get(job.id)
    assert still is not None
    assert still.ending is None


async def test_a_step_that_kills_its_worker_again_and_again_ends_the_job(store: JobStore) -> None:
    job, memory = add(store), Memory()
    deadly = Scripted(run=always(Died()))  # type: ignore[arg-type]
    for _ in range(MAX_ATTEMPTS):
        with pytest.raises(Died):
            await perform(take_up(store, job), deadly, memory, QUICK)
    ending = await through(store, deadly, job, memory)
    assert ending.outcome is Outcome.FAILED
    assert f"died {MAX_ATTEMPTS} times" in ending.reason


async def test_shut_down_leaves_the_step_to_the_next_life(store: JobStore) -> None:
    async def run(work: Work) -> None:
        work.halt()
        raise Halted

    job, memory, halted, later = add(store), Memory(), Scripted(run=run), Scripted()
    with pytest.raises(asyncio.CancelledError):
        await perform(take_up(store, job), halted, memory, QUICK)
    assert await through(store, later, job, memory) == PROPOSED
    assert halted.let_go_of == later.let_go_of == [job.id]


async def test_database_trouble_is_waited_out(store: JobStore) -> None:
    """The table goes away under the worker, and comes back."""
    hidden = False

    def rename(old: str, new: str) -> None:
        with store._write() as db:
            db.exec_driver_sql(f"ALTER TABLE {old} RENAME TO {new}")

    async def run(work: Work) -> None:
        nonlocal hidden
        if not hidden:
            hidden = True
            rename("jobs", "gone")
            try:
                await work.check()
            finally:
                rename("gone", "jobs")

    steps = Scripted(run=run)
    assert await through(store, steps) == PROPOSED
    assert steps.called.count("run") == 2
