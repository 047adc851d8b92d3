"""DBOS on the SQLite that this Python has."""

from __future__ import annotations

import time
from pathlib import Path

import sqlalchemy as sa

from app.jobs.executor import _dbos_engine
from app.jobs.store import sqlite_url


def test_the_clock_that_dbos_writes_into_its_tables_works_with_an_old_sqlite(tmp_path: Path) -> None:
    """From Python 3.12 on DBOS asks for ``unixepoch('subsec')``, which SQLite knows since 3.42."""
    engine = _dbos_engine(sqlite_url(tmp_path / "dbos.sqlite"))
    with engine.begin() as db:
        db.execute(sa.text("CREATE TABLE t (id INTEGER, at INTEGER NOT NULL DEFAULT (unixepoch('subsec') * 1000))"))
        db.execute(sa.text("INSERT INTO t (id) VALUES (1)"))
        at = db.execute(sa.text("SELECT at FROM t")).scalar_one()
    engine.dispose()
    assert abs(at / 1000 - time.time()) < 60
