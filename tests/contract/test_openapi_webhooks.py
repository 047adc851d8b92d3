"""What the stand-in sends to an App: signed as GitHub signs, shaped as GitHub describes."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterator

import pytest

from app.devhub.devhub import DevHub, Repo
from tests.support.github_scene import NAME, OWNER, Scene, set_up
from tests.support.openapi import Description
from tests.support.receiver import Receiver


@pytest.fixture
def scene(devhub: DevHub, app_key: str, receiver: Receiver) -> Iterator[Scene]:
    yield set_up(devhub, app_key, webhook_url=receiver.url)


def everything(scene: Scene, repo: Repo) -> None:
    """A little of all that is announced."""
    number = repo.open_issue("It breaks", None, by="alice", labels=("bug",))
    repo.add_label(number, "agent", by="alice")
    repo.remove_label(number, "bug", by="alice")
    comment = repo.comment(number, "/agent fix it 😊", by="alice")
    repo.edit_comment(comment, "/agent fix it, please", by="alice")
    repo.delete_comment(comment, by="alice")
    repo.close_issue(number, by="alice")
    repo.reopen_issue(number, by="alice")
    client = scene.as_installation()
    client.rest.issues.update(OWNER, NAME, number, title="It broke")
    sha = repo.commit({"a.txt": "1\n"}, branch="topic", by="alice")
    pull = repo.open_pull("Fix", head="topic", by="alice", body="Fixes #1")
    repo.add_label(pull, "agent", by="alice")
    repo.commit({"a.txt": "2\n", "b.txt": "1\n"}, branch="topic", by="alice")
    client.rest.pulls.update(OWNER, NAME, pull, title="Fix it")
    client.rest.pulls.create_review(OWNER, NAME, pull, event="COMMENT", body="Hm")
    client.rest.pulls.create_review_comment(OWNER, NAME, pull, body="Why?", commit_id=sha, path="a.txt", line=1)
    run = client.rest.checks.create(OWNER, NAME, name="x", head_sha=sha).parsed_data
    client.rest.checks.update(OWNER, NAME, run.id, status="completed", conclusion="neutral")
    client.rest.actions.create_workflow_dispatch(OWNER, NAME, "agent.yml", ref="main")
    repo.finish_workflow_run(repo.workflow_runs()[0].id, "success")
    repo.close_issue(pull, by="alice")
    repo.reopen_issue(pull, by="alice")
    repo.merge_pull(pull)
    repo.delete_branch("topic")


def test_every_payload_is_as_github_describes_it(scene: Scene, github_description: Description | None) -> None:
    if github_description is None:
        pytest.skip("GitHub's own description is not here; see the summary")
    everything(scene, scene.repo)
    scene.hub.settle()
    sent = scene.hub.deliveries()
    faults = [
        fault for item in sent for fault in github_description.payload_faults(item.event, json.loads(item.payload))
    ]
    assert faults == []
    assert {(item.event, item.action) for item in sent} >= {
        *(("issues", action) for action in ("opened", "labeled", "unlabeled", "closed", "reopened", "edited")),
        *(("issue_comment", action) for action in ("created", "edited", "deleted")),
        *(("pull_request", action) for action in ("opened", "labeled", "synchronize", "edited", "closed", "reopened")),
        *(("check_run", action) for action in ("created", "completed")),
        *(("workflow_run", action) for action in ("requested", "completed")),
        *(("ping", None), ("installation", "created"), ("push", None), ("create", None), ("delete", None)),
        *(("pull_request_review", "submitted"), ("pull_request_review_comment", "created")),
    }


def test_a_delivery_is_signed_over_its_bytes_and_named(scene: Scene, receiver: Receiver) -> None:
    scene.repo.open_issue("Überraschung 😊", "a\u2028b")
    scene.hub.settle()
    got = receiver.received[-1]
    digest = hmac.new(scene.keys.webhook_secret.encode(), got.body, hashlib.sha256).hexdigest()
    assert got.headers["x-hub-signature-256"] == f"sha256={digest}"
    assert got.headers["x-github-event"] == "issues"
    assert got.headers["x-github-hook-installation-target-id"] == str(scene.keys.id)
    assert "😊".encode() in got.body
    assert json.loads(got.body)["installation"]["id"] == scene.installation
    assert len({item.headers["x-github-delivery"] for item in receiver.received}) == len(receiver.received)


def test_labels_of_a_new_issue_are_announced_one_by_one(scene: Scene, receiver: Receiver) -> None:
    scene.repo.open_issue("It breaks", labels=("bug", "P1", "agent"), by="alice")
    scene.hub.settle()
    sent = [json.loads(got.body) for got in receiver.received if got.headers["x-github-event"] == "issues"]
    assert [(item["action"], item.get("label", {}).get("name")) for item in sent] == [
        ("opened", None),
        ("labeled", "bug"),
        ("labeled", "P1"),
        ("labeled", "agent"),
    ]
    assert all(len(item["issue"]["labels"]) == 3 for item in sent)


def test_what_the_app_does_itself_is_announced_to_it_too(scene: Scene, receiver: Receiver) -> None:
    number = scene.repo.open_issue("It breaks")
    scene.as_installation().rest.issues.create_comment(OWNER, NAME, number, body="/agent fix")
    scene.hub.settle()
    payload = json.loads(receiver.received[-1].body)
    assert payload["sender"] == payload["comment"]["user"]
    assert (payload["sender"]["login"], payload["sender"]["type"]) == ("graftsmith[bot]", "Bot")


def test_a_redelivery_has_the_same_guid_and_the_same_bytes(scene: Scene, receiver: Receiver) -> None:
    scene.repo.open_issue("It breaks")
    scene.hub.settle()
    (first,) = scene.hub.deliveries("issues", "opened")
    scene.repo.close_issue(1)
    scene.hub.redeliver(first.guid)
    scene.hub.settle()
    before, after = (got for got in receiver.received if got.headers["x-github-delivery"] == first.guid)
    assert before == after


def test_only_subscribed_events_of_covered_repositories_are_sent(
    devhub: DevHub, app_key: str, receiver: Receiver
) -> None:
    inside, outside = devhub.create_repository("acme/one", {"a": "b"}), devhub.create_repository("acme/two", {"a": "b"})
    keys = devhub.create_app(private_key=app_key, webhook_url=receiver.url, subscribed=("issues",))
    devhub.install(keys.id, "acme", repositories=("one",))
    for repo in (inside, outside):
        repo.comment(repo.open_issue("It breaks"), "x")
    devhub.settle()
    sent = [(item.event, item.repository_id) for item in devhub.deliveries()]
    assert sent == [("ping", None), ("installation", None), ("issues", inside.id)]


def test_a_receiver_that_fails_is_told_once_and_recorded(scene: Scene, receiver: Receiver) -> None:
    scene.hub.settle()
    receiver.status = 500
    scene.repo.open_issue("one")
    scene.hub.settle()
    scene.hub.hub.delivery_timeout_s, receiver.delay_s = 0.05, 0.5
    scene.repo.open_issue("two")
    scene.hub.settle()
    scene.hub.set_webhook(scene.keys.id, "http://127.0.0.1:1/webhooks")
    scene.repo.open_issue("three")
    scene.hub.settle()
    first, second, third = scene.hub.deliveries("issues")
    assert (first.status, first.status_code) == ("Invalid HTTP Response: 500", 500)
    assert (second.status, second.status_code) == ("timed out", 0)
    assert third.status.startswith("failed to connect")


def test_any_payload_can_be_sent_signed(scene: Scene, receiver: Receiver) -> None:
    scene.hub.deliver(scene.keys.id, "nonsense", {"action": "made up"})
    scene.hub.settle()
    assert receiver.received[-1].headers["x-github-event"] == "nonsense"
