"""What a job has put on a pull request is taken back, and nobody else's work is touched."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from agent.errors import RetryLater
from app.devhub.devhub import DevHub
from app.github import Repository, TreeChange
from app.publish.undo import Closed, NotUndone, Restored, Undoing, undo
from tests.unit.github.scene import FILES, Scene, scene

BRANCH = "topic"


@pytest.fixture
def hub(devhub: DevHub, app_key: str) -> Scene:
    return scene(devhub, app_key)


async def _nothing_in_the_way() -> None: ...


def commit(hub: Scene, text: str, parents: Sequence[str], job: str = "job-1") -> str:
    """One that a job makes, on top of ``parents[0]``."""

    async def make(repository: Repository) -> str:
        below = (await repository.git.commit(parents[0])).tree
        blob = await repository.git.create_blob(text.encode())
        tree = await repository.git.create_tree(below, [TreeChange("src/widget.py", "100644", blob)])
        return (await repository.git.create_commit(f"{text}\n\nGraftsmith-Job: {job}\n", tree, parents)).sha

    return hub.run(make)


def put(hub: Scene, sha: str) -> None:
    hub.run(
        lambda r: (
            r.git.create_branch(BRANCH, sha) if BRANCH not in hub.repo.branches() else r.git.advance_branch(BRANCH, sha)
        )
    )


def open_pull(hub: Scene) -> int:
    return hub.run(lambda r: r.open_pull(branch=BRANCH, base="main", title="t", body="", draft=False)).number


def undone(
    hub: Scene, number: int, sha: str, *, ours: bool = True, job: str = "job-9"
) -> Restored | Closed | NotUndone:
    undoing = Undoing(sha, job, f"Take back\n\nGraftsmith-Job: {job}\n", ours, _nothing_in_the_way)

    async def work(repository: Repository) -> Restored | Closed | NotUndone:
        return await undo(repository, await repository.pull(number), undoing)

    return hub.run(work)


def proposed(hub: Scene) -> tuple[int, str, str]:
    """A pull request with a job's commit, and a second one on top."""
    first = commit(hub, "first", [hub.repo.branches()["main"]])
    put(hub, first)
    number = open_pull(hub)
    second = commit(hub, "second", [first], "job-2")
    put(hub, second)
    return number, first, second


def test_killed_after_any_request_it_is_taken_back_once(hub: Scene) -> None:
    number, _, second = proposed(hub)
    survived = 0
    while True:
        job, before = f"undo-{survived}", len(hub.repo.log(BRANCH))
        hub.devhub.faults.add("*", count=survived + 1)
        hub.devhub.faults.add("*", count=1_000, drop=True, when="after")
        try:
            undone(hub, number, second, job=job)
            died = False
        except RetryLater:
            died = True
        hub.devhub.faults.clear()
        done = undone(hub, number, second, job=job)
        assert isinstance(done, Restored) and done.commit_sha == hub.repo.branches()[BRANCH]
        assert hub.repo.read("src/widget.py", BRANCH) == b"first"
        assert len(hub.repo.log(BRANCH)) == before + 1
        if not died:
            break
        second = commit(hub, f"second {survived}", [done.commit_sha], "job-2")
        put(hub, second)
        survived += 1
    assert survived > 5


def test_one_after_the_other_down_to_nothing(hub: Scene) -> None:
    number, first, second = proposed(hub)
    assert isinstance(undone(hub, number, second), Restored)
    hub.repo.commit({"elsewhere.py": "x = 1\n"}, branch="main", by="maria")  # the base goes on
    assert undone(hub, number, first, job="job-10") == Closed()
    (pull,) = hub.repo.pulls()
    assert pull.state == "closed"
    assert BRANCH in hub.repo.branches()


def test_a_persons_pull_request_is_left_as_they_made_it(hub: Scene) -> None:
    theirs = hub.repo.commit({"theirs.py": "x = 1\n"}, branch=BRANCH, by="maria")
    number = open_pull(hub)
    sha = commit(hub, "ours", [theirs])
    put(hub, sha)
    assert isinstance(undone(hub, number, sha, ours=False), Restored)
    assert hub.repo.read("theirs.py", BRANCH) == b"x = 1\n"
    assert hub.repo.read("src/widget.py", BRANCH) == str(FILES["src/widget.py"]).encode()


def test_what_came_after_is_not_touched(hub: Scene) -> None:
    number, first, second = proposed(hub)
    head = hub.repo.commit({"theirs.py": "x = 1\n"}, branch=BRANCH, by="maria")
    told = undone(hub, number, second)
    assert isinstance(told, NotUndone) and f"git revert {second}" in told.instead
    assert hub.repo.branches()[BRANCH] == head
    third = commit(hub, "third", [head], "job-3")
    put(hub, third)
    assert isinstance(undone(hub, number, third), Restored)
    between = undone(hub, number, second, job="job-10")
    assert isinstance(between, NotUndone) and "other commits" in between.reason
    assert isinstance(undone(hub, number, first, job="job-11"), NotUndone)


def test_what_came_with_the_base_stays(hub: Scene) -> None:
    number, _, second = proposed(hub)
    main = hub.repo.commit({"elsewhere.py": "x = 1\n"}, branch="main", by="maria")
    merge = commit(hub, "merge", [second, main], "job-3")
    put(hub, merge)
    told = undone(hub, number, merge)
    assert isinstance(told, NotUndone) and "brought the base branch in" in told.reason
    assert hub.repo.branches()[BRANCH] == merge


def test_a_branch_that_is_gone_or_rewritten(hub: Scene) -> None:
    number, first, second = proposed(hub)
    hub.repo.set_branch(BRANCH, first)
    assert "not on the branch any more" in str(undone(hub, number, second))
    hub.repo.delete_branch(BRANCH)
    assert "is gone" in str(undone(hub, number, second))
