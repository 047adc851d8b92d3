"""Pull requests, reviews, review comments: the real client against the stand-in, both ways checked."""

from __future__ import annotations

import pytest
from githubkit import GitHub
from githubkit.exception import RequestFailed

from tests.support.github_scene import NAME, OWNER, Scene
from tests.support.openapi import Checked

FIXED = "def total(items):\n    return sum(items)\n"


@pytest.fixture
def number(scene: Scene) -> int:
    """A pull request by ``alice``."""
    scene.repo.commit({"src/widget.py": FIXED}, branch="topic", by="alice")
    return scene.repo.open_pull("Fix total", head="topic", by="alice")


def refusal(failed: pytest.ExceptionInfo[RequestFailed]) -> tuple[int, str]:
    body = failed.value.response.json()
    return failed.value.response.status_code, (body.get("errors") or [body])[0]["message"]


def test_a_pull_request_is_opened_read_and_changed(scene: Scene, client: GitHub) -> None:
    scene.repo.commit({"src/widget.py": FIXED}, branch="agent/issue-1")
    asked = {"title": "Fix", "head": "agent/issue-1", "base": "main", "body": "Fixes #1"}
    pull = client.rest.pulls.create(OWNER, NAME, **asked, draft=True).parsed_data
    assert (pull.draft, pull.mergeable, pull.commits, pull.changed_files) == (True, True, 1, 1)
    assert (pull.head.label, pull.base.ref) == ("acme:agent/issue-1", "main")
    changed = client.rest.pulls.update(OWNER, NAME, pull.number, title="Fix it", body="New").parsed_data
    assert (changed.title, changed.body) == ("Fix it", "New")
    assert client.rest.issues.get(OWNER, NAME, pull.number).parsed_data.pull_request
    client.rest.pulls.update(OWNER, NAME, pull.number, state="closed")
    assert client.rest.pulls.list(OWNER, NAME).parsed_data == []
    assert client.rest.pulls.update(OWNER, NAME, pull.number, state="open").parsed_data.state == "open"


def test_pull_requests_are_listed_by_head_and_base(client: GitHub, number: int) -> None:
    def listed(**asked: str) -> list[int]:
        return [pull.number for pull in client.rest.pulls.list(OWNER, NAME, **asked).parsed_data]  # type: ignore[arg-type]

    assert listed(head="acme:topic", state="all", base="main") == [number]
    assert listed(head="acme:other") == []
    assert listed(base="topic") == []


def test_files_commits_and_the_difference_are_read(client: GitHub, number: int) -> None:
    (file,) = client.rest.pulls.list_files(OWNER, NAME, number).parsed_data
    assert (file.filename, file.additions, file.deletions) == ("src/widget.py", 1, 1)
    assert "+    return sum(items)" in str(file.patch)
    assert len(client.rest.pulls.list_commits(OWNER, NAME, number).parsed_data) == 1
    accept = {"accept": "application/vnd.github.diff"}
    diff = client.request("GET", f"/repos/{OWNER}/{NAME}/pulls/{number}", headers=accept)
    assert diff.text.startswith("diff --git a/src/widget.py")


def test_a_second_pull_request_of_the_same_branch_is_refused(client: GitHub, number: int) -> None:
    with pytest.raises(RequestFailed) as failed:
        client.rest.pulls.create(OWNER, NAME, title="Again", head="topic", base="main")
    assert refusal(failed) == (422, "A pull request already exists for acme:topic.")


def test_a_pull_request_of_nothing_is_refused(scene: Scene, client: GitHub) -> None:
    scene.repo.set_branch("same", scene.repo.branches()["main"])
    with pytest.raises(RequestFailed) as failed:
        client.rest.pulls.create(OWNER, NAME, title="x", head="same", base="main")
    assert refusal(failed) == (422, "No commits between main and same")
    for wrong in ({"head": "gone", "base": "main"}, {"head": "same", "base": "gone"}):
        with pytest.raises(RequestFailed) as failed:
            client.rest.pulls.create(OWNER, NAME, title="x", **wrong)
        assert failed.value.response.json()["errors"][0]["code"] == "invalid"
    assert scene.repo.pulls() == []


def test_a_body_that_is_too_long_is_refused(scene: Scene, client: GitHub) -> None:
    scene.repo.commit({"a": "b"}, branch="topic")
    with pytest.raises(RequestFailed) as failed:
        client.rest.pulls.create(OWNER, NAME, title="x", head="topic", base="main", body="x" * 65_537)
    assert refusal(failed) == (422, "body is too long (maximum is 65536 characters)")


def test_the_head_follows_its_branch_and_a_merge_closes(scene: Scene, client: GitHub, number: int) -> None:
    sha = scene.repo.commit({"b": "2"}, branch="topic", by="alice")
    assert client.rest.pulls.get(OWNER, NAME, number).parsed_data.head.sha == sha
    assert client.rest.git.get_ref(OWNER, NAME, f"pull/{number}/head").parsed_data.object_.sha == sha
    merged = client.rest.pulls.merge(OWNER, NAME, number, sha=sha).parsed_data
    after = client.rest.pulls.get(OWNER, NAME, number).json()
    assert (after["state"], after["merged"], after["merge_commit_sha"]) == ("closed", True, merged.sha)
    assert scene.repo.branches()["main"] == merged.sha


def test_a_conflict_or_a_moved_head_is_not_merged(scene: Scene, client: GitHub, number: int) -> None:
    with pytest.raises(RequestFailed) as failed:
        client.rest.pulls.merge(OWNER, NAME, number, sha="0" * 40)
    assert failed.value.response.status_code == 409
    scene.repo.commit({"src/widget.py": "def total(items):\n    return len(items)\n"})
    assert client.rest.pulls.get(OWNER, NAME, number).parsed_data.mergeable is False
    with pytest.raises(RequestFailed) as failed:
        client.rest.pulls.merge(OWNER, NAME, number)
    assert failed.value.response.status_code == 405


def test_deleting_the_head_branch_closes_the_pull_request(scene: Scene, client: GitHub, number: int) -> None:
    client.rest.git.delete_ref(OWNER, NAME, "heads/topic")
    assert scene.repo.pull(number).state == "closed"
    with pytest.raises(RequestFailed) as failed:
        client.rest.pulls.update(OWNER, NAME, number, state="open")
    assert failed.value.response.status_code == 422


def test_a_forks_pull_request_has_its_own_head_and_survives_the_fork(scene: Scene, client: GitHub) -> None:
    fork = scene.repo.fork("visitor")
    sha = fork.commit({"a": "b"}, branch="main", by="visitor")
    number = scene.repo.open_pull("From a fork", head="visitor:main", by="visitor", maintainer_can_modify=False)
    found = client.rest.pulls.get(OWNER, NAME, number).parsed_data
    assert (found.head.label, found.maintainer_can_modify) == ("visitor:main", False)
    assert client.rest.git.get_ref(OWNER, NAME, f"pull/{number}/head").parsed_data.object_.sha == sha
    assert sha not in scene.repo.branches().values()
    fork.remove()
    after = client.request("GET", f"/repos/{OWNER}/{NAME}/pulls/{number}").json()
    assert after["head"]["repo"] is None
    assert after["head"]["sha"] == sha


def test_reviews_are_made_and_listed(client: GitHub, scene: Scene, number: int) -> None:
    made = client.rest.pulls.create_review(
        OWNER,
        NAME,
        number,
        event="REQUEST_CHANGES",
        body="Please look",
        comments=[{"path": "src/widget.py", "line": 2, "body": "This one"}],
    ).parsed_data
    assert made.state == "CHANGES_REQUESTED"
    assert [review.id for review in client.rest.pulls.list_reviews(OWNER, NAME, number).parsed_data] == [made.id]
    (comment,) = client.rest.pulls.list_review_comments(OWNER, NAME, number).parsed_data
    assert (comment.pull_request_review_id, comment.line) == (made.id, 2)
    with pytest.raises(RequestFailed) as failed:
        scene.as_person("alice").rest.pulls.create_review(OWNER, NAME, number, event="APPROVE")
    assert failed.value.response.json()["errors"] == ["Can not approve your own pull request"]


def test_review_comments_are_made_answered_changed_and_deleted(
    scene: Scene, client: GitHub, number: int, github_checks: Checked
) -> None:
    rest, sha = client.rest.pulls, scene.repo.pull(number).head_sha
    made = rest.create_review_comment(
        OWNER, NAME, number, body="Why?", commit_id=sha, path="src/widget.py", line=2, side="LEFT"
    ).parsed_data
    assert made.diff_hunk.splitlines()[-1] == "-    return sum(items[1:])"
    answer = rest.create_reply_for_review_comment(OWNER, NAME, number, made.id, body="Because").parsed_data
    assert answer.in_reply_to_id == made.id
    other = rest.create_review_comment(
        OWNER, NAME, number, body="Whole file", commit_id=sha, path="src/widget.py", subject_type="file"
    ).parsed_data
    rest.update_review_comment(OWNER, NAME, other.id, body="The whole file")
    assert rest.get_review_comment(OWNER, NAME, other.id).parsed_data.body == "The whole file"
    assert len(rest.list_review_comments_for_repo(OWNER, NAME).parsed_data) == 3
    rest.delete_review_comment(OWNER, NAME, other.id)
    reactions = client.rest.reactions
    given = reactions.create_for_pull_request_review_comment(OWNER, NAME, made.id, content="+1").parsed_data
    assert len(reactions.list_for_pull_request_review_comment(OWNER, NAME, made.id).parsed_data) == 1
    reactions.delete_for_pull_request_comment(OWNER, NAME, made.id, given.id)
    with pytest.raises(RequestFailed) as failed:
        rest.create_review_comment(OWNER, NAME, number, body="x", commit_id=sha, path="src/widget.py", line=99)
    assert failed.value.response.json()["errors"][0]["message"] == "line must be part of the diff"


def test_people_are_asked_for_a_review_until_they_give_it(scene: Scene, client: GitHub, number: int) -> None:
    scene.repo.permit("bob", "read")
    rest = client.rest.pulls
    for _ in range(2):
        asked = rest.request_reviewers(OWNER, NAME, number, reviewers=["bob"]).parsed_data
        assert [user.login for user in asked.requested_reviewers or []] == ["bob"]
    assert [user.login for user in rest.list_requested_reviewers(OWNER, NAME, number).parsed_data.users] == ["bob"]
    scene.repo.review(number, "Fine.", event="APPROVE", by="bob")
    assert rest.list_requested_reviewers(OWNER, NAME, number).parsed_data.users == []
    for wrong in ("alice", "stranger", "graftsmith[bot]"):
        scene.hub.user(wrong, type="Bot" if "[" in wrong else "User")
        with pytest.raises(RequestFailed) as failed:
            rest.request_reviewers(OWNER, NAME, number, reviewers=["bob", wrong])
        assert failed.value.response.status_code == 422
    assert scene.repo.reviewers(number) == []
