"""What happens to a job, step by step, and what each kind of error makes of it.

Free of the executor: a step is tried, and its verdict is a small value that the executor records, so that a finished
step is not done again after a crash. A step that was under way *is* done again: each finds its own traces in
``work.job.artefacts`` and on the other side.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import ParamSpec, Protocol, TypeVar

from sqlalchemy.exc import DBAPIError

from agent.errors import GraftsmithError, OperatorError, RetryLater, UserError, disk_full
from agent.types import Outcome, Usage, Value
from app.jobs import telling
from app.jobs.store import JobStore, Lease, LeaseLost
from app.jobs.types import STOPPING, WITHDRAWN, Artefacts, Ending, Job, Word

_log = logging.getLogger(__name__)
P = ParamSpec("P")
T = TypeVar("T")

_LONGEST_REST_S = 3600.0
MAX_ATTEMPTS = 20  # take-ups in the same stage: then that stage is what kills the worker


class Stopped(Exception):
    """A person has stopped the job, by one of the words ``STOPPING``."""

    def __init__(self, by: str, word: Word) -> None:
        super().__init__(f"{word.value} by {by}")
        self.by = by
        self.word = word


class Halted(Exception):
    """A step raises this after it saw ``work.cancelled()`` and ended what it had started."""


class Work:
    """A job in the hands of a worker: what a step gets, and its only way to write to the job's row.

    Args:
        job: the row as it was taken up.
        lease: the right to work on it.
    """

    def __init__(self, store: JobStore, job: Job, lease: Lease) -> None:
        self.job = job
        self.lease = lease
        self._store = store
        self._halt = asyncio.Event()
        self._closing = False

    def cancelled(self) -> bool:
        """True as soon as what runs must end: stopped by a person, lost to another worker, or a shutdown.

        Safe to call from any thread. Whoever sees it kills what it started and raises ``Halted``.
        """
        return self._halt.is_set() and not self._closing

    async def check(self) -> None:
        """Call before each write to the outside.

        Raises:
            LeaseLost: another worker has the job.
            Stopped: a person has stopped it (not while closing out).
            RetryLater: the job database does not answer.
        """
        standing = await _in_store(self._store.standing, [self.lease])
        if self.lease not in standing:
            raise LeaseLost(self.lease.job_id)
        by = standing[self.lease]
        if by is not None and not self._closing:
            raise Stopped(by, await self._stopped_with(by))

    async def save(self, *, artefacts: Artefacts | None = None, usage: Usage | None = None) -> None:
        """Write to the job's row, on disk when this returns.

        Raises:
            LeaseLost: another worker has the job.
            RetryLater: the job database does not answer.
        """
        await _in_store(self._store.save, self.lease, artefacts=artefacts, usage=usage)
        self.job = self.job.model_copy(
            update={"artefacts": artefacts or self.job.artefacts, "usage": usage or self.job.usage}
        )

    async def cancel_others(self) -> int:
        """Stop the earlier jobs of the same issue; returns how many were told."""
        return await _in_store(self._store.cancel_others, self.job)

    async def _stopped_with(self, by: str) -> Word:
        """What ``by`` did to stop this job: the first that came after it, as the first stop counts."""
        lanes = [self.job.command.lane_of(word) for word in STOPPING]
        found = [job for lane in lanes for job in await _in_store(self._store.of_lane, lane)]
        later = [job for job in found if job.sequence > self.job.sequence and job.command.requester == by]
        return min(later, key=lambda job: job.sequence).command.word if later else Word.STOP

    async def of_issue(self) -> list[Job]:
        """The jobs of the same issue, newest first."""
        return await _in_store(self._store.of_lane, self.job.command.issue)

    async def of_lane(self) -> list[Job]:
        """The jobs of the same lane, newest first."""
        return await _in_store(self._store.of_lane, self.job.command.lane)

    async def note_told(self, earlier: Job) -> None:
        """Note that the ending of an earlier job, which could not be told at its time, has been told now."""
        await _in_store(self._store.note_told, earlier)

    async def _enter(self, stage: str) -> None:
        attempts = await _in_store(self._store.enter, self.lease, stage)
        self.job = self.job.model_copy(update={"stage": stage, "attempts": attempts})

    async def _finish(self, ending: Ending) -> None:
        await _in_store(self._store.finish, self.lease, ending)

    def _begin_closing(self) -> None:
        """From now on a stop has no effect: the ending is being told."""
        self._closing = True

    def halt(self) -> None:
        """Make ``cancelled()`` true and wake a waiting retry."""
        self._halt.set()

    async def _rest(self, until: float) -> None:
        """Wait until ``until`` (seconds since the epoch) or until the work is halted.

        Never longer than anybody has us wait: the clock may be set back meanwhile.
        """
        wake = asyncio.Event() if self._closing else self._halt
        with suppress(TimeoutError):
            async with asyncio.timeout(min(max(0.0, until - time.time()), _LONGEST_REST_S)):
                await wake.wait()


async def _in_store(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    try:
        return await asyncio.to_thread(function, *args, **kwargs)
    except DBAPIError as error:
        raise RetryLater("The job database does not answer", why=str(error.orig)) from error


class Steps(Protocol):
    """What a job does to the world. Given at construction; each step may run more than once.

    A step returns an ``Ending`` to end the job there, or ``None`` to go on. It calls ``work.check()`` before each
    write to the outside, and saves what it made in ``work.save(artefacts=…)`` right after. Errors mean: ``RetryLater``
    the step is tried again later, ``UserError`` and ``OperatorError`` the job ends as blocked with their words,
    anything else is a bug of ours.
    """

    async def authorise(self, work: Work) -> Ending | None:
        """Ask for the requester's live permission. Called at the start and again before publishing."""

    async def acknowledge(self, work: Work) -> Ending | None:
        """Make the one status comment."""

    async def prepare(self, work: Work) -> Ending | None:
        """Fetch what a run needs."""

    async def run(self, work: Work) -> Ending | None:
        """Run the agent; ``None`` when there is something to publish, which a plan or an answer never is."""

    async def publish(self, work: Work) -> Ending | None:
        """Publish the result of the run; never ``None``."""

    async def take_back(self, work: Work) -> Ending | None:
        """Make a pull request a draft again whose acknowledged state a commit has overtaken; never ``None``."""

    async def undo(self, work: Work) -> Ending | None:
        """Take back what the last job has put on a pull request; never ``None``."""

    async def close_out(self, work: Work, ending: Ending) -> None:
        """Tell the ending in the status comment. Called for every ending but silent ones that left no trace."""

    def let_go(self, work: Work) -> None:
        """End what was started for the job in this process; called last, whatever came of the job. Must not wait."""


Step = Callable[[Work], Awaitable[Ending | None]]


def course(word: Word, steps: Steps) -> Sequence[tuple[str, Step]]:
    """The stages of a job, in order."""
    if word is Word.PUSHED:  # it only takes something back, and needs nobody's permission
        return (("take back", steps.take_back),)
    if word in WITHDRAWN:  # GitHub let them do it, and nothing is published on what is closed
        return (("stop", _stop_quietly),)
    authorised = ("authorise", steps.authorise)
    if word in _AT_ONCE:
        return (authorised, _AT_ONCE[word])
    if word is Word.UNDO:
        return (authorised, ("undo", steps.undo))
    work = (authorised, ("acknowledge", steps.acknowledge), ("prepare", steps.prepare), ("run", steps.run))
    if word in (Word.ASK, Word.PLAN, Word.REVISE):
        return work
    return (*work, ("authorise again", steps.authorise), ("publish", steps.publish))


async def _stop_others(work: Work) -> Ending:
    count = await work.cancel_others()
    return Ending(outcome=Outcome.ANSWERED, reason=telling.stopped(count), next_step=telling.AGAIN if count else "")


async def _stop_quietly(work: Work) -> Ending:
    return telling.withdrawn(await work.cancel_others())


async def _status(work: Work) -> Ending:
    return telling.status(await work.of_issue(), time.time())


async def _why(work: Work) -> Ending:
    return telling.why(await work.of_issue())


async def _help(work: Work) -> Ending:
    return telling.helped(work.job.command.text)


_AT_ONCE: Mapping[Word, tuple[str, Step]] = {
    Word.STOP: ("stop", _stop_others),
    Word.STATUS: ("status", _status),
    Word.WHY: ("why", _why),
    Word.HELP: ("help", _help),
}


class Verdict(Value):
    """What became of one try of a step: the job ends, the step is tried again, or neither and the job goes on."""

    ending: Ending | None = None
    retry_at: float | None = None
    """Seconds since the epoch."""


@dataclass(frozen=True)
class Patience:
    """How long a step is tried while nobody must act: about an hour and a half in all."""

    tries: int = 14
    first_s: float = 2.0
    most_s: float = 900.0

    def retry_at(self, number: int, error: RetryLater) -> float:
        backoff = min(self.first_s * 2.0 ** (number - 1), self.most_s)
        # Spread out, so that jobs turned away together don't come back together; never earlier than we were told.
        return time.time() + max(backoff * random.uniform(0.75, 1.25), error.after_s or 0.0)  # noqa: S311


class Record(Protocol):
    """Runs ``attempt`` and keeps its verdict under ``name``; after a crash it gives the kept verdict instead.

    Lets ``LeaseLost`` and cancellation through without keeping anything.
    """

    async def __call__(self, name: str, attempt: Callable[[], Awaitable[Verdict]]) -> Verdict: ...


async def perform(work: Work, steps: Steps, record: Record, patience: Patience) -> None:
    """Take a job from where it stands to its end.

    Raises:
        LeaseLost: another worker has the job; nothing more may be done.
    """
    ending = None
    try:
        for stage, step in course(work.job.command.word, steps):
            ending = await _settle(work, stage, step, record, patience)
            if ending is not None:
                break
        await _close(work, ending or our_bug("publish", "the last step named no ending"), steps, record, patience)
    finally:
        steps.let_go(work)


async def _close(work: Work, ending: Ending, steps: Steps, record: Record, patience: Patience) -> None:
    work._begin_closing()
    if not (ending.silent and work.job.artefacts.comment_id is None):
        trouble = await _settle(work, "close out", lambda w: steps.close_out(w, ending), record, patience)
        if trouble is not None:
            ending = ending.model_copy(update={"untold": trouble.reason})
    _log_ending(work.job, ending)
    while True:
        try:
            return await work._finish(ending)
        except RetryLater as error:
            _log.warning("job %s: %s", work.lease.job_id, error)
            await work._rest(patience.retry_at(3, error))


def _log_ending(job: Job, ending: Ending) -> None:
    """What an operator has to know of: not what went as it should, nor whom we did not hear."""
    trouble = ending.outcome in (Outcome.BLOCKED, Outcome.FAILED) and not ending.silent
    level = logging.WARNING if trouble else logging.INFO
    where = f"{job.command.word.value} on {job.command.repository}#{job.command.number}"
    told = " ".join((ending.reason_in_full.partition("\n")[0], ending.next_step)).strip()
    _log.log(level, "job %s: %s ended as %s: %s", job.id, where, ending.outcome, told)


async def _settle(work: Work, stage: str, step: Step, record: Record, patience: Patience) -> Ending | None:
    """Try a step until it is done, ends the job, or patience ends."""
    number = 0
    while True:
        number += 1
        verdict = await record(f"{stage} {number}", partial(_attempt, work, stage, step, patience, number))
        if verdict.retry_at is None:
            return verdict.ending
        await work._rest(verdict.retry_at)


async def _attempt(work: Work, stage: str, step: Step, patience: Patience, number: int) -> Verdict:
    try:
        await work._enter(stage)
        await work.check()
        if work.job.attempts > MAX_ATTEMPTS:
            return Verdict(ending=our_bug(stage, f"the worker died {MAX_ATTEMPTS} times in this step"))
        return Verdict(ending=await _run_step(work, step))
    except LeaseLost:
        raise
    except Stopped as stopped:
        return Verdict(ending=telling.cancelled(stopped.by, stopped.word))
    except RetryLater as error:
        return _later(work, stage, patience, number, error)
    except (UserError, OperatorError) as error:
        return Verdict(ending=_blocked(error))
    except Exception as error:  # the one place of a worker where everything ends up: recorded, and told
        if disk_full(error):
            full = RetryLater(
                "The disk of the machine that runs Graftsmith is full", todo="Make room in its state folder"
            )
            return _later(work, stage, patience, number, full)
        reference = uuid.uuid4().hex[:8]
        _log.exception("job %s, %s: error %s", work.lease.job_id, stage, reference)
        return Verdict(ending=our_bug(stage, f"{type(error).__name__}, reference {reference}"))


def _later(work: Work, stage: str, patience: Patience, number: int, error: RetryLater) -> Verdict:
    if number >= patience.tries:
        reason = f"Gave up after {number} tries. {error}"
        return Verdict(ending=Ending(outcome=Outcome.FAILED, reason=reason, next_step=telling.AGAIN))
    _log.warning("job %s, %s: try %d: %s", work.lease.job_id, stage, number, error)
    return Verdict(retry_at=patience.retry_at(number, error))


async def _run_step(work: Work, step: Step) -> Ending | None:
    try:
        return await step(work)
    except Exception as error:
        if not work.cancelled() or isinstance(error, LeaseLost | Stopped):
            raise
        # Whatever a step says while it is being halted is not its own fault: say why it was halted instead.
        await work.check()
        raise asyncio.CancelledError from error  # neither lost nor stopped: this process is going down


def _blocked(error: GraftsmithError) -> Ending:
    who = "" if isinstance(error, UserError) else " Whoever runs Graftsmith has to act."
    return Ending(outcome=Outcome.BLOCKED, reason=error.reason + who, next_step=error.todo or telling.AGAIN)


def our_bug(stage: str, detail: str) -> Ending:
    """The ending of a job that a fault of ours has ended."""
    return Ending(
        outcome=Outcome.FAILED,
        reason=f"Graftsmith itself went wrong in the step “{stage}” ({detail}): a bug of ours, not of your code.",
        next_step="Whoever runs Graftsmith finds the details in its log. " + telling.AGAIN,
    )
