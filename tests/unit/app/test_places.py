"""Folders of jobs: one for each holder of a lease, and none of a job that nobody needs any more."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.types import ChangeSet, Outcome, RunResult
from app.jobs.store import LeaseLost
from app.places import Places


def end(folder: Path, outcome: Outcome) -> None:
    (folder / "result.json").write_text(
        RunResult(run_id="r", outcome=outcome, reason="r", change_set=ChangeSet(base_sha="0" * 40)).model_dump_json()
    )


def test_each_holder_of_a_job_has_a_folder_of_its_own(tmp_path: Path) -> None:
    places = Places(tmp_path)
    first = places.attempt("j", 1, 1)
    assert places.attempt("j", 1, 1) == first == places.run("j", 1).resolve()
    (first / "events.jsonl").touch()

    second = places.attempt("j", 1, 3)

    assert second != first and second == places.run("j", 1).resolve()
    assert not first.exists()
    assert places.attempt("j", 2, 3).parent == second.parent


def test_one_that_was_fenced_off_can_not_come_back(tmp_path: Path) -> None:
    places = Places(tmp_path)
    places.attempt("j", 1, 1)
    latest = places.attempt("j", 1, 2)
    with pytest.raises(LeaseLost):
        places.attempt("j", 1, 1)
    assert places.run("j", 1).resolve() == latest


def test_a_result_is_found_by_the_next_holder_unless_the_run_was_stopped(tmp_path: Path) -> None:
    places = Places(tmp_path)
    first = places.attempt("j", 1, 1)
    end(first, Outcome.CANCELLED)
    second = places.attempt("j", 1, 2)
    assert second != first
    end(second, Outcome.PROPOSED)
    assert places.attempt("j", 1, 3) == second


def test_a_folder_of_the_layout_before_is_taken_up(tmp_path: Path) -> None:
    old = tmp_path / "jobs" / "j" / "run-1"
    old.mkdir(parents=True)
    end(old, Outcome.PROPOSED)
    places = Places(tmp_path)
    assert places.attempt("j", 1, 4) == old
    (old / "result.json").unlink()
    own = places.attempt("j", 1, 5)
    assert places.run("j", 1).resolve() == own
    assert sorted(path.name for path in old.parent.iterdir()) == ["run-1", "run-1.5"]
