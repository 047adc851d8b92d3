"""How deliveries with their jobs come into the database: the one hot path, many in one transaction."""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from agent.errors import RetryLater
from app.jobs import tables, telling
from app.jobs.room import Room
from app.jobs.tables import deliveries, jobs, unfinished
from app.jobs.types import WITHDRAWN, Command, Delivery, JobState

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


class TooManyWaiting(RetryLater):
    """The repository has as many unfinished jobs as we keep."""


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
        return cls(job_id, command, delivery.id, delivery.event, tables.packed(delivery.excerpt))


class Arrivals:
    """Stores what arrives, as far as there is room. One caller at a time.

    Args:
        room: how many unfinished jobs are kept.
    """

    def __init__(self, dialect: sa.Dialect, room: Room) -> None:
        insert = sqlite.insert if dialect.name == "sqlite" else postgresql.insert
        self._room = room
        self._take = _Inserting(insert(deliveries).on_conflict_do_nothing(), _DELIVERY, dialect)
        self._add = _Inserting(insert(jobs), _JOB, dialect)
        self._known = sa.select(deliveries.c.id, deliveries.c.job_id).where(
            deliveries.c.id.in_(sa.bindparam("deliveries", expanding=True))
        )
        self._counts = (
            sa.select(jobs.c.repository_id, jobs.c.queue, jobs.c.requester_id, sa.func.count())
            .where(unfinished)
            .group_by(jobs.c.repository_id, jobs.c.queue, jobs.c.requester_id)
        )

    def accept(self, arrivals: Sequence[Arrival], db: sa.Connection) -> list[str | TooManyWaiting]:
        """See ``JobStore.accept``."""
        now = time.time()
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
        other = jobs.alias("other")
        runs = sa.exists().where(other.c.lane == arrival.command.issue, other.c.state != JobState.DONE.value)
        ending = telling.withdrawn(0).model_dump_json()
        done = {"state": JobState.DONE.value, "ending": ending, "finished_at": now}
        db.execute(sa.update(jobs).where(jobs.c.id == arrival.job_id, ~runs).values(done))

    def _jobs_of(self, arrivals: Sequence[Arrival], db: sa.Connection) -> Mapping[str, str]:
        """Job ids by delivery id, of those that are stored."""
        ids = [arrival.delivery_id for arrival in arrivals]
        return {row.id: row.job_id for row in db.execute(self._known, {"deliveries": ids})}

    def _admitted(self, arrivals: Sequence[Arrival], db: sa.Connection) -> list[Arrival]:
        """Those for which there is room. Nobody is turned away but by a fresh count."""
        if not self._room.outdated:
            admitted = [arrival for arrival in arrivals if self._room.take(arrival.command)]
            if len(admitted) == len(arrivals):
                return admitted
        self._room.counted(map(tuple, db.execute(self._counts)))
        return [arrival for arrival in arrivals if self._room.take(arrival.command)]


def _too_many(command: Command) -> TooManyWaiting:
    return TooManyWaiting(
        f"Too many jobs of {command.repository} are waiting, or too many that {command.requester} asked for there",
        todo="Redeliver when some are done, or raise GRAFTSMITH_MAX_WAITING or GRAFTSMITH_MAX_WAITING_PER_PERSON",
        after_s=60.0,
    )


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
