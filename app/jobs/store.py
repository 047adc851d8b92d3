"""The jobs table: the truth about every job. With ``tables`` and ``arrivals`` the only place of the App that holds SQL.

All state changes are guarded updates: they name the state they expect, and tell whether they applied.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from agent.errors import OperatorError
from agent.types import Usage
from app.jobs import tables
from app.jobs.arrivals import Arrival, Arrivals, TooManyWaiting
from app.jobs.room import Room
from app.jobs.tables import deliveries, jobs, unfinished
from app.jobs.types import Artefacts, Delivery, Ending, Job, JobState, Queue
from sandbox.closing import Closing


class LeaseLost(Exception):
    """Another worker has taken the job over. Whoever sees this stops at once and writes nothing more."""


@dataclass(frozen=True)
class Lease:
    """The right to work on a job, until ``fence`` is no longer the row's."""

    job_id: str
    fence: int


class JobStore(Closing):
    """Thread-safe; every method is one transaction and blocks for as long as that takes.

    Args:
        url: an SQLAlchemy URL, ``sqlite:///FILE`` or ``postgresql+psycopg://…``.
        room: how many unfinished jobs are kept.

    Raises:
        OperatorError: the database can't be opened, or was written by a newer version.
    """

    def __init__(self, url: str, *, room: Room | None = None) -> None:
        self._engine = tables.open_engine(url)
        self._arrivals = Arrivals(self._engine.dialect, room or Room())
        self._arriving = threading.Lock()
        try:
            with self._write() as db:
                tables.lay_out(db)
        except sa.exc.DatabaseError as error:
            raise OperatorError(
                f"The job database {self._engine.url.render_as_string()} can't be opened",
                why=str(error.orig),
                todo="Check that the disk has room, the folder is ours, the file is a database, and nobody holds it"
                if self._engine.dialect.name == "sqlite"
                else "Check GRAFTSMITH_DATABASE_URL, and that the server runs and lets this user in",
            ) from error

    def close(self) -> None:
        self._engine.dispose()

    def ping(self) -> None:
        """Raises when the database does not answer."""
        with self._read() as db:
            db.execute(sa.select(sa.literal(1)))

    def touch(self) -> None:
        """Write something that changes nothing. Raises when there is no room for it."""
        with self._write() as db:
            db.execute(sa.update(tables.schema).values(version=tables.schema.c.version))

    # ── arrival ──────────────────────────────────────────────────────────────────────────────────────────────────

    def accept(self, arrivals: Sequence[Arrival]) -> list[str | TooManyWaiting]:
        """Store deliveries and their jobs in one transaction, on disk when this returns.

        Returns:
            For each arrival the id of *the* job of its delivery: the new one, or the one that an earlier copy of the
            same delivery made; or ``TooManyWaiting``, and then nothing of it is stored.
        """
        with self._arriving, self._write() as db:
            return self._arrivals.accept(arrivals, db)

    # ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────

    def get(self, job_id: str) -> Job | None:
        with self._read() as db:
            row = db.execute(sa.select(jobs).where(jobs.c.id == job_id)).one_or_none()
        return None if row is None else tables.job_of(row)

    def recent(self, limit: int = 50) -> list[Job]:
        """Newest first."""
        with self._read() as db:
            rows = db.execute(sa.select(jobs).order_by(jobs.c.sequence.desc()).limit(limit)).all()
        return [tables.job_of(row) for row in rows]

    def counts(self) -> Mapping[JobState, int]:
        with self._read() as db:
            rows = db.execute(sa.select(jobs.c.state, sa.func.count()).group_by(jobs.c.state)).all()
        return {state: dict(map(tuple, rows)).get(state.value, 0) for state in JobState}

    def of_lane(self, lane: str, limit: int = 50) -> list[Job]:
        """The jobs of a lane, newest first; ``Command.issue`` is that of the work on an issue or pull request."""
        named = jobs.c.lane == lane
        with self._read() as db:
            rows = db.execute(sa.select(jobs).where(named).order_by(jobs.c.sequence.desc()).limit(limit)).all()
        return [tables.job_of(row) for row in rows]

    def commits(self, repository_id: int, number: int) -> frozenset[str]:
        """Commits that jobs of one issue or pull request have published: ours to build on."""
        of_issue = jobs.c.lane == f"{repository_id}/{number}"
        with self._read() as db:
            rows = db.execute(sa.select(jobs.c.artefacts).where(of_issue)).scalars().all()
        found = (Artefacts.model_validate(json.loads(row), extra=tables.NEWER).commit_sha for row in rows)
        return frozenset(sha for sha in found if sha)

    def published(self, repository_id: int, pull_number: int) -> list[Job]:
        """Finished jobs that have published to a pull request, whatever issue they were about; newest first."""
        named = jobs.c.artefacts.contains(f'"pull_number":{pull_number}')
        asked = sa.select(jobs).where(jobs.c.repository_id == repository_id, jobs.c.state == JobState.DONE.value, named)
        with self._read() as db:
            found = [tables.job_of(row) for row in db.execute(asked.order_by(jobs.c.sequence.desc()))]
        return [job for job in found if job.artefacts.pull_number == pull_number and job.artefacts.commit_sha]

    def delivery(self, delivery_id: str) -> Delivery | None:
        with self._read() as db:
            row = db.execute(sa.select(deliveries).where(deliveries.c.id == delivery_id)).one_or_none()
        return Delivery(id=row.id, event=row.event, excerpt=tables.unpacked(row.body)) if row and row.body else None

    def old(self, job_ids: Collection[str], seconds: float) -> frozenset[str]:
        """Those of the jobs that have been done for so long."""
        done = sa.and_(jobs.c.state == JobState.DONE.value, jobs.c.finished_at < self._now - seconds)
        with self._read() as db:
            return frozenset(db.scalars(sa.select(jobs.c.id).where(jobs.c.id.in_(job_ids), done)))

    def empty_deliveries(self, seconds: float) -> int:
        """Forget what deliveries said whose jobs have been done for so long; returns how many. Their ids stay: a copy
        that comes again makes no second job."""
        done = sa.and_(jobs.c.state == JobState.DONE.value, jobs.c.finished_at < self._now - seconds)
        of_old = deliveries.c.job_id.in_(sa.select(jobs.c.id).where(done))
        with self._write() as db:
            emptied = sa.update(deliveries).where(sa.func.length(deliveries.c.body) > 0, of_old).values(body=b"")
            return db.execute(emptied).rowcount

    # ── handing over to the executor ─────────────────────────────────────────────────────────────────────────────

    def ready(self, queue: Queue, at_most: int, owner: str) -> list[str]:
        """Jobs to hand to the executor of one worker: the first unfinished of their lane, not handed over yet.

        The repository with the fewest jobs in work comes first, and of those the one that has waited longest for its
        turn, so that a thousand labels in one leave room for others.

        Args:
            at_most: jobs of this queue that the worker may have unfinished at a time; one that no worker has claimed
                yet counts for each.
            owner: the worker.
        """
        its = sa.or_(jobs.c.owner == owner, jobs.c.owner.is_(None))
        handed_over = sa.and_(unfinished, jobs.c.queue == queue.value, jobs.c.handed_over, its)
        earlier, busy, last = jobs.alias("earlier"), jobs.alias("busy"), jobs.alias("last")
        is_head = ~sa.exists().where(
            earlier.c.lane == jobs.c.lane,
            earlier.c.sequence < jobs.c.sequence,
            earlier.c.state != JobState.DONE.value,
        )
        in_work = (
            sa.select(sa.func.count())
            .where(
                busy.c.repository_id == jobs.c.repository_id, busy.c.state != JobState.DONE.value, busy.c.handed_over
            )
            .scalar_subquery()
        )
        turn = sa.select(sa.func.max(last.c.started_at)).where(last.c.repository_id == jobs.c.repository_id)
        before = sa.func.row_number().over(partition_by=jobs.c.repository_id, order_by=jobs.c.sequence)
        statement = (
            sa.select(jobs.c.id)
            # Said twice, so that the index of the unfinished ones is looked through and not all that ever was.
            .where(unfinished, jobs.c.state == JobState.QUEUED.value)
            .where(jobs.c.queue == queue.value, ~jobs.c.handed_over, is_head)
            .order_by(in_work + before, sa.func.coalesce(turn.scalar_subquery(), 0.0), jobs.c.sequence)
        )
        with self._read() as db:
            room = at_most - (db.scalar(sa.select(sa.func.count()).where(handed_over)) or 0)
            return list(db.execute(statement.limit(room)).scalars()) if room > 0 else []

    def mark_handed_over(self, job_id: str) -> None:
        """After the executor has it: said twice is harmless, because the executor knows a job by its id."""
        self._update(sa.update(jobs).where(jobs.c.id == job_id).values(handed_over=True))

    def handed_over(self, *, untouched: bool = False) -> list[str]:
        """Unfinished jobs that the executor was given; ``untouched``: only those that no worker ever took up."""
        statement = sa.select(jobs.c.id).where(unfinished, jobs.c.handed_over).order_by(jobs.c.sequence)
        if untouched:
            statement = statement.where(jobs.c.state == JobState.QUEUED.value)
        with self._read() as db:
            return list(db.execute(statement).scalars())

    # ── leases ───────────────────────────────────────────────────────────────────────────────────────────────────

    def claim(self, job_id: str, owner: str, seconds: float) -> Lease | None:
        """Take the job up, unless another worker holds it. ``None`` also when it is done."""
        free = sa.or_(jobs.c.owner.is_(None), jobs.c.owner == owner, jobs.c.lease_until < self._now)
        statement = (
            sa.update(jobs)
            .where(jobs.c.id == job_id, unfinished, free)
            .values(
                state=JobState.RUNNING.value,
                owner=owner,
                fence=jobs.c.fence + 1,
                attempts=jobs.c.attempts + 1,
                lease_until=self._now + seconds,
                started_at=sa.func.coalesce(jobs.c.started_at, self._now),
            )
            .returning(jobs.c.fence)
        )
        with self._write() as db:
            fence = db.scalar(statement)
        return None if fence is None else Lease(job_id, fence)

    def renew(self, leases: Collection[Lease], seconds: float) -> None:
        """Prolong those of ``leases`` that still hold."""
        self._update(sa.update(jobs).where(_held(leases)).values(lease_until=self._now + seconds))

    def release(self, lease: Lease) -> None:
        """Let another worker claim the job at once; nothing happens when the lease is lost or the job done."""
        self._update(sa.update(jobs).where(_held([lease])).values(owner=None))

    def standing(self, leases: Collection[Lease]) -> Mapping[Lease, str | None]:
        """Those of ``leases`` that still hold, each with the login of the person who stopped the job, if any."""
        with self._read() as db:
            rows = db.execute(sa.select(jobs.c.id, jobs.c.fence, jobs.c.cancelled_by).where(_held(leases))).all()
        return {Lease(row.id, row.fence): row.cancelled_by for row in rows}

    def take_over(self, owner: str, seconds: float, active: Collection[str] = ()) -> list[str]:
        """Win the jobs whose worker let its lease run out, each for one caller only.

        The old worker is fenced off. The winner must have the executor start the job again; should it die before
        that, the job can be won again after ``seconds``.

        Args:
            owner: the caller.
            active: those of its own jobs that it works on: they are left alone.
        """
        statement = (
            sa.update(jobs)
            .where(
                jobs.c.state == JobState.RUNNING.value,
                sa.or_(jobs.c.owner.is_(None), jobs.c.owner != owner, jobs.c.id.not_in(active)),
                jobs.c.lease_until < self._now,
            )
            .values(owner=None, fence=jobs.c.fence + 1, lease_until=self._now + seconds)
            .returning(jobs.c.id)
        )
        with self._write() as db:
            return list(db.execute(statement).scalars())

    # ── progress and end ─────────────────────────────────────────────────────────────────────────────────────────

    def enter(self, lease: Lease, stage: str) -> int:
        """Note that ``stage`` begins, or begins again; returns how often the job was taken up in it so far."""
        attempts = sa.case((jobs.c.stage == stage, jobs.c.attempts), else_=1)
        statement = sa.update(jobs).where(_held([lease])).values(stage=stage, attempts=attempts)
        with self._write() as db:
            count = db.scalar(statement.returning(jobs.c.attempts))
        if count is None:
            raise LeaseLost(lease.job_id)
        return int(count)

    def save(self, lease: Lease, *, artefacts: Artefacts | None = None, usage: Usage | None = None) -> None:
        """Write what is given. Raises ``LeaseLost``."""
        values = {
            "artefacts": artefacts and artefacts.model_dump_json(exclude_none=True),
            "usage": usage and usage.model_dump_json(),
        }
        self._guarded(lease, {name: value for name, value in values.items() if value is not None})

    def finish(self, lease: Lease, ending: Ending) -> None:
        """The job is done. Raises ``LeaseLost``, also when it was done already."""
        self._guarded(
            lease, {"state": JobState.DONE.value, "ending": ending.model_dump_json(), "finished_at": self._now}
        )

    def note_told(self, job: Job) -> None:
        """The ending of a job that is done is no longer untold."""
        assert job.ending is not None
        told = job.ending.model_copy(update={"untold": ""}).model_dump_json()
        self._update(sa.update(jobs).where(jobs.c.id == job.id).values(ending=told))

    def cancel_others(self, stopper: Job) -> int:
        """Ask every unfinished job of the same issue that came before ``stopper`` to stop; returns how many."""
        command = stopper.command
        statement = sa.update(jobs).where(
            unfinished,
            jobs.c.lane == f"{command.repository_id}/{command.number}",
            jobs.c.sequence < stopper.sequence,
        )
        with self._write() as db:
            result = db.execute(statement.values(cancelled_by=sa.func.coalesce(jobs.c.cancelled_by, command.requester)))
            return result.rowcount

    def _guarded(self, lease: Lease, values: Mapping[str, Any]) -> None:
        applied = self._update(
            sa.update(jobs)
            .where(jobs.c.id == lease.job_id, jobs.c.fence == lease.fence, jobs.c.state == JobState.RUNNING.value)
            .values(**values)
        )
        if not applied:
            raise LeaseLost(lease.job_id)

    # ── plumbing ─────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def _now(self) -> sa.ColumnElement[float]:
        """Seconds since the epoch by the database's clock: leases must not depend on how well two machines agree."""
        if self._engine.dialect.name == "sqlite":
            return (sa.func.julianday("now", type_=sa.Float) - 2440587.5) * 86400.0
        return sa.cast(sa.func.extract("epoch", sa.func.clock_timestamp()), sa.Float)

    def _update(self, statement: sa.Update) -> bool:
        with self._write() as db:
            return db.execute(statement).rowcount > 0

    @contextmanager
    def _write(self) -> Iterator[sa.Connection]:
        with self._engine.connect().execution_options(graftsmith_write=True) as db, db.begin():
            yield db

    @contextmanager
    def _read(self) -> Iterator[sa.Connection]:
        with self._engine.connect() as db:
            yield db


def _held(leases: Collection[Lease]) -> sa.ColumnElement[bool]:
    """The rows of these leases, as far as nobody has taken them over and they are not done."""
    pairs = [(lease.job_id, lease.fence) for lease in leases]
    return sa.and_(jobs.c.state == JobState.RUNNING.value, sa.tuple_(jobs.c.id, jobs.c.fence).in_(pairs))
