"""Whatever moment the server is killed at: every accepted delivery leads to exactly one finished job."""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import sqlite3
import threading
import time
from collections import Counter
from contextlib import closing
from multiprocessing.process import BaseProcess
from pathlib import Path

import httpx

from app.jobs.store import JobStore
from app.jobs.tables import sqlite_url
from app.jobs.types import Job, JobState
from app.webhooks.signature import digest
from tests.support import loopback
from tests.unit.jobs.serving import SECRET, listen, number_of, read_log, start_server
from tests.unit.webhooks.payloads import commented, issue

KILLS = 32
ISSUES = 4


def deliver(base_url: str, guid: str, number: int, *, word: str = "fix it", deadline: float = 60.0) -> int:
    """Send one delivery until it is accepted, as a redelivery does; returns how many sendings that took."""
    body = json.dumps(commented(f"/agent {word}", issue=issue(number=number))).encode()
    headers = {
        "X-Hub-Signature-256": "sha256=" + digest(SECRET, body),
        "X-GitHub-Event": "issue_comment",
        "X-GitHub-Delivery": guid,
        "Content-Type": "application/json",
    }
    end, sendings = time.monotonic() + deadline, 0
    while time.monotonic() < end:
        sendings += 1
        try:
            if loopback.post(f"{base_url}/webhooks", content=body, headers=headers, timeout=10).status_code == 202:
                return sendings
        except httpx.TransportError:
            time.sleep(0.01)
    raise AssertionError("never accepted")


def finished(store: JobStore, count: int, seconds: float) -> list[Job]:
    """All jobs, once ``count`` are done."""
    end = time.monotonic() + seconds
    while store.counts()[JobState.DONE] < count and time.monotonic() < end:
        time.sleep(0.05)
    return list(reversed(store.recent(1000)))


def kill(process: BaseProcess) -> None:
    process.kill()
    process.join()


def test_random_kills_lose_and_double_nothing(tmp_path: Path) -> None:
    world, state, listening = tmp_path / "world", tmp_path / "state", listen()
    world.mkdir()
    (world / "log").touch()
    base_url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    accepted: list[str] = []
    enough = threading.Event()

    def send(number: int) -> None:
        for count in itertools.count():
            guid = f"delivery-{number}-{count:04d}"
            deliver(base_url, guid, number)
            accepted.append(guid)
            if enough.wait(random.uniform(0.05, 0.3)):
                return

    senders = [threading.Thread(target=send, args=(number,)) for number in range(1, ISSUES + 1)]
    for sender in senders:
        sender.start()
    for _ in range(KILLS):
        process = start_server(state, world, listening)
        if random.random() < 0.8:  # else it may die before it is up
            loopback.get(f"{base_url}/healthz", timeout=30)
        time.sleep(random.uniform(0, 0.3))
        kill(process)
    enough.set()
    process = start_server(state, world, listening)
    for sender in senders:
        sender.join(60)
    store = JobStore(sqlite_url(state / "jobs.sqlite"))
    try:
        jobs = finished(store, len(accepted), 60)
    finally:
        kill(process)
        store.close()

    assert sorted(job.delivery_id for job in jobs) == sorted(accepted), "one job for each delivery"
    assert {job.state for job in jobs} == {JobState.DONE}
    assert {job.ending.outcome for job in jobs if job.ending} == {"proposed"}
    log = read_log(world)
    made = Counter((line["job"], line["what"]) for line in log if line["what"].endswith("made"))
    assert set(made.values()) == {1}
    assert len(made) == 2 * len(jobs), "a comment and a pull request each"
    for job in jobs:
        assert (world / f"told-{job.id}").read_text() == job.ending.reason if job.ending else False
        assert job.artefacts.pull_number == number_of(world, job.id, "pull")
        assert job.artefacts.comment_id == number_of(world, job.id, "comment")
    assert_one_at_a_time(jobs, log)
    print(f"{KILLS} kills, {len(jobs)} jobs, {len(log)} lines")


def assert_one_at_a_time(jobs: list[Job], log: list[dict[str, object]]) -> None:
    """Jobs of one issue were worked on in order, none before the one ahead of it was told."""
    for number in range(1, ISSUES + 1):
        order = [job.id for job in jobs if job.command.number == number]
        seen = [order.index(str(line["job"])) for line in log if line["issue"] == number]
        assert seen == sorted(seen)


def test_paused_worker_that_lost_its_lease_writes_nothing_more(tmp_path: Path) -> None:
    world, state, listening = tmp_path / "world", tmp_path / "state", listen()
    world.mkdir()
    (world / "log").touch()
    (world / "hold").touch()
    base_url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    first = start_server(state, world, listening, most_s=0.0)
    deliver(base_url, "delivery-of-the-pause", 1)
    await_line(world, "run begins")
    assert first.pid is not None
    pause(first.pid, state)

    second = start_server(state, world, listening, most_s=0.0)
    await_line(world, "run begins", pid=second.pid)
    (world / "go").touch()
    os.kill(first.pid, signal.SIGCONT)
    store = JobStore(sqlite_url(state / "jobs.sqlite"))
    try:
        (job,) = finished(store, 1, 30)
        time.sleep(0.5)  # for the first, to do what it must not
        # Both live and work on: whoever takes the next one.
        deliver(base_url, "delivery-after-the-pause", 2)
        assert len(finished(store, 2, 30)) == 2
    finally:
        kill(first)
        kill(second)
        store.close()

    assert job.ending is not None
    assert job.ending.outcome == "proposed"
    of_job = [line for line in read_log(world) if line["job"] == job.id]
    assert [line["pid"] for line in of_job if line["what"] in ("pull made", "told")] == [second.pid, second.pid]
    assert [line["pid"] for line in of_job if line["what"] == "comment made"] == [first.pid]


def test_stop_ends_a_running_job_and_those_behind_it(tmp_path: Path) -> None:
    world, state, listening = tmp_path / "world", tmp_path / "state", listen()
    world.mkdir()
    (world / "log").touch()
    (world / "hold").touch()
    base_url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    server = start_server(state, world, listening, most_s=0.0)
    store = JobStore(sqlite_url(state / "jobs.sqlite"))
    try:
        deliver(base_url, "delivery-running", 1)
        await_line(world, "run begins")
        deliver(base_url, "delivery-waiting", 1)
        deliver(base_url, "delivery-of-stop", 1, word="stop")
        deliver(base_url, "delivery-on-another-issue", 2)
        jobs = finished(store, 3, 30)
        (world / "go").touch()
        jobs = finished(store, 4, 30)
    finally:
        kill(server)
        store.close()
    endings = [(job.ending.outcome, job.ending.reason) for job in jobs if job.ending]
    assert endings[:3] == [
        ("cancelled", "Stopped by maintainer."),
        ("cancelled", "Stopped by maintainer."),
        ("answered", "Stopped 2 jobs."),
    ]
    assert endings[3][0] == "proposed"
    told = [line["job"] for line in read_log(world) if line["what"] == "told"]
    assert sorted(told) == sorted(job.id for job in jobs), "each ending is told once"


def test_shut_down_in_the_middle_goes_on_after_the_next_start(tmp_path: Path) -> None:
    world, state, listening = tmp_path / "world", tmp_path / "state", listen()
    world.mkdir()
    (world / "log").touch()
    (world / "hold").touch()
    base_url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    server = start_server(state, world, listening, most_s=0.0)
    deliver(base_url, "delivery-of-shutdown", 1)
    await_line(world, "run begins")
    server.terminate()
    server.join(60)
    assert server.exitcode is not None, "it ends although a job runs"
    (world / "go").touch()
    server = start_server(state, world, listening, most_s=0.0)
    store = JobStore(sqlite_url(state / "jobs.sqlite"))
    try:
        (job,) = finished(store, 1, 30)
    finally:
        kill(server)
        store.close()
    assert job.ending is not None
    assert job.ending.outcome == "proposed"


def pause(pid: int, state: Path) -> None:
    """Stop a process where it holds no lock of a database: everybody would wait for that, and this is not about it."""
    for _ in range(100):
        os.kill(pid, signal.SIGSTOP)
        while not _stands(pid):  # the signal is on its way, and a thread may still take a lock
            time.sleep(0.001)
        if not any(map(_locked, state.rglob("*.sqlite"))):
            return
        os.kill(pid, signal.SIGCONT)
        time.sleep(0.05)
    raise AssertionError("the process holds a lock whenever it is stopped")


def _stands(pid: int) -> bool:
    states = [stat.read_text().rpartition(") ")[2][0] for stat in Path(f"/proc/{pid}/task").glob("*/stat")]
    return all(state == "T" for state in states)


def _locked(path: Path) -> bool:
    with closing(sqlite3.connect(path, timeout=0.2, isolation_level=None)) as db:
        try:
            db.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return True
        db.execute("ROLLBACK")
    return False


def await_line(world: Path, what: str, pid: int | None = None, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if any(line["what"] == what and pid in (None, line["pid"]) for line in read_log(world)):
            return
        time.sleep(0.02)
    raise AssertionError(f"never saw: {what}")
