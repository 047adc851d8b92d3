"""App, installations, tokens and webhook: the real client against the stand-in, both ways checked."""

from __future__ import annotations

import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from typing import Any

import jwt
import pytest
from githubkit import Response, TokenAuthStrategy
from githubkit.exception import RequestFailed

from app.devhub.devhub import new_key
from tests.support.github_scene import NAME, OWNER, Scene
from tests.support.openapi import Checked
from tests.support.receiver import Receiver


def status_and_message(failed: pytest.ExceptionInfo[RequestFailed]) -> tuple[int, str]:
    response = failed.value.response
    return response.status_code, response.json()["message"]


def ask_as_app(scene: Scene, token: str) -> Response[Any]:
    """Who am I, with one JWT as it is."""
    return scene.client(None).request("GET", "/app", headers={"authorization": f"Bearer {token}"})


def signed(scene: Scene, key: str = "", **claims: Any) -> str:
    """A JWT as an App makes it; a claim that is ``None`` is left out."""
    now = int(time.time())
    all_claims = {"iat": now - 60, "exp": now + 540, "iss": str(scene.keys.id), **claims}
    kept = {name: value for name, value in all_claims.items() if value is not None}
    return jwt.encode(kept, key or scene.keys.private_key, "RS256")


def test_an_app_reads_about_itself(scene: Scene) -> None:
    app = scene.as_app()
    assert app.rest.apps.get_authenticated().parsed_data.slug == "graftsmith"
    assert [found.id for found in app.rest.apps.list_installations().parsed_data] == [scene.installation]
    assert app.rest.apps.get_installation(scene.installation).parsed_data.repository_selection == "all"
    assert app.rest.apps.get_repo_installation(OWNER, NAME).parsed_data.id == scene.installation


def test_a_token_carries_permissions_repositories_and_an_expiry(scene: Scene) -> None:
    made = scene.as_app().rest.apps.create_installation_access_token(
        scene.installation, repository_ids=[scene.repo.id], permissions={"contents": "read", "issues": "write"}
    )
    token = made.parsed_data
    assert made.json()["permissions"] == {"metadata": "read", "contents": "read", "issues": "write"}
    assert [found.id for found in token.repositories or []] == [scene.repo.id]
    assert token.repository_selection == "selected"
    assert len(token.token) != 40


def test_a_token_cannot_be_stronger_or_wider_than_its_installation(scene: Scene) -> None:
    app = scene.as_app()
    scene.hub.create_repository("other/thing", {"a": "b"})
    with pytest.raises(RequestFailed) as failed:
        app.rest.apps.create_installation_access_token(scene.installation, permissions={"administration": "write"})
    assert status_and_message(failed) == (422, "The permissions requested are not granted to this installation.")
    with pytest.raises(RequestFailed) as failed:
        app.rest.apps.create_installation_access_token(scene.installation, repositories=["thing"])
    assert status_and_message(failed)[0] == 422


def test_an_installation_sees_its_own_repositories_only(scene: Scene) -> None:
    scene.hub.create_repository("other/thing", {"a": "b"})
    seen = scene.as_installation()
    listed = seen.rest.apps.list_repos_accessible_to_installation().parsed_data
    assert [found.full_name for found in listed.repositories] == [f"{OWNER}/{NAME}"]
    with pytest.raises(RequestFailed) as failed:
        seen.rest.repos.get("other", "thing")
    assert status_and_message(failed) == (404, "Not Found")


def test_a_revoked_token_is_no_good_any_more(scene: Scene) -> None:
    token = scene.as_app().rest.apps.create_installation_access_token(scene.installation).parsed_data.token
    client = scene.client(TokenAuthStrategy(token))
    client.rest.apps.revoke_installation_access_token()
    with pytest.raises(RequestFailed) as failed:
        client.rest.repos.get(OWNER, NAME)
    assert status_and_message(failed) == (401, "Bad credentials")


def test_a_token_expires_after_an_hour(scene: Scene) -> None:
    token = scene.as_app().rest.apps.create_installation_access_token(scene.installation).parsed_data.token
    scene.hub.move_clock(3601)
    with pytest.raises(RequestFailed) as failed:
        scene.client(TokenAuthStrategy(token)).rest.repos.get(OWNER, NAME)
    assert status_and_message(failed) == (401, "Bad credentials")


@pytest.mark.parametrize(
    ("claim", "value", "words"),
    [
        ("iat", lambda now: now + 600, "'Issued at' claim"),
        ("iat", lambda now: None, "'Issued at' claim"),
        ("iat", lambda now: now - 60 + 0.5, "'Issued at' claim"),
        ("exp", lambda now: now + 1200, "too far in the future"),
        ("exp", lambda now: now - 10, "'Expiration time' claim"),
        ("exp", lambda now: str(now + 300), "'Expiration time' claim"),
    ],
)
def test_a_jwt_with_wrong_times_is_refused(
    scene: Scene, claim: str, value: Callable[[int], object], words: str
) -> None:
    with pytest.raises(RequestFailed) as failed:
        ask_as_app(scene, signed(scene, **{claim: value(int(time.time()))}))
    status, message = status_and_message(failed)
    assert status == 401
    assert words in message


@pytest.mark.parametrize("ahead", [-45, 45])
def test_a_jwt_with_margin_is_taken_by_a_clock_that_differs(scene: Scene, ahead: int) -> None:
    scene.hub.move_clock(ahead)
    assert ask_as_app(scene, signed(scene)).status_code == 200


def test_a_jwt_of_another_key_or_app_is_refused(scene: Scene) -> None:
    with pytest.raises(RequestFailed) as failed:
        ask_as_app(scene, signed(scene, key=new_key()))
    assert status_and_message(failed) == (401, "A JSON web token could not be decoded")
    with pytest.raises(RequestFailed) as failed:
        ask_as_app(scene, signed(scene, iss="999"))
    assert status_and_message(failed) == (404, "Integration not found")


def test_a_jwt_opens_no_repository_and_a_token_opens_no_app(scene: Scene) -> None:
    header = {"authorization": f"Bearer {signed(scene)}"}
    with pytest.raises(RequestFailed) as failed:
        scene.client(None).request("GET", f"/repos/{OWNER}/{NAME}", headers=header)
    assert status_and_message(failed)[0] == 404
    token = scene.as_app().rest.apps.create_installation_access_token(scene.installation).parsed_data.token
    with pytest.raises(RequestFailed) as failed:
        ask_as_app(scene, token)
    assert status_and_message(failed)[0] == 401


def test_nobody_sees_a_private_repository_without_a_token(scene: Scene) -> None:
    with pytest.raises(RequestFailed) as failed:
        scene.client(None).rest.repos.get(OWNER, NAME)
    assert status_and_message(failed)[0] == 404
    scene.repo.change(private=False)
    assert scene.client(None).rest.repos.get(OWNER, NAME).status_code == 200


def test_a_permission_that_is_missing_or_taken_away_is_refused(scene: Scene) -> None:
    weak = scene.as_installation(permissions={"issues": "read", "contents": "write"})
    with pytest.raises(RequestFailed) as failed:
        weak.rest.issues.create(OWNER, NAME, title="x")
    assert status_and_message(failed) == (403, "Resource not accessible by integration")
    strong = scene.as_installation()
    assert strong.rest.issues.create(OWNER, NAME, title="x").status_code == 201
    scene.hub.change_installation(scene.installation, permissions={"metadata": "read", "issues": "read"})
    with pytest.raises(RequestFailed) as failed:
        strong.rest.issues.create(OWNER, NAME, title="y")
    assert status_and_message(failed) == (403, "Resource not accessible by integration")
    assert failed.value.response.headers["x-accepted-github-permissions"] == "issues=write"


def test_a_repository_answers_by_id_after_a_rename(scene: Scene) -> None:
    scene.repo.change(name="gadget")
    client = scene.as_installation()
    assert client.request("GET", f"/repositories/{scene.repo.id}").json()["full_name"] == "acme/gadget"
    assert client.request("GET", f"/repositories/{scene.repo.id}/issues").json() == []


def test_the_webhook_and_its_deliveries_are_read_and_repeated(scene: Scene, receiver: Receiver) -> None:
    app = scene.as_app()
    app.rest.apps.update_webhook_config_for_app(url=receiver.url)
    assert app.rest.apps.get_webhook_config_for_app().parsed_data.url == receiver.url
    scene.repo.open_issue("It breaks")
    scene.hub.settle()
    (item,) = app.rest.apps.list_webhook_deliveries().parsed_data
    assert (item.event, item.action, item.status, item.status_code) == ("issues", "opened", "OK", 202)
    whole = app.rest.apps.get_webhook_delivery(item.id).json()
    assert whole["request"]["payload"]["issue"]["title"] == "It breaks"
    app.rest.apps.redeliver_webhook_delivery(item.id)
    scene.hub.settle()
    again = app.rest.apps.list_webhook_deliveries().parsed_data[0]
    assert (again.guid, again.redelivery) == (item.guid, True)
    assert [got.body for got in receiver.received] == [receiver.received[0].body] * 2


def test_limits_service_and_users_are_told(scene: Scene) -> None:
    client = scene.as_installation()
    before = client.rest.rate_limit.get().parsed_data.resources.core
    client.rest.meta.get()
    assert client.rest.users.get_by_username("alice").parsed_data.login == "alice"
    after = client.rest.rate_limit.get()
    assert after.parsed_data.resources.core.remaining == before.remaining - 2
    assert after.headers["x-ratelimit-limit"] == "5000"
    assert scene.as_person("alice").rest.users.get_authenticated().parsed_data.login == "alice"


def test_the_primary_rate_limit_is_refused_with_its_headers(scene: Scene, github_checks: Checked) -> None:
    scene.hub.hub.rate_limit = 2
    client = scene.as_person("alice")
    client.rest.repos.get(OWNER, NAME)
    client.rest.repos.get(OWNER, NAME)
    with pytest.raises(RequestFailed) as failed:
        client.rest.repos.get(OWNER, NAME)
    status, message = status_and_message(failed)
    headers = failed.value.response.headers
    assert status == 403
    assert message.startswith("API rate limit exceeded for")
    assert headers["x-ratelimit-remaining"] == "0"
    assert int(headers["x-ratelimit-reset"]) > time.time()


def test_answers_carry_the_hubs_own_time(scene: Scene) -> None:
    scene.hub.move_clock(-86_400)
    told = parsedate_to_datetime(scene.client(None).rest.meta.get().headers["date"]).timestamp()
    assert abs(told - (time.time() - 86_400)) < 600


def test_an_answer_that_the_client_has_already_is_not_sent_again(scene: Scene) -> None:
    client = scene.as_installation()
    tag = client.rest.repos.get(OWNER, NAME).headers["etag"]
    again = client.request("GET", f"/repos/{OWNER}/{NAME}", headers={"if-none-match": tag})
    assert (again.status_code, again.content) == (304, b"")
