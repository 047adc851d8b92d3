"""The executor where its databases misbehave."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from itertools import accumulate
from pathlib import Path

import sqlalchemy as sa

from agent.types import Outcome
from app.jobs.durable import dbos_engine
from app.jobs.executor import Executor, Pace
from app.jobs.store import JobStore
from app.jobs.tables import sqlite_url
from app.jobs.types import JobState
from app.jobs.workflow import Patience
from tests.unit.jobs.making import add, command
from tests.unit.jobs.serving import PACE, FolderSteps, read_log

PATIENCE = Patience(tries=1000, first_s=0.01, most_s=0.05)


def test_the_clock_that_dbos_writes_into_its_tables_works_with_an_old_sqlite(tmp_path: Path) -> None:
    """From Python 3.12 on DBOS asks for ``unixepoch('subsec')``, which SQLite knows since 3.42."""
    engine = dbos_engine(sqlite_url(tmp_path / "dbos.sqlite"))
    with engine.begin() as db:
        db.execute(sa.text("CREATE TABLE t (id INTEGER, at INTEGER NOT NULL DEFAULT (unixepoch('subsec') * 1000))"))
        db.execute(sa.text("INSERT INTO t (id) VALUES (1)"))
        at = db.execute(sa.text("SELECT at FROM t")).scalar_one()
    engine.dispose()
    assert abs(at / 1000 - time.time()) < 60


def test_a_job_that_can_not_be_claimed_now_is_claimed_later(tmp_path: Path) -> None:
    """An error let out here would end DBOS's record of the job, and nobody would take the job up again."""
    store = JobStore(sqlite_url(tmp_path / "jobs.sqlite"))
    job = add(store)
    steps = FolderSteps(tmp_path, 0.0)
    pace = Pace(lease=0.2, monitor=0.05, sweep=0.2)
    executor = Executor(store, steps, database_url="", identity="one", pace=pace)

    def rename(old: str, new: str) -> None:
        with sqlite3.connect(tmp_path / "jobs.sqlite") as db:
            db.execute(f"ALTER TABLE {old} RENAME TO {new}")

    async def scene() -> str | None:
        rename("jobs", "away")
        claiming = asyncio.create_task(executor._take_up(job.id))
        await asyncio.sleep(0.1)
        assert not claiming.done()
        rename("away", "jobs")
        work = await claiming
        return work.job.id if work else None

    assert asyncio.run(scene()) == job.id
    store.close()


async def until(seen: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not seen():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)


def test_a_job_whose_steps_can_not_be_written_down_goes_on_when_they_can(tmp_path: Path) -> None:
    """A full disk takes the executor's database and ours away; the service is not started anew for that."""
    store = JobStore(sqlite_url(tmp_path / "jobs.sqlite"))
    pace = Pace(lease=0.6, monitor=0.05, sweep=0.1)
    taken = {"dbos.sqlite": "operation_outputs", "jobs.sqlite": "jobs"}

    def take(*, back: bool = False) -> None:
        for file, table in taken.items():
            names = ("away", table) if back else (table, "away")
            with closing(sqlite3.connect(tmp_path / file)) as db:
                db.execute("ALTER TABLE {} RENAME TO {}".format(*names))

    async def scene() -> None:
        (tmp_path / "hold").touch()
        steps, url = FolderSteps(tmp_path, 0.0), sqlite_url(tmp_path / "dbos.sqlite")
        executor = Executor(store, steps, database_url=url, identity="one", pace=pace, patience=PATIENCE)
        await executor.start()
        try:
            add(store)
            executor.nudge()
            await until(lambda: bool(read_log(tmp_path)))
            take()
            (tmp_path / "go").touch()
            await until(lambda: not executor._workflows)
            take(back=True)
            await until(lambda: store.counts()[JobState.DONE] == 1)
        finally:
            await executor.stop(drain_s=0.1)

    asyncio.run(scene())
    (job,) = store.recent()
    assert job.ending is not None and job.ending.outcome is Outcome.PROPOSED, job.ending
    assert len([line for line in read_log(tmp_path) if line["what"] == "pull made"]) == 1
    store.close()


def test_no_more_jobs_run_than_there_is_room_for(tmp_path: Path) -> None:
    """Also where they come without having been asked for, as those of a worker that died do."""
    store = JobStore(sqlite_url(tmp_path / "jobs.sqlite"))
    jobs = [add(store, command(number)) for number in range(6)]
    for job in jobs[:4]:
        store.mark_handed_over(job.id)  # DBOS, whose file is lost, had them
    dbos = sqlite_url(tmp_path / "dbos.sqlite")

    def runs() -> list[str]:
        return [line["what"] for line in read_log(tmp_path) if line["what"].startswith("run ")]

    async def scene() -> None:
        (tmp_path / "hold").touch()
        steps = FolderSteps(tmp_path, 0.05)
        executor = Executor(store, steps, database_url=dbos, identity="one", concurrency=2, pace=PACE)
        await executor.start()
        try:
            await until(lambda: len(runs()) >= 2 and store.counts()[JobState.RUNNING] == 4)
            (tmp_path / "go").touch()
            await until(lambda: store.counts()[JobState.DONE] == 6)
        finally:
            await executor.stop(drain_s=0.1)

    asyncio.run(scene())
    store.close()
    under_way = accumulate(1 if what == "run begins" else -1 for what in runs())
    assert max(under_way) == 2
