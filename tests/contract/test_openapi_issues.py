"""Repositories, issues, labels, comments, reactions: the real client against the stand-in, both ways checked."""

from __future__ import annotations

import pytest
from githubkit import GitHub
from githubkit.exception import RequestFailed

from tests.support.github_scene import NAME, OWNER, Scene, refusal
from tests.support.openapi import Checked


def test_a_repository_is_read(client: GitHub) -> None:
    found = client.rest.repos.get(OWNER, NAME).parsed_data
    assert (found.full_name, found.default_branch, found.private) == ("acme/widget", "main", True)


@pytest.mark.parametrize(
    ("given", "permission", "role"),
    [
        ("read", "read", "read"),
        ("triage", "read", "triage"),
        ("write", "write", "write"),
        ("maintain", "write", "maintain"),
        ("admin", "admin", "admin"),
        (None, "none", "none"),
    ],
)
def test_a_persons_permission_is_told_live(
    scene: Scene, client: GitHub, given: str | None, permission: str, role: str
) -> None:
    scene.repo.permit("bob", given)
    found = client.rest.repos.get_collaborator_permission_level(OWNER, NAME, "bob").parsed_data
    assert (found.permission, found.role_name) == (permission, role)


def test_nobody_has_no_permission(client: GitHub) -> None:
    with pytest.raises(RequestFailed) as failed:
        client.rest.repos.get_collaborator_permission_level(OWNER, NAME, "nobody")
    assert refusal(failed) == (404, "Not Found")


def test_an_issue_lives_its_life(scene: Scene, client: GitHub) -> None:
    made = client.rest.issues.create(OWNER, NAME, title="It breaks", body="Badly", labels=["bug"], assignees=["alice"])
    issue = made.parsed_data
    assert issue.user and issue.user.login == "graftsmith[bot]"
    assert issue.performed_via_github_app and issue.performed_via_github_app.slug == "graftsmith"
    changed = client.rest.issues.update(
        OWNER, NAME, issue.number, title="It broke", body=None, labels=["bug", "agent"], state="closed"
    ).parsed_data
    assert (changed.title, changed.body, changed.state) == ("It broke", None, "closed")
    assert changed.closed_by and changed.closed_at
    client.rest.issues.update(OWNER, NAME, issue.number, state="open", assignees=[])
    again = client.rest.issues.get(OWNER, NAME, issue.number).parsed_data
    assert (again.state, again.state_reason, again.assignees) == ("open", "reopened", [])


def test_issues_are_listed_filtered_and_in_pages(scene: Scene, client: GitHub) -> None:
    for number in range(5):
        scene.repo.open_issue(f"Issue {number}", by="alice", labels=("odd",) if number % 2 else ())
    scene.repo.close_issue(1)
    listed = client.rest.issues.list_for_repo(OWNER, NAME, per_page=2)
    assert [issue.number for issue in listed.parsed_data] == [5, 4]
    assert 'rel="next"' in listed.headers["link"] and "page=2" in listed.headers["link"]
    last = client.rest.issues.list_for_repo(OWNER, NAME, per_page=2, page=2, state="all", direction="asc")
    assert [issue.number for issue in last.parsed_data] == [3, 4]
    assert {part.split("; ")[1] for part in last.headers["link"].split(", ")} == {
        f'rel="{name}"' for name in ("prev", "next", "last", "first")
    }
    odd = client.rest.issues.list_for_repo(OWNER, NAME, labels="odd", creator="alice", sort="updated")
    assert {issue.number for issue in odd.parsed_data} == {2, 4}
    everything = client.rest.paginate(client.rest.issues.list_for_repo, owner=OWNER, repo=NAME, state="all", per_page=2)
    assert len(list(everything)) == 5


def test_labels_are_put_on_and_taken_off(scene: Scene, client: GitHub) -> None:
    number = scene.repo.open_issue("It breaks")
    client.rest.issues.add_labels(OWNER, NAME, number, labels=["a", "b"])
    assert scene.repo.issue(number).labels == ("a", "b")
    client.rest.issues.set_labels(OWNER, NAME, number, labels=["B", "c"])
    client.rest.issues.remove_label(OWNER, NAME, number, "c")
    assert [label.name for label in client.rest.issues.list_labels_on_issue(OWNER, NAME, number).parsed_data] == ["b"]
    with pytest.raises(RequestFailed) as failed:
        client.rest.issues.remove_label(OWNER, NAME, number, "c")
    assert refusal(failed) == (404, "Label does not exist")
    client.rest.issues.remove_all_labels(OWNER, NAME, number)
    assert scene.repo.issue(number).labels == ()


def test_a_repositorys_labels_are_made_and_read(client: GitHub) -> None:
    client.rest.issues.create_label(OWNER, NAME, name="agent", color="0e8a16", description="Fix it")
    assert client.rest.issues.get_label(OWNER, NAME, "agent").parsed_data.color == "0e8a16"
    assert [label.name for label in client.rest.issues.list_labels_for_repo(OWNER, NAME).parsed_data] == ["agent"]
    with pytest.raises(RequestFailed) as failed:
        client.rest.issues.create_label(OWNER, NAME, name="Agent")
    assert failed.value.response.json()["errors"][0]["code"] == "already_exists"


def test_comments_are_made_changed_listed_and_deleted(scene: Scene, client: GitHub) -> None:
    number = scene.repo.open_issue("It breaks")
    made = client.rest.issues.create_comment(OWNER, NAME, number, body="Working on it").parsed_data
    client.rest.issues.update_comment(OWNER, NAME, made.id, body="Done 😊")
    assert client.rest.issues.get_comment(OWNER, NAME, made.id).parsed_data.body == "Done 😊"
    assert len(client.rest.issues.list_comments(OWNER, NAME, number).parsed_data) == 1
    assert len(client.rest.issues.list_comments_for_repo(OWNER, NAME).parsed_data) == 1
    client.rest.issues.delete_comment(OWNER, NAME, made.id)
    assert scene.repo.comments(number) == []


def test_reactions_are_given_once_and_taken_back(scene: Scene, client: GitHub) -> None:
    number = scene.repo.open_issue("It breaks")
    comment = scene.repo.comment(number, "/agent fix", by="alice")
    rest = client.rest.reactions
    first = rest.create_for_issue_comment(OWNER, NAME, comment, content="eyes")
    second = rest.create_for_issue_comment(OWNER, NAME, comment, content="eyes")
    assert (first.status_code, second.status_code) == (201, 200)
    assert scene.repo.comments(number)[0].reactions == ("eyes",)
    assert len(rest.list_for_issue_comment(OWNER, NAME, comment, content="eyes").parsed_data) == 1
    rest.delete_for_issue_comment(OWNER, NAME, comment, first.parsed_data.id)
    on_issue = rest.create_for_issue(OWNER, NAME, number, content="rocket").parsed_data
    assert [found.content for found in rest.list_for_issue(OWNER, NAME, number).parsed_data] == ["rocket"]
    rest.delete_for_issue(OWNER, NAME, number, on_issue.id)
    assert scene.repo.issue(number).reactions == ()


def test_what_is_too_long_blank_or_missing_is_refused(scene: Scene, client: GitHub, github_checks: Checked) -> None:
    number = scene.repo.open_issue("It breaks")
    client.rest.issues.create_comment(OWNER, NAME, number, body="x" * 65_536)
    with pytest.raises(RequestFailed) as failed:
        client.rest.issues.create_comment(OWNER, NAME, number, body="x" * 65_537)
    assert failed.value.response.json()["errors"][0]["message"] == "body is too long (maximum is 65536 characters)"
    with pytest.raises(RequestFailed) as failed:
        client.rest.issues.create(OWNER, NAME, title="x" * 257)
    assert "title is too long" in failed.value.response.json()["errors"][0]["message"]
    with pytest.raises(RequestFailed) as failed:
        client.rest.issues.create_comment(OWNER, NAME, number, body="  ")
    assert refusal(failed) == (422, "Validation Failed")
    with github_checks.bad_requests(), pytest.raises(RequestFailed) as failed:
        client.request("POST", f"/repos/{OWNER}/{NAME}/issues", json={"body": "no title"})
    assert refusal(failed) == (422, 'Invalid request.\n\n"title" wasn\'t supplied.')
    with github_checks.bad_requests(), pytest.raises(RequestFailed) as failed:
        client.request("POST", f"/repos/{OWNER}/{NAME}/issues", content=b"{", headers={"content-type": "text/json"})
    assert refusal(failed) == (400, "Problems parsing JSON")
    with pytest.raises(RequestFailed) as failed:
        client.rest.issues.get(OWNER, NAME, 99)
    assert refusal(failed) == (404, "Not Found")


def test_a_locked_issue_and_an_archived_repository_take_no_comment(scene: Scene, client: GitHub) -> None:
    number = scene.repo.open_issue("It breaks")
    client.rest.issues.lock(OWNER, NAME, number, lock_reason="too heated")
    with pytest.raises(RequestFailed) as failed:
        client.rest.issues.create_comment(OWNER, NAME, number, body="x")
    assert refusal(failed) == (403, "Unable to create comment because issue is locked.")
    client.rest.issues.unlock(OWNER, NAME, number)
    scene.repo.change(archived=True)
    with pytest.raises(RequestFailed) as failed:
        client.rest.issues.create_comment(OWNER, NAME, number, body="x")
    assert refusal(failed) == (403, "Repository was archived so is read-only.")


def test_people_act_by_their_own_permission(scene: Scene) -> None:
    scene.repo.permit("reader", "read")
    reader = scene.as_person("reader")
    number = reader.rest.issues.create(OWNER, NAME, title="It breaks").parsed_data.number
    reader.rest.issues.create_comment(OWNER, NAME, number, body="Please")
    with pytest.raises(RequestFailed) as failed:
        reader.rest.issues.add_labels(OWNER, NAME, number, labels=["agent"])
    assert refusal(failed)[0] == 403
    scene.as_person("alice").rest.issues.add_labels(OWNER, NAME, number, labels=["agent"])
    assert scene.repo.issue(number).labels == ("agent",)
