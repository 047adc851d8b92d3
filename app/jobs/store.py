"""The jobs table: the truth about every job. The only place of the App that holds SQL.

SQLite (WAL, every commit on disk before it returns) or Postgres. All state changes are guarded updates: they name the
state they expect, and tell whether they applied.
"""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from agent.errors import OperatorError, RetryLater
from agent.types import Usage
from app.jobs.types import Artefacts, Command, Delivery, Ending, Job, JobState, Queue

_SCHEMA_VERSION = 1

_metadata = sa.MetaData()
_schema = sa.Table("graftsmith_schema", _metadata, sa.Column("version", sa.Integer, primary_key=True))
_deliveries = sa.Table(
    "deliveries",
    _metadata,
    sa.Column("id", sa.String(100), primary_key=True),  # the guard against running a redelivery again
    sa.Column("event", sa.String(100), nullable=False),
    sa.Column("job_id", sa.String(40), nullable=False),
    sa.Column("body", sa.LargeBinary, nullable=False),  # compressed: it is most of what is written
    sa.Column("received_at", sa.Float, nullable=False),
)
_jobs = sa.Table(
    "jobs",
    _metadata,
    sa.Column("sequence", sa.Integer, primary_key=True, autoincrement=True),
    # Random apart from the sequence: a new database must never meet an old executor's memory of job 1.
    sa.Column("id", sa.String(40), nullable=False, unique=True),
    sa.Column("delivery_id", sa.String(100), nullable=False),
    sa.Column("lane", sa.String(100), nullable=False),
    sa.Column("queue", sa.String(10), nullable=False),
    sa.Column("repository_id", sa.BigInteger, nullable=False),
    sa.Column("command", sa.Text, nullable=False),
    sa.Column("state", sa.String(10), nullable=False),
    sa.Column("stage", sa.String(40), nullable=False, server_default=""),
    sa.Column("ending", sa.Text),
    sa.Column("artefacts", sa.Text, nullable=False, server_default="{}"),
    sa.Column("usage", sa.Text, nullable=False, server_default="{}"),
    sa.Column("attempts", sa.Integer, nullable=False, server_default="0"),
    sa.Column("fence", sa.Integer, nullable=False, server_default="0"),
    sa.Column("owner", sa.String(100)),
    sa.Column("lease_until", sa.Float),
    sa.Column("handed_over", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("cancelled_by", sa.String(300)),
    sa.Column("created_at", sa.Float, nullable=False),
    sa.Column("started_at", sa.Float),
    sa.Column("finished_at", sa.Float),
    sqlite_autoincrement=True,
)
_unfinished = _jobs.c.state != JobState.DONE.value
sa.Index("jobs_unfinished_lane", _jobs.c.lane, _jobs.c.sequence, sqlite_where=_unfinished, postgresql_where=_unfinished)
sa.Index("jobs_unfinished_repository", _jobs.c.repository_id, sqlite_where=_unfinished, postgresql_where=_unfinished)


class LeaseLost(Exception):
    """Another worker has taken the job over. Whoever sees this stops at once and writes nothing more."""


class TooManyWaiting(RetryLater):
    """The repository has as many unfinished jobs as we keep."""


@dataclass(frozen=True)
class Lease:
    """The right to work on a job, until ``fence`` is no longer the row's."""

    job_id: str
    fence: int


@dataclass(frozen=True)
class Arrival:
    """A delivery with its command, on the way into the store."""

    job_id: str
    delivery: Delivery
    command: Command


class JobStore:
    """Thread-safe; every method is one transaction and blocks for as long as that takes.

    Args:
        url: an SQLAlchemy URL, ``sqlite:///FILE`` or ``postgresql+psycopg://…``.
        max_waiting: unfinished jobs of one repository that are kept, of each queue: a ``stop`` must get through when
            nothing else does.

    Raises:
        OperatorError: the database can't be opened, or was written by a newer version.
    """

    def __init__(self, url: str, *, max_waiting: int = 500) -> None:
        self._engine = open_engine(url)
        self._prepare_arrival(max_waiting)
        try:
            with self._write() as db:
                _metadata.create_all(db)
                version = db.scalar(sa.select(_schema.c.version))
                if version is None:
                    db.execute(sa.insert(_schema).values(version=_SCHEMA_VERSION))
        except sa.exc.DatabaseError as error:
            raise OperatorError(
                f"The job database {self._engine.url.render_as_string()} can't be opened",
                why=str(error.orig),
                todo="Check that the disk has room, the folder is ours and the file is a database",
            ) from error
        if version not in (None, _SCHEMA_VERSION):
            raise OperatorError(
                f"The job database has layout {version}, this version of Graftsmith knows {_SCHEMA_VERSION}",
                todo="Start the version that wrote it, or point GRAFTSMITH_STATE_DIR at another folder",
            )

    def _prepare_arrival(self, max_waiting: int) -> None:
        """Statements of the one hot path, made once."""
        insert = sqlite.insert if self._engine.dialect.name == "sqlite" else postgresql.insert
        self._take = insert(_deliveries).on_conflict_do_nothing().returning(_deliveries.c.id)
        self._add = sa.insert(_jobs)
        self._full = (
            sa.select(_jobs.c.repository_id, _jobs.c.queue)
            .where(_unfinished, _jobs.c.repository_id.in_(sa.bindparam("repositories", expanding=True)))
            .group_by(_jobs.c.repository_id, _jobs.c.queue)
            .having(sa.func.count() >= max_waiting)
        )
        self._known = sa.select(_deliveries.c.id, _deliveries.c.job_id).where(
            _deliveries.c.id.in_(sa.bindparam("deliveries", expanding=True))
        )

    def close(self) -> None:
        self._engine.dispose()

    def ping(self) -> None:
        """Raises when the database does not answer."""
        with self._read() as db:
            db.execute(sa.select(sa.literal(1)))

    # ── arrival ──────────────────────────────────────────────────────────────────────────────────────────────────

    def accept(self, arrivals: Sequence[Arrival]) -> list[str | TooManyWaiting]:
        """Store deliveries and their jobs in one transaction, on disk when this returns.

        Returns:
            For each arrival the id of *the* job of its delivery: the new one, or the one that an earlier copy of the
            same delivery made; or ``TooManyWaiting``, and then nothing of it is stored.
        """
        now = time.time()
        with self._write() as db:
            repositories = list({a.command.repository_id for a in arrivals})
            full = {tuple(row) for row in db.execute(self._full, {"repositories": repositories})}
            # Sorted, so that two processes can't wait for each other's rows in opposite order.
            fitting = (a for a in arrivals if (a.command.repository_id, a.command.queue.value) not in full)
            admitted = sorted(fitting, key=lambda a: a.delivery.id)
            rows = [_delivery_row(a, now) for a in admitted]
            new = set(db.execute(self._take, rows).scalars()) if rows else set()
            jobs = {a.delivery.id: a for a in reversed(arrivals) if a.delivery.id in new}
            if jobs:
                db.execute(self._add, [_job_row(a, now) for a in reversed(jobs.values())])
            known = {delivery_id: a.job_id for delivery_id, a in jobs.items()}
            if copies := [a.delivery.id for a in arrivals if a.delivery.id not in known]:
                known.update(tuple(row) for row in db.execute(self._known, {"deliveries": copies}))
        return [known.get(a.delivery.id) or _too_many(a.command.repository) for a in arrivals]

    # ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────

    def get(self, job_id: str) -> Job | None:
        with self._read() as db:
            row = db.execute(sa.select(_jobs).where(_jobs.c.id == job_id)).one_or_none()
        return None if row is None else _job(row)

    def recent(self, limit: int = 50) -> list[Job]:
        """Newest first."""
        with self._read() as db:
            rows = db.execute(sa.select(_jobs).order_by(_jobs.c.sequence.desc()).limit(limit)).all()
        return [_job(row) for row in rows]

    def counts(self) -> Mapping[JobState, int]:
        with self._read() as db:
            rows = db.execute(sa.select(_jobs.c.state, sa.func.count()).group_by(_jobs.c.state)).all()
        return {state: dict(map(tuple, rows)).get(state.value, 0) for state in JobState}

    def of_issue(self, command: Command, limit: int = 50) -> list[Job]:
        """The jobs that worked, work or will work on the command's issue or pull request, newest first."""
        of_issue = _jobs.c.lane == command.issue
        with self._read() as db:
            rows = db.execute(sa.select(_jobs).where(of_issue).order_by(_jobs.c.sequence.desc()).limit(limit)).all()
        return [_job(row) for row in rows]

    def commits(self, repository_id: int, number: int) -> frozenset[str]:
        """Commits that jobs of one issue or pull request have published: ours to build on."""
        of_issue = _jobs.c.lane == f"{repository_id}/{number}"
        with self._read() as db:
            rows = db.execute(sa.select(_jobs.c.artefacts).where(of_issue)).scalars().all()
        found = (Artefacts.model_validate(json.loads(row)).commit_sha for row in rows)
        return frozenset(sha for sha in found if sha)

    def delivery(self, delivery_id: str) -> Delivery | None:
        with self._read() as db:
            row = db.execute(sa.select(_deliveries).where(_deliveries.c.id == delivery_id)).one_or_none()
        return None if row is None else Delivery(id=row.id, event=row.event, body=zlib.decompress(row.body))

    # ── handing over to the executor ─────────────────────────────────────────────────────────────────────────────

    def ready(self, queue: Queue, at_most: int) -> list[str]:
        """Jobs to hand to the executor: the first unfinished of their lane, not handed over yet.

        The repository with the fewest jobs in work comes first, so that a thousand labels in one leave room for others.

        Args:
            at_most: jobs of this queue that may be handed over and unfinished at a time, over all repositories.
        """
        handed_over = sa.and_(_unfinished, _jobs.c.queue == queue.value, _jobs.c.handed_over)
        earlier, busy = _jobs.alias("earlier"), _jobs.alias("busy")
        is_head = ~sa.exists().where(
            earlier.c.lane == _jobs.c.lane,
            earlier.c.sequence < _jobs.c.sequence,
            earlier.c.state != JobState.DONE.value,
        )
        in_work = (
            sa.select(sa.func.count())
            .where(
                busy.c.repository_id == _jobs.c.repository_id, busy.c.state != JobState.DONE.value, busy.c.handed_over
            )
            .scalar_subquery()
        )
        statement = (
            sa.select(_jobs.c.id)
            .where(_jobs.c.state == JobState.QUEUED.value, _jobs.c.queue == queue.value, ~_jobs.c.handed_over, is_head)
            .order_by(in_work, _jobs.c.sequence)
        )
        with self._read() as db:
            room = at_most - (db.scalar(sa.select(sa.func.count()).where(handed_over)) or 0)
            return list(db.execute(statement.limit(room)).scalars()) if room > 0 else []

    def mark_handed_over(self, job_id: str) -> None:
        """After the executor has it: said twice is harmless, because the executor knows a job by its id."""
        self._update(sa.update(_jobs).where(_jobs.c.id == job_id).values(handed_over=True))

    def handed_over(self, *, untouched: bool = False) -> list[tuple[str, Queue]]:
        """Unfinished jobs that the executor was given; ``untouched``: only those that no worker ever took up."""
        statement = sa.select(_jobs.c.id, _jobs.c.queue).where(_unfinished, _jobs.c.handed_over)
        if untouched:
            statement = statement.where(_jobs.c.state == JobState.QUEUED.value)
        with self._read() as db:
            return [(row.id, Queue(row.queue)) for row in db.execute(statement)]

    # ── leases ───────────────────────────────────────────────────────────────────────────────────────────────────

    def claim(self, job_id: str, owner: str, seconds: float) -> Lease | None:
        """Take the job up, unless another worker holds it. ``None`` also when it is done."""
        free = sa.or_(_jobs.c.owner.is_(None), _jobs.c.owner == owner, _jobs.c.lease_until < self._now)
        statement = (
            sa.update(_jobs)
            .where(_jobs.c.id == job_id, _unfinished, free)
            .values(
                state=JobState.RUNNING.value,
                owner=owner,
                fence=_jobs.c.fence + 1,
                attempts=_jobs.c.attempts + 1,
                lease_until=self._now + seconds,
                started_at=sa.func.coalesce(_jobs.c.started_at, self._now),
            )
            .returning(_jobs.c.fence)
        )
        with self._write() as db:
            fence = db.scalar(statement)
        return None if fence is None else Lease(job_id, fence)

    def renew(self, leases: Collection[Lease], seconds: float) -> None:
        """Prolong those of ``leases`` that still hold."""
        self._update(sa.update(_jobs).where(_held(leases)).values(lease_until=self._now + seconds))

    def release(self, lease: Lease) -> None:
        """Let another worker claim the job at once; nothing happens when the lease is lost or the job done."""
        self._update(sa.update(_jobs).where(_held([lease])).values(owner=None))

    def standing(self, leases: Collection[Lease]) -> Mapping[Lease, str | None]:
        """Those of ``leases`` that still hold, each with the login of the person who stopped the job, if any."""
        with self._read() as db:
            rows = db.execute(sa.select(_jobs.c.id, _jobs.c.fence, _jobs.c.cancelled_by).where(_held(leases))).all()
        return {Lease(row.id, row.fence): row.cancelled_by for row in rows}

    def take_over(self, owner: str, seconds: float) -> list[tuple[str, Queue]]:
        """Win the jobs whose worker let its lease run out, each for one caller only.

        The old worker is fenced off. The winner must have the executor start the job again; should it die before
        that, the job can be won again after ``seconds``.

        Args:
            owner: the caller; its own jobs are left alone.
        """
        statement = (
            sa.update(_jobs)
            .where(
                _jobs.c.state == JobState.RUNNING.value,
                sa.or_(_jobs.c.owner.is_(None), _jobs.c.owner != owner),
                _jobs.c.lease_until < self._now,
            )
            .values(owner=None, fence=_jobs.c.fence + 1, lease_until=self._now + seconds)
            .returning(_jobs.c.id, _jobs.c.queue)
        )
        with self._write() as db:
            return [(row.id, Queue(row.queue)) for row in db.execute(statement)]

    # ── progress and end ─────────────────────────────────────────────────────────────────────────────────────────

    def enter(self, lease: Lease, stage: str) -> int:
        """Note that ``stage`` begins, or begins again; returns how often the job was taken up in it so far."""
        attempts = sa.case((_jobs.c.stage == stage, _jobs.c.attempts), else_=1)
        statement = sa.update(_jobs).where(_held([lease])).values(stage=stage, attempts=attempts)
        with self._write() as db:
            count = db.scalar(statement.returning(_jobs.c.attempts))
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

    def cancel_others(self, stopper: Job) -> int:
        """Ask every unfinished job of the same issue that came before ``stopper`` to stop; returns how many."""
        command = stopper.command
        statement = sa.update(_jobs).where(
            _unfinished,
            _jobs.c.lane == f"{command.repository_id}/{command.number}",
            _jobs.c.sequence < stopper.sequence,
        )
        with self._write() as db:
            result = db.execute(
                statement.values(cancelled_by=sa.func.coalesce(_jobs.c.cancelled_by, command.requester))
            )
            return result.rowcount

    def _guarded(self, lease: Lease, values: Mapping[str, Any]) -> None:
        applied = self._update(
            sa.update(_jobs)
            .where(_jobs.c.id == lease.job_id, _jobs.c.fence == lease.fence, _jobs.c.state == JobState.RUNNING.value)
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


def open_engine(url: str) -> sa.Engine:
    """An engine on which a commit is durable when it returns, and SQLite writers wait for each other."""
    engine = sa.create_engine(url, pool_pre_ping=not url.startswith("sqlite"))
    if engine.dialect.name != "sqlite":
        return engine

    @sa.event.listens_for(engine, "connect")
    def set_up(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # transactions begin where we say, below
        for pragma in ("busy_timeout=30000", "journal_mode=WAL", "synchronous=FULL"):
            connection.execute(f"PRAGMA {pragma}")

    @sa.event.listens_for(engine, "begin")
    def begin(connection: sa.Connection) -> None:
        # A reader that turns writer half-way fails at once when another wrote in between: take the lock first.
        write = connection.get_execution_options().get("graftsmith_write", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")

    return engine


def sqlite_url(path: Path) -> str:
    """The URL of a database file; its folder is made, for us alone."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    return f"sqlite:///{path}"


def _held(leases: Collection[Lease]) -> sa.ColumnElement[bool]:
    """The rows of these leases, as far as nobody has taken them over and they are not done."""
    pairs = [(lease.job_id, lease.fence) for lease in leases]
    return sa.and_(_jobs.c.state == JobState.RUNNING.value, sa.tuple_(_jobs.c.id, _jobs.c.fence).in_(pairs))


def _too_many(repository: str) -> TooManyWaiting:
    return TooManyWaiting(
        f"Too many jobs of {repository} are waiting",
        todo="Redeliver when some are done, or raise GRAFTSMITH_MAX_WAITING",
        after_s=60.0,
    )


def _delivery_row(arrival: Arrival, now: float) -> dict[str, Any]:
    delivery = arrival.delivery
    return {
        "id": delivery.id,
        "event": delivery.event,
        "job_id": arrival.job_id,
        "body": zlib.compress(delivery.body, 1),
        "received_at": now,
    }


def _job_row(arrival: Arrival, now: float) -> dict[str, Any]:
    command = arrival.command
    return {
        "id": arrival.job_id,
        "delivery_id": arrival.delivery.id,
        "lane": command.lane,
        "queue": command.queue.value,
        "repository_id": command.repository_id,
        "command": command.model_dump_json(),
        "state": JobState.QUEUED.value,
        "created_at": now,
    }


def _job(row: sa.Row[Any]) -> Job:
    return Job(
        id=row.id,
        sequence=row.sequence,
        delivery_id=row.delivery_id,
        command=Command.model_validate_json(row.command),
        state=JobState(row.state),
        stage=row.stage,
        ending=None if row.ending is None else Ending.model_validate_json(row.ending),
        artefacts=Artefacts.model_validate(json.loads(row.artefacts)),
        usage=Usage.model_validate(json.loads(row.usage)),
        attempts=row.attempts,
        fence=row.fence,
        cancelled_by=row.cancelled_by,
        created_at=row.created_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
    )
