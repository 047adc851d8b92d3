"""What goes wrong on demand, seen from the client."""

from __future__ import annotations

import httpx
import pytest

from tests.support import loopback
from tests.support.github_scene import NAME, OWNER, Scene

COMMENTS = "POST /repos/*/issues/*/comments"


def comment(scene: Scene, timeout_s: float = 30.0) -> httpx.Response:
    header = {"authorization": f"Bearer {scene.hub.token('alice')}"}
    url = f"{scene.hub.api_url}/repos/{OWNER}/{NAME}/issues/1/comments"
    return loopback.post(url, json={"body": "x"}, headers=header, timeout=timeout_s)


@pytest.fixture(autouse=True)
def issue(scene: Scene) -> None:
    scene.repo.open_issue("It breaks")


def test_a_status_is_answered_so_many_times_and_nothing_happens(scene: Scene) -> None:
    scene.hub.faults.add(COMMENTS, count=2, status=502, body="<html>", headers={"content-type": "text/html"})
    assert [comment(scene).status_code for _ in range(3)] == [502, 502, 201]
    assert len(scene.repo.comments(1)) == 1
    assert scene.hub.faults.waiting == ()


def test_the_secondary_rate_limit_is_in_githubs_words(scene: Scene) -> None:
    scene.hub.faults.secondary_rate_limit(COMMENTS, retry_after_s=2)
    refused = comment(scene)
    assert (refused.status_code, refused.headers["retry-after"]) == (403, "2")
    assert "secondary rate limit" in refused.json()["message"]


def test_a_dropped_connection_is_no_answer(scene: Scene) -> None:
    scene.hub.faults.add(COMMENTS, drop=True)
    with pytest.raises(httpx.TransportError):
        comment(scene)
    assert scene.repo.comments(1) == []


def test_an_answer_can_be_lost_after_the_deed(scene: Scene) -> None:
    scene.hub.faults.add(COMMENTS, drop=True, when="after")
    with pytest.raises(httpx.TransportError):
        comment(scene)
    assert len(scene.repo.comments(1)) == 1
    scene.hub.faults.add(COMMENTS, status=500, when="after")
    assert comment(scene).status_code == 500
    assert len(scene.repo.comments(1)) == 2


def test_a_delay_outlasts_an_impatient_client(scene: Scene) -> None:
    scene.hub.faults.add(COMMENTS, delay_s=0.5)
    with pytest.raises(httpx.ReadTimeout):
        comment(scene, timeout_s=0.05)


def test_other_routes_stay_well(scene: Scene) -> None:
    scene.hub.faults.add("GET /*", status=500)
    assert comment(scene).status_code == 201
    scene.hub.faults.clear()
    assert loopback.get(f"{scene.hub.api_url}/meta").status_code == 200


def test_another_site_reaches_no_form(scene: Scene) -> None:
    evil = {"origin": "https://evil.example"}
    form = loopback.post(f"{scene.hub.url}/{OWNER}/{NAME}/issues/1/comment", data={"body": "x"}, headers=evil)
    assert form.status_code == 403
    assert scene.repo.comments(1) == []
