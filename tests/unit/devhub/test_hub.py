"""State: it lasts, it is all or nothing, and its records are what they were."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from agent.errors import OperatorError
from app.devhub.devhub import DevHub
from app.devhub.records import Issue, User
from app.devhub.serving import serving
from app.devhub.store import Store
from tests.support import loopback
from tests.support.github_scene import set_up
from tests.support.receiver import Receiver


def test_a_new_process_continues_where_the_last_one_ended(tmp_path: Path, app_key: str, receiver: Receiver) -> None:
    first = DevHub(tmp_path)
    with serving(first):
        scene = set_up(first, app_key)
        first.settle()
    scene.repo.open_issue("It breaks", labels=("agent",))
    # Nobody sends now: what waits goes out after the next start.
    first.set_webhook(scene.keys.id, receiver.url)
    scene.repo.comment(1, "x")
    first.close()

    second = DevHub(tmp_path)
    with serving(second):
        second.settle()
        repo = second.repository("acme/widget")
        assert repo.issue(1).labels == ("agent",)
        assert repo.read("README.md") == b"# Widget\n"
        assert [got.headers["x-github-event"] for got in receiver.received] == ["issue_comment"]
        assert second.hub.store.get(User, repo.record.owner_id).login == "acme"
    second.close()


def test_a_transaction_is_all_or_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path / "db")
    with pytest.raises(ZeroDivisionError), store.transaction():
        store.add(User(login="a", created_at="now"))
        with store.transaction():
            store.add(User(login="b", created_at="now"))
        raise ZeroDivisionError
    assert store.find(User) == []
    store.close()


def test_records_come_back_as_they_went_in(tmp_path: Path) -> None:
    store = Store(tmp_path / "db")
    made = store.add(
        Issue(
            repository_id=1,
            number=2,
            user_id=3,
            title="t\u2028😊",
            label_ids=(4, 5),
            locked=True,
            created_at="a",
            updated_at="b",
        )
    )
    assert made.id == Issue.FIRST_ID
    assert store.get(Issue, made.id) == made
    assert store.first(Issue, body=None, locked=True) == made
    assert store.change(made, label_ids=(), locked=False) == store.get(Issue, made.id)
    with pytest.raises(TypeError, match="no field"):
        store.find(Issue, colour="red")
    with pytest.raises(TypeError, match="no field"):
        store.change(made, colour="red")
    store.close()


def test_many_at_once_get_their_own_numbers(devhub: DevHub) -> None:
    repo = devhub.create_repository("acme/widget", {"a": "b"})
    header = {"authorization": f"Bearer {devhub.token('acme')}"}
    url = f"{devhub.api_url}/repos/acme/widget/issues"
    made: list[int] = []

    def open_some() -> None:
        with loopback.Client(headers=header, timeout=60) as client:
            made.extend(client.post(url, json={"title": "x"}).json()["number"] for _ in range(5))

    threads = [threading.Thread(target=open_some) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(made) == list(range(1, 31))
    assert repo.issue(30).title == "x"


def test_an_operation_that_is_not_there_answers_501(tmp_path: Path) -> None:
    hub = DevHub(tmp_path)
    with serving(hub):
        answer = loopback.get(f"{hub.api_url}/repos/acme/widget/stargazers")
        assert answer.status_code == 501
        assert "GET /repos/acme/widget/stargazers" in answer.json()["message"]
        assert loopback.put(f"{hub.api_url}/app").status_code == 501
    hub.close()


def test_a_folder_becomes_a_repository_with_its_ignored_files(devhub: DevHub, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    (folder / "sub").mkdir(parents=True)
    (folder / ".gitignore").write_text("*.o\n")
    (folder / ".gitattributes").write_text("* text=auto\n")
    (folder / "built.o").write_bytes(b"\0\1")
    (folder / "sub" / "dos.txt").write_bytes(b"a\r\nb\r\n")
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "link").symlink_to("run.sh")
    repo = devhub.create_repository("acme/project", folder)
    assert repo.files() == {
        ".gitattributes": "100644",
        ".gitignore": "100644",
        "built.o": "100644",
        "link": "120000",
        "run.sh": "100755",
        "sub/dos.txt": "100644",
    }
    assert repo.read("sub/dos.txt") == b"a\r\nb\r\n"


def test_the_state_of_another_version_is_refused_by_name(tmp_path: Path) -> None:
    Store(tmp_path / "db").close()
    with closing(sqlite3.connect(tmp_path / "db")) as db:
        db.execute("PRAGMA user_version = 7")
    with pytest.raises(OperatorError, match="made by another version"):
        Store(tmp_path / "db")


def test_text_that_is_no_text_is_made_one(devhub: DevHub) -> None:
    repo = devhub.create_repository("acme/widget", {"a": "b"})
    header = {"authorization": f"Bearer {devhub.token('acme')}"}
    url = f"{devhub.api_url}/repos/acme/widget/issues"
    made = loopback.post(url, content=rb'{"title": "a\ud800b \u0000"}', headers=header)
    assert made.status_code == 201
    assert repo.issue(1).title == "a?b \0"
