"""`graftsmith jobs`: the table of jobs for people and for machines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from agent.types import Outcome, Usage
from app.cli import cli
from app.jobs.store import JobStore
from app.jobs.tables import sqlite_url
from app.jobs.types import Ending
from tests.unit.jobs.making import add, command


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder with three jobs: one proposed, one waiting, and one of another repository that was ignored."""
    monkeypatch.setenv("GRAFTSMITH_STATE_DIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    store = JobStore(sqlite_url(tmp_path / "database" / "jobs.sqlite"))
    oldest, _, ignored = (
        add(store, command(at, repository=name))
        for at, name in enumerate(("acme/widget", "acme/widget", "acme/other"), 1)
    )
    lease = store.claim(oldest.id, "worker", 30.0)
    assert lease is not None
    store.save(lease, usage=Usage(calls=3, input_tokens=1200, output_tokens=300, dollars=0.25))
    store.finish(lease, Ending(outcome=Outcome.PROPOSED, reason="It is \x1b[31mproven."))
    lease = store.claim(ignored.id, "worker", 30.0)
    assert lease is not None
    store.finish(lease, Ending(outcome=Outcome.BLOCKED, reason="Not started: closed.", silent=True))
    store.close()
    return tmp_path


def run(*more: str) -> Result:
    return CliRunner().invoke(cli, ["jobs", *more], env={"COLUMNS": "200"})


def test_a_person_sees_what_was_asked_and_what_came_of_it(asked: Path) -> None:
    shown = run().output
    lines = [line for line in shown.splitlines() if "acme/" in line]
    assert [("proposed" in line, "waiting" in line, "ignored" in line) for line in lines] == [
        (False, False, True),
        (False, True, False),
        (True, False, False),
    ]
    assert lines[2].endswith("acme/widget#1  fix by maintainer: proposed")
    assert lines[0].endswith("ignored: Not started: closed.")
    assert "3 jobs: 3 model calls, 1,500 tokens, $0.25" in shown


def test_a_machine_gets_one_object_a_line(asked: Path) -> None:
    rows = [json.loads(line) for line in run("--json").output.splitlines()]
    assert [row["repository"] for row in rows] == ["acme/other", "acme/widget", "acme/widget"]
    oldest = rows[-1]
    assert (oldest["outcome"], oldest["state"], oldest["usage"]["dollars"]) == ("proposed", "done", 0.25)
    assert oldest["folder"] == str(asked / "jobs" / oldest["id"])
    assert rows[1]["outcome"] is None and rows[1]["seconds"] is None


def test_of_one_repository_and_the_newest_only(asked: Path) -> None:
    rows = [json.loads(line) for line in run("--json", "--repository", "Acme/Widget", "-n", "1").output.splitlines()]
    assert [(row["repository"], row["number"]) for row in rows] == [("acme/widget", 2)]


def test_where_nothing_was_asked_nothing_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAFTSMITH_STATE_DIR", str(tmp_path / "none"))
    monkeypatch.chdir(tmp_path)
    assert "No job has come" in run().output
    assert run("--json").output == ""
    assert not (tmp_path / "none").exists()
