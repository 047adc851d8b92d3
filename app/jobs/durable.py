"""How DBOS is opened: its database, its version of our workflow, and the name that a worker has in it."""

from __future__ import annotations

import fcntl
import logging
import os
import socket
import sqlite3
import time
import uuid
from contextlib import closing, suppress
from pathlib import Path
from typing import IO, Any

import sqlalchemy as sa
from dbos import DBOS, DBOSConfig, DBOSPortableJSONSerializer

from agent.errors import BugError, OperatorError

_log = logging.getLogger(__name__)

# Fixed: a job that was begun by one release is finished by the next. Change it only together with the stages' order.
_WORKFLOW_VERSION = "1"


def open_dbos(url: str, identity: str) -> None:
    config: DBOSConfig = {
        "name": "graftsmith",
        "system_database_url": url,
        "application_version": _WORKFLOW_VERSION,
        "executor_id": identity,
        "serializer": DBOSPortableJSONSerializer(),
        "log_level": "WARNING",
        "run_migrations": True,
        "notification_listener_polling_interval_sec": 1.0,
    }
    if url.startswith("sqlite"):
        _put_damaged_aside(Path(sa.make_url(url).database or ""))
        config["system_database_engine"] = dbos_engine(url)
    DBOS(config=config)
    # It brings a handler of its own, which speaks another language than the rest of the log.
    its_log = logging.getLogger("dbos")
    its_log.handlers.clear()
    its_log.propagate = True


def _put_damaged_aside(path: Path) -> None:
    """A file that is no database must not keep the service down: the jobs table brings back what was in it."""
    try:
        with closing(sqlite3.connect(path)) as db:
            db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.OperationalError:
        return  # locked, or no place to write: the caller says so
    except sqlite3.DatabaseError as error:
        aside = path.with_name(f"{path.name}.damaged-{int(time.time())}")
        _log.error("%s is damaged (%s); it is put aside as %s and made anew", path, error, aside.name)
        path.rename(aside)
        for rest in ("-wal", "-shm"):
            path.with_name(path.name + rest).unlink(missing_ok=True)


def dbos_engine(url: str) -> sa.Engine:
    """WAL, which DBOS does not set by itself. What a power cut takes from it, the jobs table brings back."""
    engine = sa.create_engine(url)

    @sa.event.listens_for(engine, "connect")
    def set_up(connection: Any, _record: Any) -> None:
        connection.isolation_level = "IMMEDIATE"
        for pragma in ("busy_timeout=30000", "journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON"):
            connection.execute(f"PRAGMA {pragma}")
        if sqlite3.sqlite_version_info < (3, 42):
            connection.create_function("unixepoch", 1, _unixepoch)

    return engine


def _unixepoch(_modifier: str) -> float:
    """``unixepoch('subsec')``, which DBOS writes from Python 3.12 on and Debian 12's SQLite answers with NULL."""
    return time.time()


def claim_identity(folder: Path) -> tuple[str, IO[bytes]]:
    """A name for this process, stable over restarts and unlike that of any other live process.

    The first free number under ``folder`` is ours as long as the returned file stays open; the system frees it when
    the process dies, however it dies.

    Raises:
        OperatorError: the folder can't be used.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True, mode=0o711)  # the sandbox's own user passes through
        folder.mkdir(exist_ok=True, mode=0o700)
        host = _machine(folder / "machine")
        for number in range(1000):
            file = (folder / f"{number}.lock").open("wb")
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.close()
                continue
            return f"{host}-{number}", file
    except OSError as error:
        raise OperatorError(
            f"The state folder {folder} can't be used",
            why=error.strerror or str(error),
            todo="Check its owner and disk",
        ) from error
    raise BugError("A thousand workers on one state folder")


def _machine(path: Path) -> str:
    """Made once: host names change, and copies of a machine share theirs."""
    if not path.exists():
        draft = path.with_suffix(f".{os.getpid()}")
        draft.write_text(f"{socket.gethostname()[:40]}-{uuid.uuid4().hex[:8]}")
        with suppress(FileExistsError):
            os.link(draft, path)
        draft.unlink()
    return path.read_text()
