"""The jobs table: the truth about every job. The only place of the App that holds SQL.

SQLite (WAL, every commit on disk before it returns) or Postgres. All state changes are guarded updates: they name the
state they expect, and tell whether they applied.
"""

from __future__ import annotations

import itertools
import json
import threading
import time
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from agent.errors import OperatorError, RetryLater
from agent.types import Usage
from app.jobs import telling
from app.jobs.room import Room
from app.jobs.types import WITHDRAWN, Artefacts, Command, Delivery, Ending, Job, JobState, Queue

_UPGRADES = {1: "ALTER TABLE jobs ADD COLUMN requester_id BIGINT NOT NULL DEFAULT 0"}
"""What turns the layout of that version into the next one."""
_SCHEMA_VERSION = max(_UPGRADES) + 1
_LARGE = 4096
_NEWER: Final = "ignore"
"""Fields that a later version has added to a value do not keep this one from reading the row: what can't be read has
another layout."""

_metadata = sa.MetaData()
_schema = sa.Table("graftsmith_schema", _metadata, sa.Column("version", sa.Integer, primary_key=True))
_deliveries = sa.Table(
    "deliveries",
    _metadata,
    sa.Column("id", sa.String(100), primary_key=True),  # the guard against running a redelivery again
    sa.Column("event", sa.String(100), nullable=False),
    sa.Column("job_id", sa.String(40), nullable=False),
    sa.Column("body", sa.LargeBinary, nullable=False),  # the excerpt, see _packed; empty when it is old
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
    sa.Column("requester_id", sa.BigInteger, nullable=False, server_default="0"),
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
# What an arrival writes; the rest has its defaults.
_DELIVERY = ("id", "event", "job_id", "body", "received_at")
_JOB = (
    "id",
    "delivery_id",
    "lane",
    "queue",
    "repository_id",
    "requester_id",
    "command",
    "state",
    "created_at",
)
_unfinished = _jobs.c.state != JobState.DONE.value
sa.Index("jobs_unfinished_lane", _jobs.c.lane, _jobs.c.sequence, sqlite_where=_unfinished, postgresql_where=_unfinished)
sa.Index("jobs_unfinished_repository", _jobs.c.repository_id, sqlite_where=_unfinished, postgresql_where=_unfinished)


class _Inserting:
    """Inserts rows of one table, a batch by one statement in the driver's own words, made once for each size.

    To bind each row anew would cost as much as storing it; and after each statement a busy thread may have the
    interpreter, which this one then waits for.

    Args:
        into: an insert without its values.
        columns: what a row holds, in order.
    """

    def __init__(self, into: sqlite.Insert | postgresql.Insert, columns: Sequence[str], dialect: sa.Dialect) -> None:
        self._into, self._columns, self._dialect = into, columns, dialect
        self._prepared: dict[int, tuple[str, Sequence[str]]] = {}

    def run(self, db: sa.Connection, rows: Sequence[Sequence[Any]]) -> int:
        """Returns how many rows were written."""
        if not rows:
            return 0
        if len(rows) not in self._prepared:
            self._prepared[len(rows)] = self._compiled(len(rows))
        text, names = self._prepared[len(rows)]
        flat = tuple(itertools.chain.from_iterable(rows))
        values: Any = flat if self._dialect.positional else dict(zip(names, flat, strict=True))
        return db.exec_driver_sql(text, values, execution_options={"preserve_rowcount": True}).rowcount

    def _compiled(self, count: int) -> tuple[str, Sequence[str]]:
        """The statement for so many rows, and the names of its values."""
        rows = [{column: f"{column}_{number}" for column in self._columns} for number in range(count)]
        values: list[dict[str, Any]] = [{column: sa.bindparam(name) for column, name in row.items()} for row in rows]
        names = [name for row in rows for name in row.values()]
        compiled = self._into.values(values).compile(dialect=self._dialect)
        assert compiled.positiontup in (None, names)
        return str(compiled), names


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
    """A delivery with its command, packed for the store: that part of the work needs no lock."""

    job_id: str
    command: Command
    delivery_id: str
    event: str
    packed: bytes

    @classmethod
    def of(cls, job_id: str, delivery: Delivery, command: Command) -> Arrival:
        return cls(job_id, command, delivery.id, delivery.event, _packed(delivery.excerpt))


class JobStore:
    """Thread-safe; every method is one transaction and blocks for as long as that takes.

    Args:
        url: an SQLAlchemy URL, ``sqlite:///FILE`` or ``postgresql+psycopg://…``.
        room: how many unfinished jobs are kept.

    Raises:
        OperatorError: the database can't be opened, or was written by a newer version.
    """

    def __init__(self, url: str, *, room: Room | None = None) -> None:
        self._engine = open_engine(url)
        self._room = room or Room()
        self._arriving = threading.Lock()
        self._prepare_arrival()
        try:
            with self._write() as db:
                _metadata.create_all(db)
                version = db.scalar(sa.select(_schema.c.version))
                if version is None:
                    db.execute(sa.insert(_schema).values(version=_SCHEMA_VERSION))
                elif version in _UPGRADES:
                    for older in range(version, _SCHEMA_VERSION):
                        db.exec_driver_sql(_UPGRADES[older])
                    db.execute(sa.update(_schema).values(version=_SCHEMA_VERSION))
        except sa.exc.DatabaseError as error:
            raise OperatorError(
                f"The job database {self._engine.url.render_as_string()} can't be opened",
                why=str(error.orig),
                todo="Check that the disk has room, the folder is ours, the file is a database, and nobody holds it"
                if self._engine.dialect.name == "sqlite"
                else "Check GRAFTSMITH_DATABASE_URL, and that the server runs and lets this user in",
            ) from error
        if version not in (None, _SCHEMA_VERSION, *_UPGRADES):
            raise OperatorError(
                f"The job database has layout {version}, this version of Graftsmith knows {_SCHEMA_VERSION}",
                todo="Start the version that wrote it, or point GRAFTSMITH_STATE_DIR at another folder",
            )

    def _prepare_arrival(self) -> None:
        """Statements of the one hot path."""
        insert = sqlite.insert if self._engine.dialect.name == "sqlite" else postgresql.insert
        self._take = _Inserting(insert(_deliveries).on_conflict_do_nothing(), _DELIVERY, self._engine.dialect)
        self._add = _Inserting(insert(_jobs), _JOB, self._engine.dialect)
        self._known = sa.select(_deliveries.c.id, _deliveries.c.job_id).where(
            _deliveries.c.id.in_(sa.bindparam("deliveries", expanding=True))
        )
        self._counts = (
            sa.select(_jobs.c.repository_id, _jobs.c.queue, _jobs.c.requester_id, sa.func.count())
            .where(_unfinished)
            .group_by(_jobs.c.repository_id, _jobs.c.queue, _jobs.c.requester_id)
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
        with self._arriving, self._write() as db:
            admitted = self._admitted(arrivals, db)
            # Sorted, so that two processes can't wait for each other's rows in opposite order.
            ordered = sorted(admitted, key=lambda arrival: arrival.delivery_id)
            new = self._take.run(db, [_delivery_row(arrival, now) for arrival in ordered])
            all_new = new == len(arrivals)
            stored = {a.delivery_id: a.job_id for a in arrivals} if all_new else self._jobs_of(arrivals, db)
            # Not those that another process was faster with, nor the second of two copies in this batch.
            mine = [arrival for arrival in admitted if stored[arrival.delivery_id] == arrival.job_id]
            self._add.run(db, [_job_row(arrival, now) for arrival in mine])
            for arrival in mine:
                if arrival.command.word in WITHDRAWN:
                    self._end_idle(arrival, now, db)
        return [stored.get(a.delivery_id) or _too_many(a.command) for a in arrivals]

    def _end_idle(self, arrival: Arrival, now: float, db: sa.Connection) -> None:
        """Most issues are closed while nothing runs: no worker is asked for that. The delivery stays known, so that a
        copy of it that comes much later stops nothing."""
        other = _jobs.alias("other")
        runs = sa.exists().where(other.c.lane == arrival.command.issue, other.c.state != JobState.DONE.value)
        ending = telling.withdrawn(0).model_dump_json()
        done = {"state": JobState.DONE.value, "ending": ending, "finished_at": now}
        db.execute(sa.update(_jobs).where(_jobs.c.id == arrival.job_id, ~runs).values(done))

    def _jobs_of(self, arrivals: Sequence[Arrival], db: sa.Connection) -> Mapping[str, str]:
        """Job ids by delivery id, of those that are stored."""
        deliveries = [arrival.delivery_id for arrival in arrivals]
        return {row.id: row.job_id for row in db.execute(self._known, {"deliveries": deliveries})}

    def _admitted(self, arrivals: Sequence[Arrival], db: sa.Connection) -> list[Arrival]:
        """Those for which there is room. Nobody is turned away but by a fresh count."""
        if not self._room.outdated:
            admitted = [arrival for arrival in arrivals if self._room.take(arrival.command)]
            if len(admitted) == len(arrivals):
                return admitted
        self._room.counted(map(tuple, db.execute(self._counts)))
        return [arrival for arrival in arrivals if self._room.take(arrival.command)]

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

    def of_lane(self, lane: str, limit: int = 50) -> list[Job]:
        """The jobs of a lane, newest first; ``Command.issue`` is that of the work on an issue or pull request."""
        named = _jobs.c.lane == lane
        with self._read() as db:
            rows = db.execute(sa.select(_jobs).where(named).order_by(_jobs.c.sequence.desc()).limit(limit)).all()
        return [_job(row) for row in rows]

    def commits(self, repository_id: int, number: int) -> frozenset[str]:
        """Commits that jobs of one issue or pull request have published: ours to build on."""
        of_issue = _jobs.c.lane == f"{repository_id}/{number}"
        with self._read() as db:
            rows = db.execute(sa.select(_jobs.c.artefacts).where(of_issue)).scalars().all()
        found = (Artefacts.model_validate(json.loads(row), extra=_NEWER).commit_sha for row in rows)
        return frozenset(sha for sha in found if sha)

    def published(self, repository_id: int, pull_number: int) -> list[Job]:
        """Finished jobs that have published to a pull request, whatever issue they were about; newest first."""
        named = _jobs.c.artefacts.contains(f'"pull_number":{pull_number}')
        asked = sa.select(_jobs).where(
            _jobs.c.repository_id == repository_id, _jobs.c.state == JobState.DONE.value, named
        )
        with self._read() as db:
            found = [_job(row) for row in db.execute(asked.order_by(_jobs.c.sequence.desc()))]
        return [job for job in found if job.artefacts.pull_number == pull_number and job.artefacts.commit_sha]

    def delivery(self, delivery_id: str) -> Delivery | None:
        with self._read() as db:
            row = db.execute(sa.select(_deliveries).where(_deliveries.c.id == delivery_id)).one_or_none()
        return Delivery(id=row.id, event=row.event, excerpt=_unpacked(row.body)) if row and row.body else None

    def old(self, job_ids: Collection[str], seconds: float) -> frozenset[str]:
        """Those of the jobs that have been done for so long."""
        done = sa.and_(_jobs.c.state == JobState.DONE.value, _jobs.c.finished_at < self._now - seconds)
        with self._read() as db:
            return frozenset(db.scalars(sa.select(_jobs.c.id).where(_jobs.c.id.in_(job_ids), done)))

    def empty_deliveries(self, seconds: float) -> int:
        """Forget what deliveries said whose jobs have been done for so long; returns how many. Their ids stay: a copy
        that comes again makes no second job."""
        done = sa.and_(_jobs.c.state == JobState.DONE.value, _jobs.c.finished_at < self._now - seconds)
        of_old = _deliveries.c.job_id.in_(sa.select(_jobs.c.id).where(done))
        with self._write() as db:
            emptied = sa.update(_deliveries).where(sa.func.length(_deliveries.c.body) > 0, of_old).values(body=b"")
            return db.execute(emptied).rowcount

    # ── handing over to the executor ─────────────────────────────────────────────────────────────────────────────

    def ready(self, queue: Queue, at_most: int, owner: str) -> list[str]:
        """Jobs to hand to the executor of one worker: the first unfinished of their lane, not handed over yet.

        The repository with the fewest jobs in work comes first, so that a thousand labels in one leave room for others.

        Args:
            at_most: jobs of this queue that the worker may have unfinished at a time; one that no worker has claimed
                yet counts for each.
            owner: the worker.
        """
        its = sa.or_(_jobs.c.owner == owner, _jobs.c.owner.is_(None))
        handed_over = sa.and_(_unfinished, _jobs.c.queue == queue.value, _jobs.c.handed_over, its)
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

    def handed_over(self, *, untouched: bool = False) -> list[str]:
        """Unfinished jobs that the executor was given; ``untouched``: only those that no worker ever took up."""
        statement = sa.select(_jobs.c.id).where(_unfinished, _jobs.c.handed_over).order_by(_jobs.c.sequence)
        if untouched:
            statement = statement.where(_jobs.c.state == JobState.QUEUED.value)
        with self._read() as db:
            return list(db.execute(statement).scalars())

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

    def take_over(self, owner: str, seconds: float, active: Collection[str] = ()) -> list[str]:
        """Win the jobs whose worker let its lease run out, each for one caller only.

        The old worker is fenced off. The winner must have the executor start the job again; should it die before
        that, the job can be won again after ``seconds``.

        Args:
            owner: the caller.
            active: those of its own jobs that it works on: they are left alone.
        """
        statement = (
            sa.update(_jobs)
            .where(
                _jobs.c.state == JobState.RUNNING.value,
                sa.or_(_jobs.c.owner.is_(None), _jobs.c.owner != owner, _jobs.c.id.not_in(active)),
                _jobs.c.lease_until < self._now,
            )
            .values(owner=None, fence=_jobs.c.fence + 1, lease_until=self._now + seconds)
            .returning(_jobs.c.id)
        )
        with self._write() as db:
            return list(db.execute(statement).scalars())

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


def database_url(given: str | None, state_dir: Path, name: str) -> str:
    """The operator's database, or the file ``name`` of ours."""
    return given or sqlite_url(state_dir / "database" / f"{name}.sqlite")


def sqlite_url(path: Path) -> str:
    """The URL of a database file; its folder is made, for us alone."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    return f"sqlite:///{path}"


def _held(leases: Collection[Lease]) -> sa.ColumnElement[bool]:
    """The rows of these leases, as far as nobody has taken them over and they are not done."""
    pairs = [(lease.job_id, lease.fence) for lease in leases]
    return sa.and_(_jobs.c.state == JobState.RUNNING.value, sa.tuple_(_jobs.c.id, _jobs.c.fence).in_(pairs))


def _too_many(command: Command) -> TooManyWaiting:
    return TooManyWaiting(
        f"Too many jobs of {command.repository} are waiting, or too many that {command.requester} asked for there",
        todo="Redeliver when some are done, or raise GRAFTSMITH_MAX_WAITING or GRAFTSMITH_MAX_WAITING_PER_PERSON",
        after_s=60.0,
    )


def _packed(excerpt: bytes) -> bytes:
    """Compressed where that takes less time than writing it."""
    return zlib.compress(excerpt, 1) if len(excerpt) > _LARGE else excerpt


def _unpacked(body: bytes) -> bytes:
    """JSON begins with a brace, compressed data never does (RFC 1950)."""
    return body if body.startswith(b"{") else zlib.decompress(body)


def _delivery_row(arrival: Arrival, now: float) -> Sequence[Any]:
    """Values of ``_DELIVERY``."""
    return arrival.delivery_id, arrival.event, arrival.job_id, arrival.packed, now


def _job_row(arrival: Arrival, now: float) -> Sequence[Any]:
    """Values of ``_JOB``."""
    command = arrival.command
    return (
        arrival.job_id,
        arrival.delivery_id,
        command.lane,
        command.queue.value,
        command.repository_id,
        command.requester_id,
        command.model_dump_json(),
        JobState.QUEUED.value,
        now,
    )


def _job(row: sa.Row[Any]) -> Job:
    return Job(
        id=row.id,
        sequence=row.sequence,
        delivery_id=row.delivery_id,
        command=Command.model_validate_json(row.command, extra=_NEWER),
        state=JobState(row.state),
        stage=row.stage,
        ending=None if row.ending is None else Ending.model_validate_json(row.ending, extra=_NEWER),
        artefacts=Artefacts.model_validate(json.loads(row.artefacts), extra=_NEWER),
        usage=Usage.model_validate(json.loads(row.usage), extra=_NEWER),
        attempts=row.attempts,
        fence=row.fence,
        cancelled_by=row.cancelled_by,
        created_at=row.created_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
    )
