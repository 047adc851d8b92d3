"""The database of the jobs: its tables, how it is opened, and how a row becomes a value.

SQLite (WAL, every commit on disk before it returns) or Postgres.
"""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa

from agent.errors import OperatorError
from agent.types import Usage
from app.jobs.types import Artefacts, Command, Ending, Job, JobState

_LARGE = 4096
_UPGRADES = {
    1: "ALTER TABLE jobs ADD COLUMN requester_id BIGINT NOT NULL DEFAULT 0",
    2: "CREATE INDEX IF NOT EXISTS jobs_started ON jobs (repository_id, started_at)",
}
"""What turns the layout of that version into the next one."""
_VERSION = max(_UPGRADES) + 1
NEWER: Final = "ignore"
"""Fields that a later version has added to a value do not keep this one from reading the row: what can't be read has
another layout."""

metadata = sa.MetaData()
schema = sa.Table("graftsmith_schema", metadata, sa.Column("version", sa.Integer, primary_key=True))
deliveries = sa.Table(
    "deliveries",
    metadata,
    sa.Column("id", sa.String(100), primary_key=True),  # the guard against running a redelivery again
    sa.Column("event", sa.String(100), nullable=False),
    sa.Column("job_id", sa.String(40), nullable=False),
    sa.Column("body", sa.LargeBinary, nullable=False),  # the excerpt, see packed; empty when it is old
    sa.Column("received_at", sa.Float, nullable=False),
)
jobs = sa.Table(
    "jobs",
    metadata,
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
unfinished = jobs.c.state != JobState.DONE.value
sa.Index("jobs_unfinished_lane", jobs.c.lane, jobs.c.sequence, sqlite_where=unfinished, postgresql_where=unfinished)
sa.Index("jobs_started", jobs.c.repository_id, jobs.c.started_at)
sa.Index("jobs_unfinished_repository", jobs.c.repository_id, sqlite_where=unfinished, postgresql_where=unfinished)


def lay_out(db: sa.Connection) -> None:
    """Make the tables of an empty database, and bring those of an older version up to date.

    Raises:
        OperatorError: a newer version has made them.
    """
    metadata.create_all(db)
    version = db.scalar(sa.select(schema.c.version))
    if version is None:
        db.execute(sa.insert(schema).values(version=_VERSION))
    elif version in _UPGRADES:
        for older in range(version, _VERSION):
            db.exec_driver_sql(_UPGRADES[older])
        db.execute(sa.update(schema).values(version=_VERSION))
    elif version != _VERSION:
        raise OperatorError(
            f"The job database has layout {version}, this version of Graftsmith knows {_VERSION}",
            todo="Start the version that wrote it, or point GRAFTSMITH_STATE_DIR at another folder",
        )


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


def packed(excerpt: bytes) -> bytes:
    """Compressed where that takes less time than writing it."""
    return zlib.compress(excerpt, 1) if len(excerpt) > _LARGE else excerpt


def unpacked(body: bytes) -> bytes:
    """JSON begins with a brace, compressed data never does (RFC 1950)."""
    return body if body.startswith(b"{") else zlib.decompress(body)


def job_of(row: sa.Row[Any]) -> Job:
    return Job(
        id=row.id,
        sequence=row.sequence,
        delivery_id=row.delivery_id,
        command=Command.model_validate_json(row.command, extra=NEWER),
        state=JobState(row.state),
        stage=row.stage,
        ending=None if row.ending is None else Ending.model_validate_json(row.ending, extra=NEWER),
        artefacts=Artefacts.model_validate(json.loads(row.artefacts), extra=NEWER),
        usage=Usage.model_validate(json.loads(row.usage), extra=NEWER),
        attempts=row.attempts,
        fence=row.fence,
        cancelled_by=row.cancelled_by,
        created_at=row.created_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
    )
