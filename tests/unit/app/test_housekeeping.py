"""What is old goes; what is not done stays, however old."""

from __future__ import annotations

import os
import time
from pathlib import Path

from agent.types import Outcome
from app.housekeeping import tidy
from app.jobs.store import JobStore
from app.jobs.tables import sqlite_url
from app.jobs.types import Ending
from app.places import Places
from tests.unit.jobs.making import add

KEEP_S = 1000.0


def age(path: Path, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(path, (then, then))


def test_old_jobs_lose_their_folders_and_unfinished_ones_do_not(tmp_path: Path) -> None:
    places, store = Places(tmp_path), JobStore(sqlite_url(tmp_path / "database" / "jobs.sqlite"))
    done, running, waiting = (add(store).id for _ in range(3))
    for job_id in (done, running):
        lease = store.claim(job_id, "a", 60)
        assert lease is not None
        if job_id == done:
            store.finish(lease, Ending(outcome=Outcome.PLANNED, reason="r", next_step="n"))
    for job_id in (done, running, waiting, "unknown"):
        (places.attempt(job_id, 1, 1) / "result.json").touch()
        (places.job(job_id) / "brief.json").touch()
        age(places.job(job_id), 2 * KEEP_S)
    (tmp_path / "local" / "old").mkdir(parents=True)
    (tmp_path / "local" / "new").mkdir()
    age(tmp_path / "local" / "old", 2 * KEEP_S)

    assert tidy(store, places, KEEP_S) == 0, "it is done for a moment only"
    assert not (tmp_path / "local" / "old").exists() and (tmp_path / "local" / "new").exists()
    time.sleep(0.01)
    assert tidy(store, places, 0.001) == 1

    assert [path.name for path in places.job(done).iterdir()] == ["brief.json"]
    for job_id in (running, waiting, "unknown"):
        assert (places.run(job_id, 1) / "result.json").exists()
    found = {job.id: job.delivery_id for job in store.recent()}
    assert store.delivery(found[done]) is None
    assert store.delivery(found[running]) is not None
    store.close()
