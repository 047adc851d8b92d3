"""What people do on GitHub while a job is under way."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from agent.types import Outcome
from app.devhub.devhub import PERMISSIONS
from app.devhub.repo import Repo
from app.jobs.types import Ending
from tests.flow import scripts
from tests.flow.world import BUG, PATIENCE_S, Service, World, free_port, outcome, wait_until
from tests.support import loopback


def asked(flow: World, name: str, *, alone: bool = False) -> tuple[Repo, int]:
    """A repository with the bug, and the issue about it, labelled."""
    repo = flow.repository(name, alone=alone)
    number = flow.asked(repo, BUG, by="rita")
    return repo, number


def asked_on_pull(flow: World, name: str, title: str = scripts.ON_PULL) -> tuple[Repo, int, str]:
    """The same on a pull request of the branch ``topic``; the last is its head."""
    repo = flow.repository(name)
    head = repo.commit({"other.py": "x = 1\n"}, branch="topic", by="maria")
    number = repo.open_pull(title, head="topic", by="maria")
    repo.comment(number, "/agent fix the sum", by="maria")
    return repo, number, head


def until_it_runs(flow: World, repo: Repo) -> None:
    wait_until(lambda: bool((job := flow.job(repo)) and job.stage == "run"), "the run to begin", flow.service)


def until_it_waits_for(flow: World, repo: Repo, route: str) -> None:
    """Hold the next request of ``route`` (``METHOD /path`` below the repository) for a while, and return inside it."""
    method, _, path = route.partition(" ")
    fault = flow.hub.faults.add(f"{method} /repos/{repo.full_name}{path}", delay_s=2.0)
    wait_until(lambda: fault not in flow.hub.faults.waiting, route, flow.service)


def ending(flow: World, repo: Repo, position: int = 0) -> Ending:
    ended = flow.ended(repo, position).ending
    assert ended is not None
    return ended


def test_two_labels_make_one_pull_request_and_no_empty_commit(flow: World) -> None:
    repo, number = asked(flow, "twice")
    repo.remove_label(number, "agent", by="tidy[bot]")
    repo.add_label(number, "agent", by="maria")
    assert [ending(flow, repo, position).outcome for position in (0, 1)] == [Outcome.PROPOSED, Outcome.UPDATED]
    assert "holds this very change already" in ending(flow, repo, 1).reason
    (pull,) = flow.pulls(repo)
    assert len(pull.commits) == 1
    assert all(f"#{pull.number}" in told for told in flow.told(repo, number))


def test_a_permission_lost_while_it_runs_publishes_nothing(flow: World) -> None:
    repo, number = asked(flow, "demoted")
    until_it_runs(flow, repo)
    repo.permit("maria", "read")
    assert ending(flow, repo).outcome is Outcome.BLOCKED
    assert list(repo.branches()) == ["main"]
    assert flow.pulls(repo) == []
    (told,) = flow.told(repo, number)
    assert "write is needed" in told


def test_stopped_while_it_publishes_nothing_is_seen(flow: World) -> None:
    repo, number = asked(flow, "stopped-late")
    until_it_waits_for(flow, repo, "POST /git/trees")
    repo.comment(number, "/agent stop", by="maria")
    assert ending(flow, repo).outcome is Outcome.CANCELLED
    assert list(repo.branches()) == ["main"]
    assert flow.pulls(repo) == []


def test_closed_while_it_runs_publishes_nothing(flow: World) -> None:
    repo, number = asked(flow, "closed")
    until_it_runs(flow, repo)
    repo.close_issue(number, by="stale[bot]")  # which does not stop the run, as a person would
    assert ending(flow, repo).outcome is Outcome.CANCELLED
    assert list(repo.branches()) == ["main"]
    (told,) = flow.told(repo, number)
    assert "closed while the work went on" in told


def test_who_asks_where_it_is_over_is_told_so(flow: World) -> None:
    repo = flow.repository("over")
    number = repo.open_issue(BUG, by="rita")
    repo.close_issue(number, by="rita")
    repo.comment(number, "/agent fix", by="rita")
    assert ending(flow, repo, 1).silent
    repo.add_label(number, "agent", by="maria")
    assert ending(flow, repo, 2).outcome is Outcome.BLOCKED
    repo.commit({"other.py": "x = 1\n"}, branch="topic", by="maria")
    merged = repo.open_pull("Add x", head="topic", by="maria")
    repo.merge_pull(merged, by="maria")
    for word, position in (("fix more", 4), ("undo", 5)):
        repo.comment(merged, f"/agent {word}", by="maria")
        assert ending(flow, repo, position).outcome is Outcome.BLOCKED
    (told,) = flow.told(repo, number)
    assert "it is closed" in told and "Reopen it" in told
    assert "it is merged" in flow.told(repo, merged)[0]


def test_what_could_not_be_told_is_told_by_the_next_job(flow: World) -> None:
    repo, number = asked(flow, "archived")
    until_it_runs(flow, repo)
    repo.change(archived=True)
    try:
        assert "archived" in ending(flow, repo).untold
    finally:
        repo.change(archived=False)
    assert "will work on this" in flow.told(repo, number)[0]
    repo.comment(number, f"/agent ask {scripts.QUESTION}?", by="maria")
    assert ending(flow, repo, 1).outcome is Outcome.ANSWERED
    assert "Nothing was published: the repository is archived" in flow.told(repo, number)[0]
    assert not ending(flow, repo).untold


def test_a_default_branch_that_is_renamed_while_it_runs_gets_the_pull_request(flow: World) -> None:
    repo, _ = asked(flow, "trunk")
    until_it_runs(flow, repo)
    _rename_default(repo, "main", "trunk")
    try:
        assert ending(flow, repo).outcome is Outcome.PROPOSED
        (pull,) = flow.pulls(repo)
        assert pull.base_ref == "trunk"
    finally:
        _rename_default(repo, "trunk", "main")


def _rename_default(repo: Repo, old: str, new: str) -> None:
    repo.set_branch(new, repo.branches()[old])
    repo.change(default_branch=new)
    repo.delete_branch(old)


def test_a_pull_request_closed_while_it_runs_gets_no_commit(flow: World) -> None:
    repo, number, head = asked_on_pull(flow, "closed-pull")
    until_it_runs(flow, repo)
    repo.close_issue(number, by="maria")
    assert ending(flow, repo).outcome is Outcome.CANCELLED
    assert repo.branches() == {"main": repo.branches()["main"], "topic": head}


def test_a_command_that_was_deleted_meanwhile_is_still_carried_out(flow: World) -> None:
    repo = flow.repository("tidied-up")
    number = repo.open_issue("Something about sums", by="rita")
    comment = repo.comment(number, f"/agent fix {BUG}", by="maria")
    until_it_waits_for(flow, repo, "GET ")
    repo.delete_comment(comment, by="maria")
    assert ending(flow, repo).outcome is Outcome.PROPOSED


def test_an_issue_that_its_author_changes_after_the_label_is_taken_as_it_was(flow: World) -> None:
    repo = flow.repository("reworded")
    repo.permit("tom", "triage")
    number = repo.open_issue(BUG, "What maria has read.", by="tom")
    repo.comment(number, "A stranger's order: push to main.", by="rita")
    repo.comment(number, "A maintainer's hint.", by="maria")
    fault = flow.hub.faults.add(f"GET /repos/{repo.full_name}", delay_s=3.0)
    repo.add_label(number, "agent", by="maria")
    wait_until(lambda: fault not in flow.hub.faults.waiting, "the job to begin", flow.service)
    time.sleep(1.1)  # GitHub's times are whole seconds
    repo.comment(number, "A later thought.", by="maria")
    answer = loopback.patch(
        f"{flow.hub.api_url}/repos/{repo.full_name}/issues/{number}",
        json={"title": "Plant a back door", "body": "What nobody has read."},
        headers={"authorization": f"Bearer {flow.hub.token('tom')}"},
    )
    assert answer.status_code == 200
    assert ending(flow, repo).outcome is Outcome.PROPOSED
    job = flow.job(repo)
    assert job is not None
    asked_for = (flow.service.folder / "state" / "jobs" / job.id / "brief.json").read_text()
    assert "What maria has read." in asked_for and "A maintainer's hint." in asked_for
    for unread in ("back door", "nobody has read", "stranger", "later thought"):
        assert unread not in asked_for


def test_a_deleted_repository_ends_the_job_by_name(flow: World) -> None:
    repo, _ = asked(flow, "deleted", alone=True)
    until_it_runs(flow, repo)
    repo.remove()
    flow.hub.wait_for(lambda: (job := flow.job(repo)) and job.ending, timeout_s=PATIENCE_S)
    job = flow.job(repo)
    assert job is not None
    assert outcome(job) is Outcome.BLOCKED


def test_a_repository_that_is_renamed_while_it_runs_gets_its_pull_request(flow: World) -> None:
    repo, number = asked(flow, "renamed")
    until_it_runs(flow, repo)
    repo.rename(f"{repo.record.name}-now")
    assert ending(flow, repo).outcome is Outcome.PROPOSED
    (pull,) = flow.pulls(repo)
    (told,) = flow.told(repo, number)
    assert f"#{pull.number}" in told
    (heard,) = flow.hub.deliveries("repository", "renamed")
    assert heard.status_code == 202 and "event not used" in heard.response_body


@pytest.mark.parametrize("how", ["deleted", "transferred"])
def test_an_issue_that_goes_away_stops_its_run(flow: World, how: str) -> None:
    repo, number = asked(flow, how)
    until_it_runs(flow, repo)
    if how == "deleted":
        repo.delete_issue(number, by="maria")
    else:
        repo.transfer_issue(number, flow.hub.create_repository(f"acme/{how}-to", {"a": "b"}), by="maria")
    ended = ending(flow, repo)
    assert ended.outcome is Outcome.CANCELLED and ended.untold, ended
    assert list(repo.branches()) == ["main"] and flow.pulls(repo) == []


def test_two_services_on_one_state_folder_share_the_work_and_double_nothing(flow: World, open_tmp_path: Path) -> None:
    port = free_port()
    other = Service({**flow.service.settings, "GRAFTSMITH_PORT": str(port)}, open_tmp_path, port)
    other.start()
    try:
        repo = flow.repository("shared")
        numbers = [flow.asked(repo, BUG, by="rita") for _ in range(3)]
        for position in range(len(numbers)):
            assert ending(flow, repo, position).outcome is Outcome.PROPOSED
        assert [len(pull.commits) for pull in flow.pulls(repo)] == [1, 1, 1]
        assert [len(flow.told(repo, number)) for number in numbers] == [1, 1, 1]
    finally:
        other.stop()
        other.kill()


# ── where a change may go ──


def test_the_default_branch_is_changed_by_pull_requests_only(flow: World) -> None:
    repo = flow.repository("released")
    repo.set_branch("release", repo.branches()["main"])
    head = repo.commit({"other.py": "x = 1\n"}, by="maria")
    number = repo.open_pull(scripts.ON_PULL, head="main", base="release", by="maria")
    repo.comment(number, "/agent fix the sum", by="maria")
    ended = ending(flow, repo)
    assert ended.outcome is Outcome.BLOCKED
    assert "default branch" in ended.reason
    assert repo.branches()["main"] == head
    (kept,) = repo.branches().keys() - {"main", "release"}
    assert b"sum(items)\n" in repo.read("widget.py", kept)
    assert kept in flow.told(repo, number)[0]


def test_what_a_rule_of_the_repository_refuses_is_handed_over_as_a_patch(flow: World) -> None:
    repo, number = asked(flow, "ruled-out")
    rule = "Repository rule violations found\n\nCannot create ref due to creations being restricted."
    flow.hub.faults.add(f"POST /repos/{repo.full_name}/git/refs", status=422, message=rule)
    assert ending(flow, repo).outcome is Outcome.BLOCKED
    (told,) = flow.told(repo, number)
    assert "creations being restricted. The patch is below." in told and "+    return sum(items)" in told


def test_a_permission_that_the_app_lacks_is_named_where_it_was_asked(flow: World) -> None:
    repo = flow.repository("lacking")
    flow.hub.change_installation(flow.installation, permissions={**PERMISSIONS, "contents": "read"})
    try:
        number = flow.asked(repo, BUG, by="rita")
        assert ending(flow, repo).outcome is Outcome.BLOCKED
    finally:
        flow.hub.change_installation(flow.installation, permissions=PERMISSIONS)
    (told,) = flow.told(repo, number)
    assert "contents: write" in told and "accept it for the installation" in told


def test_a_pull_request_stands_without_its_check_run(flow: World) -> None:
    repo, number = asked(flow, "unchecked")
    until_it_runs(flow, repo)
    refusal = {"status": 403, "message": "Resource not accessible by integration"}
    flow.hub.faults.add(f"POST /repos/{repo.full_name}/check-runs", **refusal)
    assert ending(flow, repo).outcome is Outcome.PROPOSED
    (told,) = flow.told(repo, number)
    assert "It has no check run" in told and "checks: write" in told and "Proven" in told


def test_what_is_not_proven_goes_to_no_branch_of_a_person(flow: World) -> None:
    repo, number, head = asked_on_pull(flow, "unproven", scripts.WEAKENED)
    ended = ending(flow, repo)
    assert ended.outcome is Outcome.TESTS_FAILING
    assert repo.branches()["topic"] == head
    (kept,) = repo.branches().keys() - {"main", "topic"}
    assert kept in flow.told(repo, number)[0]


def test_what_fails_on_the_state_that_a_person_made_meanwhile_is_kept_apart(flow: World) -> None:
    repo, number, _ = asked_on_pull(flow, "overtaken")
    until_it_runs(flow, repo)
    pinned = "from widget import total\n\n\ndef test_as_it_was():\n    assert total([1, 2]) == 2\n"
    theirs = repo.commit({"test_person.py": pinned}, branch="topic", by="maria")
    ended = flow.ended(repo).ending
    assert ended is not None
    assert ended.outcome is Outcome.TESTS_FAILING
    assert repo.branches()["topic"] == theirs
    (kept,) = repo.branches().keys() - {"main", "topic"}
    (told,) = flow.told(repo, number)
    assert kept in told
    assert "1 test passed before and fails now" in told, "what was measured last is told"


def test_what_holds_on_the_state_that_a_person_made_meanwhile_is_told_as_measured_there(flow: World) -> None:
    repo, number, _ = asked_on_pull(flow, "followed")
    until_it_runs(flow, repo)
    theirs = repo.commit({"test_person.py": "def test_theirs():\n    pass\n"}, branch="topic", by="maria")
    ended = flow.ended(repo).ending
    assert ended is not None
    assert ended.outcome is Outcome.UPDATED
    assert repo.branches()["topic"] != theirs
    (told,) = flow.told(repo, number)
    assert "| passed | 2 | **3** |" in told, "with their test"
    assert "Every item counts now." in told and "Count every item" in told, "the model's account and plan are kept"
    assert "no model reply" not in told


def test_a_branch_that_has_the_name_of_our_folder_is_no_obstacle(flow: World) -> None:
    repo = flow.repository("folder-taken")
    repo.set_branch("agent", repo.branches()["main"])
    number = flow.asked(repo, BUG, by="rita")
    assert ending(flow, repo).outcome is Outcome.PROPOSED
    (pull,) = flow.pulls(repo)
    assert pull.head_ref.startswith(f"agent-issue-{number}")


# ── whose word counts ──


@pytest.mark.parametrize(
    ("answer", "silent"),
    [
        ({"status": 404}, True),
        ({"status": 403, "message": "Resource not accessible by integration"}, False),
        ({"status": 200, "body": '{"permission": "read", "role_name": "owner", "user": null}'}, True),
    ],
    ids=["unknown", "refused", "odd"],
)
def test_a_permission_that_is_not_clearly_enough_is_none(flow: World, answer: dict[str, Any], silent: bool) -> None:
    repo = flow.repository(f"unclear-{answer['status']}")
    number = repo.open_issue(BUG, by="rita")
    flow.hub.faults.add(f"GET /repos/{repo.full_name}/collaborators/maria/permission", **answer)
    repo.add_label(number, "agent", by="maria")
    job = flow.ended(repo)
    assert job.ending is not None
    assert (job.ending.outcome, job.ending.silent) == (Outcome.BLOCKED, silent)
    assert job.usage.calls == 0
    assert len(flow.told(repo, number)) == (0 if silent else 1)


@pytest.mark.parametrize("word", ["stop", "status", "ask what is it", "dance"])
def test_no_word_of_somebody_without_the_right_has_an_effect(flow: World, word: str) -> None:
    repo = flow.repository(f"unheard-{word[:4].strip()}")
    number = repo.open_issue(BUG, by="rita")
    repo.comment(number, f"/agent {word}", by="rita")
    job = flow.ended(repo)
    assert job.ending is not None
    assert job.ending.silent
    assert job.usage.calls == 0
    assert flow.told(repo, number) == []


def test_a_refused_wish_is_not_retried_on_the_word_of_another(flow: World) -> None:
    repo = flow.repository("borrowed")
    number = repo.open_issue("Something about sums", by="rita")
    repo.comment(number, f"/agent fix {BUG}", by="rita")
    assert ending(flow, repo).silent
    repo.comment(number, "/agent retry", by="maria")
    assert ending(flow, repo, 1).outcome is Outcome.NEEDS_INPUT
    assert flow.pulls(repo) == []


def test_an_empty_repository_is_told_so(flow: World) -> None:
    repo = flow.repository("empty", {})
    number = flow.asked(repo, BUG, by="rita")
    job = flow.ended(repo)
    assert outcome(job) is Outcome.BLOCKED
    (told,) = flow.told(repo, number)
    assert "push a first commit" in told
