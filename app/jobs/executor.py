"""Runs jobs durably: DBOS executes, our table says what there is to execute.

DBOS knows a job by its id and keeps the verdict of each finished step. Jobs reach it from the table (an outbox, swept
regularly and whenever there is news), one per issue at a time, and no more than a worker has room for: none waits in a
queue of DBOS, into which it would have to look again and again. A worker holds a job by a lease that it renews; when
the lease runs out, another worker fences the old one off and has DBOS start the job again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from dbos import DBOS, SetWorkflowID
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from agent.errors import OperatorError
from app.jobs.durable import open_dbos
from app.jobs.store import JobStore, LeaseLost
from app.jobs.types import JobState, Queue
from app.jobs.workflow import Patience, Steps, Verdict, Work, our_bug, perform

_log = logging.getLogger(__name__)

_CONTROL_CONCURRENCY = 8


@dataclass(frozen=True)
class Pace:
    """How often things are looked at, in seconds.

    Args:
        lease: how long a silent worker keeps its jobs.
        monitor: how often a running job looks whether it was stopped.
        sweep: how often jobs are looked for that no nudge announced.
    """

    lease: float = 30.0
    monitor: float = 0.5
    sweep: float = 2.0


class _Duty:
    """What jobs stand still without: done every so many seconds and whenever it is woken, for ever."""

    def __init__(self, act: Callable[[], Awaitable[None]], seconds: float) -> None:
        self._act = act
        self._seconds = seconds
        self.woken = asyncio.Event()
        self.done_at = float("-inf")
        """On the monotonic clock; at first when it was begun."""

    def begin(self) -> asyncio.Task[None]:
        self.done_at = time.monotonic()
        return asyncio.create_task(self._keep())

    async def _keep(self) -> None:
        failing = False
        while True:
            try:
                await self._act()
                self.done_at = time.monotonic()
                failing = False
            except Exception:
                if not failing:  # said once: it may be tried thousands of times before somebody makes room on a disk
                    _log.exception("jobs are not moved")
                failing = True
            # Not wait_for, which loses a cancellation that comes together with the wake-up (Python 3.11).
            with suppress(TimeoutError):
                async with asyncio.timeout(self._seconds):
                    await self.woken.wait()
            self.woken.clear()


class Executor:
    """One per process.

    Args:
        store: the jobs table.
        steps: what jobs do.
        database_url: DBOS's own database; a SQLite file of its own, or the Postgres that the store uses.
        identity: who we are among several workers on the same database; see ``claim_identity``.
        concurrency: long jobs at a time in this process.
    """

    def __init__(
        self,
        store: JobStore,
        steps: Steps,
        *,
        database_url: str,
        identity: str,
        concurrency: int = 2,
        pace: Pace | None = None,
        patience: Patience | None = None,
    ) -> None:
        self._store = store
        self._steps = steps
        self._database_url = database_url
        self._identity = identity
        self._limits = {Queue.WORK: concurrency, Queue.CONTROL: _CONTROL_CONCURRENCY}
        self._seats = {queue: asyncio.Semaphore(limit) for queue, limit in self._limits.items()}
        self._pace = pace or Pace()
        self._patience = patience or Patience()
        self._active: set[Work] = set()
        self._workflows: set[asyncio.Task[Any]] = set()
        self._stopping = False
        self._handing_over = _Duty(self._hand_over, self._pace.sweep)
        monitoring, rescuing = _Duty(self._monitor, self._pace.monitor), _Duty(self._rescue, self._pace.lease / 3)
        self._duties = (monitoring, self._handing_over, rescuing)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._workflow: Callable[[str], Coroutine[Any, Any, None]] | None = None

    # ── life ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def start(self) -> None:
        """Launch DBOS on the running loop, take up what an earlier life left, and begin.

        Raises:
            OperatorError: the executor's database can't be used.
        """
        try:
            await self._begin()
        except SQLAlchemyError as error:
            raise OperatorError(
                "The executor's database can't be used",
                why=str(getattr(error, "orig", error)),
                todo="Check that the disk has room, the folder is ours, the file is a database, and nobody holds it",
            ) from error

    async def _begin(self) -> None:
        self._loop = asyncio.get_running_loop()
        open_dbos(self._database_url, self._identity)

        async def job(job_id: str) -> None:  # DBOS registers functions, not methods
            await self._run(job_id)

        self._workflow = DBOS.workflow(name="job", max_recovery_attempts=None)(job)
        DBOS.launch()
        await self._start_lost()
        self._tasks = [duty.begin() for duty in self._duties]

    async def stop(self, *, drain_s: float = 10.0) -> None:
        """Give running jobs ``drain_s`` seconds to end, then halt them; they go on at the next start."""
        self._stopping = True
        await _wait(self._workflows, drain_s)
        for work in self._active:
            work.halt()
        await _wait(self._workflows, 5.0)
        await _cancel([*self._tasks, *self._workflows])
        # Not in the loop's own pool: DBOS has put its own there, and is about to close it.
        with ThreadPoolExecutor(1, thread_name_prefix="dbos-destroy") as pool:
            await asyncio.get_running_loop().run_in_executor(pool, partial(DBOS.destroy, destroy_registry=True))

    def nudge(self) -> None:
        """There may be something to do. Safe to call from any thread."""
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed: we are going down
                self._loop.call_soon_threadsafe(self._handing_over.woken.set)

    @property
    def healthy(self) -> bool:
        """Whether jobs are moved, and there is room to write that down."""
        oldest = min(duty.done_at for duty in self._duties)
        return not self._stopping and time.monotonic() - oldest < self._pace.lease

    # ── one job ──────────────────────────────────────────────────────────────────────────────────────────────────

    async def _run(self, job_id: str) -> None:
        """The workflow. What it raises decides about DBOS's record: cancellation leaves the job to be started again."""
        task = asyncio.current_task()
        assert task is not None
        self._workflows.add(task)  # until it is done: after us, DBOS writes down that it was
        task.add_done_callback(self._workflows.discard)
        work = await self._take_up(job_id)
        if work is None:
            return
        self._active.add(work)
        try:
            async with self._seats[work.job.command.queue]:  # those of a dead worker come without being asked for
                await perform(work, self._steps, self._record, self._patience)
        except LeaseLost:
            _log.warning("job %s was taken over by another worker", job_id)
            raise asyncio.CancelledError from None
        except DBAPIError as error:
            _log.error("job %s stands still: its steps can't be written down (%s)", job_id, error.orig)
            raise asyncio.CancelledError from None
        except Exception:
            _log.exception("job %s: the workflow itself failed", job_id)
            await self._give_up(work)
        finally:
            self._active.discard(work)
            with suppress(DBAPIError):  # the lease ends by itself
                await asyncio.shield(asyncio.to_thread(self._store.release, work.lease))
            self.nudge()

    async def _take_up(self, job_id: str) -> Work | None:
        """Claim the job, waiting for a lease of somebody else to end; ``None`` when it is done."""
        while not self._stopping:
            try:
                lease = await asyncio.to_thread(self._store.claim, job_id, self._identity, self._pace.lease)
                job = await asyncio.to_thread(self._store.get, job_id)
                if job is None or job.state is JobState.DONE:
                    return None
                if lease is not None:
                    return Work(self._store, job, lease)
            except DBAPIError:  # let out, it would end DBOS's record of a job that has not begun, for good
                _log.exception("job %s can't be claimed now", job_id)
            await asyncio.sleep(self._pace.lease / 4)
        raise asyncio.CancelledError

    async def _record(self, name: str, attempt: Callable[[], Awaitable[Verdict]]) -> Verdict:
        async def step() -> dict[str, Any]:
            try:
                return (await attempt()).model_dump(mode="json")
            except LeaseLost:
                # DBOS would keep an error as the step's result. It keeps nothing of a cancellation.
                raise asyncio.CancelledError from None

        return Verdict.model_validate(await DBOS.run_step_async({"name": name}, step))

    async def _give_up(self, work: Work) -> None:
        ending = our_bug(work.job.stage, "the workflow itself failed")
        try:
            await asyncio.to_thread(self._store.finish, work.lease, ending)
        except (LeaseLost, DBAPIError):
            raise asyncio.CancelledError from None  # stays to be started again

    # ── moving jobs ──────────────────────────────────────────────────────────────────────────────────────────────

    async def _hand_over(self) -> None:
        for queue, limit in self._limits.items():
            for job_id in await asyncio.to_thread(self._store.ready, queue, limit, self._identity):
                await self._start(job_id)
                await asyncio.to_thread(self._store.mark_handed_over, job_id)

    async def _start(self, job_id: str) -> None:
        """Have DBOS run the job here, unless it knows it already: then it is being run, or will be."""
        assert self._workflow is not None
        with SetWorkflowID(job_id):
            await DBOS.start_workflow_async(self._workflow, job_id)

    async def _start_lost(self) -> None:
        """Jobs that DBOS had been given before its file was lost."""
        given = await asyncio.to_thread(self._store.handed_over)
        if given:
            known = await DBOS.list_workflows_async(workflow_ids=given, load_input=False, load_output=False)
            for job_id in set(given) - {status.workflow_id for status in known}:
                await self._start(job_id)

    async def _monitor(self) -> None:
        """Keep our leases, and halt what was stopped or lost."""
        works = {work.lease: work for work in self._active}
        if not works:
            return
        await asyncio.to_thread(self._store.renew, list(works), self._pace.lease)
        standing = await asyncio.to_thread(self._store.standing, list(works))
        for lease, work in works.items():
            if lease not in standing or standing[lease] is not None:
                work.halt()

    async def _rescue(self) -> None:
        """Start again what a dead worker left behind, and what stands still here since a disk was full or the like."""
        await asyncio.to_thread(self._store.touch)
        own = {work.job.id for work in self._active}
        orphans = await asyncio.to_thread(self._store.take_over, self._identity, self._pace.lease, own)
        for job_id in [*orphans, *await self._never_claimed()]:
            _log.warning("job %s: nobody works on it any more, starting it again", job_id)
            await DBOS.resume_workflow_async(job_id)

    async def _never_claimed(self) -> list[str]:
        """Jobs that some worker started and died before it claimed them."""
        untouched = await asyncio.to_thread(partial(self._store.handed_over, untouched=True))
        if not untouched:
            return []
        taken = await DBOS.list_workflows_async(
            workflow_ids=untouched, status="PENDING", load_input=False, load_output=False
        )
        oldest = (time.time() - self._pace.lease) * 1000
        return [
            status.workflow_id
            for status in taken
            if status.executor_id != self._identity and (status.dequeued_at or status.created_at or 0) < oldest
        ]


async def _wait(tasks: Collection[asyncio.Task[Any]], seconds: float) -> None:
    if tasks:
        await asyncio.wait(list(tasks), timeout=seconds)


async def _cancel(tasks: list[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
