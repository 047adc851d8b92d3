"""The jobs table: one job a delivery, one worker a job, state changes that name what they expect."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.errors import OperatorError
from agent.types import Outcome, Usage
from app.jobs.arrivals import TooManyWaiting
from app.jobs.room import Room
from app.jobs.store import JobStore, Lease, LeaseLost
from app.jobs.tables import sqlite_url
from app.jobs.types import Artefacts, Ending, JobState, Queue, Word
from tests.unit.jobs.making import add, arrival, command

LONG = 60.0
DONE = Ending(outcome=Outcome.PROPOSED, reason="there it is", next_step="review it")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[JobStore]:
    store = JobStore(sqlite_url(tmp_path / "state" / "jobs.sqlite"), room=Room(10))
    yield store
    store.close()


def claim(store: JobStore, job_id: str, owner: str = "a", seconds: float = LONG) -> Lease:
    lease = store.claim(job_id, owner, seconds)
    assert lease is not None
    return lease


def finish(store: JobStore, job_id: str) -> None:
    store.finish(claim(store, job_id), DONE)


def test_a_batch_is_stored_in_order_of_arrival(store: JobStore) -> None:
    batch = [arrival(command(n), delivery=f"d-{9 - n}") for n in range(5)]
    assert store.accept(batch) == [a.job_id for a in batch]
    assert [job.command.number for job in reversed(store.recent())] == [0, 1, 2, 3, 4]


def test_copies_in_one_batch_and_later_get_the_first_job(store: JobStore) -> None:
    first, copy, other = arrival(delivery="d"), arrival(delivery="d"), arrival()
    assert store.accept([first, copy, other]) == [first.job_id, first.job_id, other.job_id]
    assert store.accept([arrival(delivery="d")]) == [first.job_id]
    finish(store, first.job_id)
    assert store.accept([arrival(delivery="d")]) == [first.job_id], "also after it is done"
    assert len(store.recent()) == 2


def test_copies_at_the_same_instant_from_two_processes(tmp_path: Path) -> None:
    """Two engines on one file stand for two processes: what they share is the file alone."""
    stores = [JobStore(sqlite_url(tmp_path / "jobs.sqlite")) for _ in range(2)]
    got: list[str | TooManyWaiting] = []
    together = threading.Barrier(8)

    def deliver(store: JobStore) -> None:
        together.wait()
        for n in range(10):
            got.extend(store.accept([arrival(delivery=f"d-{n}")]))

    threads = [threading.Thread(target=deliver, args=(stores[n % 2],)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 80
    assert len(set(map(str, got))) == 10
    assert len(stores[0].recent()) == 10
    for store in stores:
        store.close()


def test_nothing_is_stored_when_the_commit_does_not_happen(tmp_path: Path) -> None:
    """A delivery that failed before its commit runs when it comes again."""
    store = JobStore(sqlite_url(tmp_path / "jobs.sqlite"))
    taken = add(store)
    with pytest.raises(Exception, match="UNIQUE"):
        store.accept([arrival(delivery="again", job=taken.id)])
    assert store.delivery("again") is None
    (job_id,) = store.accept([arrival(delivery="again")])
    assert isinstance(job_id, str)
    store.close()


def test_a_full_repository_turns_away_and_others_do_not_suffer(store: JobStore) -> None:
    jobs = [add(store, command(n)) for n in range(10)]
    refused, taken = store.accept([arrival(), arrival(command(repository_id=43))])
    assert isinstance(refused, TooManyWaiting)
    assert isinstance(taken, str)
    finish(store, jobs[0].id)
    assert isinstance(store.accept([arrival()])[0], str)


def test_one_person_does_not_fill_the_queue_for_others(tmp_path: Path) -> None:
    store = JobStore(sqlite_url(tmp_path / "jobs.sqlite"), room=Room(10, 3))
    flood = store.accept([arrival(command(n, requester="stranger", requester_id=66)) for n in range(9)])
    assert [isinstance(answer, str) for answer in flood] == [True] * 3 + [False] * 6
    assert isinstance(store.accept([arrival(command(20))])[0], str)
    assert isinstance(store.accept([arrival(command(21, repository_id=43, requester_id=66))])[0], str)
    store.close()


def test_what_another_process_admitted_is_counted_before_anybody_is_turned_away(tmp_path: Path) -> None:
    ours, other = (JobStore(sqlite_url(tmp_path / "jobs.sqlite"), room=Room(2)) for _ in range(2))
    first = add(ours)
    add(ours, command(2))
    assert isinstance(other.accept([arrival(command(3))])[0], TooManyWaiting)
    finish(other, first.id)
    assert isinstance(ours.accept([arrival(command(3))])[0], str)
    ours.close()
    other.close()


def test_stop_gets_into_a_full_repository(store: JobStore) -> None:
    for n in range(10):
        add(store, command(n))
    refused, taken = store.accept([arrival(), arrival(command(word=Word.STOP))])
    assert isinstance(refused, TooManyWaiting)
    assert isinstance(taken, str)


def test_job_values_come_back_as_they_went_in(store: JobStore) -> None:
    job = add(store, command(text="fix ünï 🎉 'x' \"y\" \\ %s :name", details="line\nline"))
    lease = claim(store, job.id)
    store.enter(lease, "run")
    store.save(lease, artefacts=Artefacts(branch="agent/issue-1", comment_id=5), usage=Usage(calls=3, dollars=0.5))
    store.finish(lease, DONE)
    got = store.get(job.id)
    assert got is not None
    assert got.command == job.command
    assert (got.state, got.stage, got.ending) == (JobState.DONE, "run", DONE)
    assert (got.artefacts.branch, got.artefacts.comment_id, got.usage.dollars) == ("agent/issue-1", 5, 0.5)
    assert got.started_at is not None
    assert got.finished_at is not None
    assert abs(got.finished_at - time.time()) < 60
    assert store.get("unknown") is None


# ── order ────────────────────────────────────────────────────────────────────────────────────────────────────────


def ready(store: JobStore, queue: Queue = Queue.WORK, at_most: int = 100, owner: str = "a") -> list[str]:
    return store.ready(queue, at_most, owner)


def test_one_job_of_an_issue_at_a_time_in_order(store: JobStore) -> None:
    first, second, other = add(store), add(store), add(store, command(2))
    assert ready(store) == [first.id, other.id]
    store.mark_handed_over(first.id)
    assert ready(store) == [other.id]
    finish(store, first.id)
    assert set(ready(store)) == {second.id, other.id}


def test_stop_does_not_wait_for_what_it_stops(store: JobStore) -> None:
    first, stop = add(store), add(store, command(word=Word.STOP))
    assert ready(store) == [first.id]
    assert ready(store, Queue.CONTROL) == [stop.id]


def test_many_jobs_of_one_repository_leave_room_for_others(store: JobStore) -> None:
    busy = [add(store, command(n)) for n in range(6)]
    late = add(store, command(repository_id=43))
    assert ready(store, at_most=4) == [busy[0].id, late.id, busy[1].id, busy[2].id]
    for job in busy[:2]:
        store.mark_handed_over(job.id)
    assert ready(store, at_most=3) == [late.id], "two are in work already, and the other repository comes first"
    assert ready(store, at_most=2) == []
    assert ready(store, at_most=2, owner="b") == [], "any of them may get what nobody has claimed"
    for job in busy[:2]:
        claim(store, job.id, "a")
    assert ready(store, at_most=2) == []
    assert ready(store, at_most=1, owner="b") == [late.id], "what others do leaves room for more"


def test_repositories_take_turns_however_much_one_of_them_has_waiting(store: JobStore) -> None:
    made = [add(store, command(n, repository_id=1)) for n in range(6)]
    made += [add(store, command(n, repository_id=of)) for of in (2, 3) for n in range(2)]
    of = {job.id: job.command.repository_id for job in made}
    order = []
    for _ in made:
        (next_one,) = ready(store, at_most=1)
        order.append(of[next_one])
        store.mark_handed_over(next_one)
        finish(store, next_one)
        time.sleep(0.005)  # the clock of the database counts in milliseconds
    assert order == [1, 2, 3, 1, 2, 3, 1, 1, 1, 1]


def test_jobs_the_executor_was_given(store: JobStore) -> None:
    job, stop = add(store), add(store, command(word=Word.STOP))
    for each in (job, stop):
        store.mark_handed_over(each.id)
        store.mark_handed_over(each.id)
    assert store.handed_over() == [job.id, stop.id]
    lease = claim(store, job.id)
    assert store.handed_over(untouched=True) == [stop.id]
    store.finish(lease, DONE)
    assert store.handed_over() == [stop.id]


# ── leases ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_job_has_one_worker(store: JobStore) -> None:
    job = add(store)
    lease = claim(store, job.id, "a")
    assert store.claim(job.id, "b", LONG) is None
    store.release(lease)
    assert store.claim(job.id, "b", LONG) is not None


def test_workers_that_claim_at_once_get_one_lease(store: JobStore) -> None:
    job, got, together = add(store), [], threading.Barrier(6)

    def race(owner: str) -> None:
        together.wait()
        got.append(store.claim(job.id, owner, LONG))

    threads = [threading.Thread(target=race, args=(f"w{n}",)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(lease is not None for lease in got) == 1


def test_the_same_worker_started_again_takes_its_job_up_at_once(store: JobStore) -> None:
    job = add(store)
    before = claim(store, job.id, "a")
    after = claim(store, job.id, "a")
    assert after.fence == before.fence + 1
    assert_fenced(store, before)


def assert_fenced(store: JobStore, lease: Lease) -> None:
    assert lease not in store.standing([lease])
    for write in (
        lambda: store.save(lease, artefacts=Artefacts(pull_number=1)),
        lambda: store.enter(lease, "publish"),
        lambda: store.finish(lease, DONE),
    ):
        with pytest.raises(LeaseLost):
            write()


def test_a_silent_worker_loses_its_job_to_one_other(store: JobStore) -> None:
    job = add(store)
    lost = claim(store, job.id, "a", seconds=-1)
    assert store.take_over("a", LONG, [job.id]) == [], "not what it works on itself"
    assert store.take_over("b", LONG) == [job.id]
    assert store.take_over("c", LONG) == [], "one winner"
    assert_fenced(store, lost)
    store.renew([lost], LONG)
    store.release(lost)
    assert store.claim(job.id, "c", LONG) is not None


def test_a_winner_that_dies_before_it_restarts_the_job_is_followed_by_another(store: JobStore) -> None:
    job = add(store)
    claim(store, job.id, "a", seconds=-1)
    assert store.take_over("b", -1) == [job.id]
    assert store.take_over("b", LONG) == [job.id]


def test_a_renewed_lease_is_not_taken(store: JobStore) -> None:
    job = add(store)
    lease = claim(store, job.id, "a", seconds=-1)
    store.renew([lease], LONG)
    assert store.take_over("b", LONG) == []
    assert store.standing([lease]) == {lease: None}


def test_a_done_job_is_done_once_and_for_all(store: JobStore) -> None:
    job = add(store)
    lease = claim(store, job.id)
    store.finish(lease, DONE)
    assert_fenced(store, lease)
    assert store.claim(job.id, "a", LONG) is None
    assert store.take_over("b", LONG) == []
    assert store.counts() == {JobState.QUEUED: 0, JobState.RUNNING: 0, JobState.DONE: 1}


def test_attempts_count_within_a_stage(store: JobStore) -> None:
    job = add(store)
    assert store.enter(claim(store, job.id), "prepare") == 1
    assert store.enter(claim(store, job.id), "prepare") == 2
    assert store.enter(claim(store, job.id), "prepare") == 3
    assert store.enter(claim(store, job.id), "run") == 1


def test_stop_reaches_the_earlier_jobs_of_the_issue_and_no_other(store: JobStore) -> None:
    done, running, waiting, elsewhere = add(store), add(store), add(store), add(store, command(2))
    finish(store, done.id)
    lease = claim(store, running.id)
    stop = add(store, command(word=Word.STOP, requester="lena"))
    later = add(store)
    assert store.cancel_others(stop) == 2
    assert store.standing([lease]) == {lease: "lena"}
    stopped = {job.id: job.cancelled_by for job in store.recent()}
    assert [stopped[j.id] for j in (done, running, waiting, elsewhere, later)] == [None, "lena", "lena", None, None]
    again = add(store, command(word=Word.STOP, requester="otto"))
    store.cancel_others(again)
    assert store.standing([lease]) == {lease: "lena"}, "who stopped it first"


# ── the file ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_commit_waits_for_the_disk(store: JobStore, tmp_path: Path) -> None:
    with store._engine.connect() as db:
        assert db.exec_driver_sql("PRAGMA synchronous").scalar() == 2, "FULL"
        assert db.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"


def test_folder_is_ours_alone(store: JobStore, tmp_path: Path) -> None:
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700


def test_layout_of_an_older_version_is_brought_up_to_date(tmp_path: Path) -> None:
    store = JobStore(sqlite_url(tmp_path / "jobs.sqlite"))
    job = add(store)
    store.close()
    with sqlite3.connect(tmp_path / "jobs.sqlite") as db:
        db.execute("ALTER TABLE jobs DROP COLUMN requester_id")
        db.execute("UPDATE graftsmith_schema SET version = 1")
    for _ in range(2):
        store = JobStore(sqlite_url(tmp_path / "jobs.sqlite"))
        assert store.get(job.id) == job
        add(store)
        store.close()


def test_values_of_a_newer_version_are_read_as_far_as_they_are_known(tmp_path: Path) -> None:
    store = JobStore(sqlite_url(tmp_path / "jobs.sqlite"))
    job = add(store)
    with sqlite3.connect(tmp_path / "jobs.sqlite") as db:
        for column in ("command", "artefacts", "usage"):
            db.execute(f"UPDATE jobs SET {column} = json_set({column}, '$.of_later', 1)")
    assert store.get(job.id) == job
    assert store.commits(job.command.repository_id, job.command.number) == frozenset()


def test_layout_of_a_newer_version_is_refused_with_what_to_do(tmp_path: Path) -> None:
    JobStore(sqlite_url(tmp_path / "jobs.sqlite")).close()
    with sqlite3.connect(tmp_path / "jobs.sqlite") as db:
        db.execute("UPDATE graftsmith_schema SET version = 99")
    with pytest.raises(OperatorError, match="layout 99"):
        JobStore(sqlite_url(tmp_path / "jobs.sqlite"))


def test_file_that_is_no_database_is_refused_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "jobs.sqlite").write_bytes(b"\xaa" * 5000)
    with pytest.raises(OperatorError, match="not a database"):
        JobStore(sqlite_url(tmp_path / "jobs.sqlite"))


@pytest.mark.parametrize("word", [Word.UNLABELED, Word.CLOSED])
def test_what_is_withdrawn_where_nothing_runs_is_done_at_once(store: JobStore, word: Word) -> None:
    elsewhere = add(store, command(2))
    gone = arrival(command(word=word), delivery="tidy")
    (job_id,) = store.accept([gone])
    done = store.get(str(job_id))
    assert done is not None and done.ending is not None and done.ending.silent
    assert ready(store, Queue.CONTROL) == []
    running = add(store)
    assert store.accept([arrival(command(word=word), delivery="tidy")]) == [job_id], "a copy stops nothing"
    later = add(store, command(word=word))
    assert later.ending is None
    assert ready(store, Queue.CONTROL) == [later.id]
    assert set(ready(store)) == {elsewhere.id, running.id}
