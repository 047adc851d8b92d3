"""Deliveries over HTTP: what is refused, what is ignored, what becomes exactly one job."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.types import Message

from agent.errors import RetryLater
from app.jobs.intake import Intake
from app.jobs.room import Room
from app.jobs.store import JobStore
from app.jobs.tables import sqlite_url
from app.jobs.types import Command, Delivery
from app.webhooks.endpoint import MAX_BODY, WebhookEndpoint
from app.webhooks.events import LabelChanged, issue_of
from app.webhooks.policy import Rules
from app.webhooks.signature import digest
from tests.unit.webhooks.payloads import commented, labeled

pytestmark = pytest.mark.anyio

SECRET = b"a-webhook-secret"
GUID = "5f1c0b1e-0000-4000-8000-000000000001"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[JobStore]:
    store = JobStore(sqlite_url(tmp_path / "jobs.sqlite"), room=Room(30))
    yield store
    store.close()


class Hook:
    """An endpoint over a real store, spoken to over HTTP."""

    def __init__(self, store: JobStore) -> None:
        self.intake = Intake(store)
        self.endpoint = WebhookEndpoint(SECRET, Rules(), self.intake.accept)
        self.client = httpx.AsyncClient(transport=httpx.ASGITransport(self.endpoint), base_url="http://hook")

    async def post(self, body: bytes, event: str = "issues", guid: str = GUID, **headers: str) -> httpx.Response:
        signed = {
            "X-Hub-Signature-256": "sha256=" + digest(SECRET, body),
            "X-GitHub-Event": event,
            "X-GitHub-Delivery": guid,
            "Content-Type": "application/json",
        }
        signed.update({name.replace("_", "-"): value for name, value in headers.items()})
        return await self.client.post("/webhooks", content=body, headers={k: v for k, v in signed.items() if v})


@pytest.fixture
async def hook(store: JobStore) -> AsyncIterator[Hook]:
    hook = Hook(store)
    yield hook
    await hook.client.aclose()
    await hook.intake.close()


def encode(payload: Mapping[str, Any]) -> bytes:
    return json.dumps(payload).encode()


async def test_a_label_becomes_one_stored_job(hook: Hook, store: JobStore) -> None:
    body = encode(labeled())
    response = await hook.post(body)
    assert response.status_code == 202
    job = store.get(response.json()["job"])
    assert job is not None
    assert (job.command.number, job.delivery_id, job.state) == (12, GUID, "queued")
    kept = store.delivery(GUID)
    assert kept is not None and kept.event == "issues"
    assert issue_of(kept.excerpt) == LabelChanged.model_validate_json(body).issue
    assert b"installation" not in kept.excerpt, "what no job reads is not kept"


async def test_a_long_text_comes_back_as_it_was(hook: Hook, store: JobStore) -> None:
    payload = labeled()
    payload["issue"]["body"] = text = "long \U0001f600 " * 5_000
    await hook.post(encode(payload))
    kept = store.delivery(GUID)
    assert kept is not None and issue_of(kept.excerpt).body == text


async def test_half_a_character_where_nobody_reads_it_harms_nothing(hook: Hook, store: JobStore) -> None:
    payload = labeled()
    payload["issue"]["pull_request"] = {"url": "\ud800"}
    assert (await hook.post(encode(payload))).status_code == 202
    kept = store.delivery(GUID)
    assert kept is not None and issue_of(kept.excerpt).number == 12


async def test_copies_of_a_delivery_make_one_job(hook: Hook, store: JobStore, tmp_path: Path) -> None:
    body = encode(labeled())
    answers = await asyncio.gather(*(hook.post(body) for _ in range(20)))
    answers.append(await hook.post(body))
    other = JobStore(sqlite_url(tmp_path / "jobs.sqlite"))  # as after a restart
    restarted = Hook(other)
    answers.append(await restarted.post(body))
    await restarted.intake.close()
    other.close()
    assert {a.status_code for a in answers} == {202}
    assert len({a.json()["job"] for a in answers}) == 1
    assert len(store.recent()) == 1


async def test_different_deliveries_make_a_job_each_in_order(hook: Hook, store: JobStore) -> None:
    for number in (1, 2, 3):
        await hook.post(encode(commented(f"/agent fix {number}")), "issue_comment", f"{GUID[:-1]}{number}")
    assert [job.command.request for job in reversed(store.recent())] == ["1", "2", "3"]


@pytest.mark.parametrize(
    "signature", ["", "sha1=" + "0" * 40, "sha256=" + "0" * 63, "sha256=" + "0" * 64, "sha256=" + "A" * 64]
)
async def test_unsigned_is_refused(hook: Hook, store: JobStore, signature: str) -> None:
    response = await hook.post(encode(labeled()), X_Hub_Signature_256=signature)
    assert response.status_code == 401
    assert store.recent() == []


async def test_signature_with_other_alphabets_is_refused(hook: Hook) -> None:
    body = encode(labeled())
    headers = [(b"x-hub-signature-256", "sha256=é".encode()), (b"x-github-event", b"issues")]
    response = await hook.client.post("/webhooks", content=body, headers=headers)
    assert response.status_code == 401


async def test_respelt_body_is_refused(hook: Hook) -> None:
    signature = "sha256=" + digest(SECRET, encode(labeled()))
    respelt = json.dumps(labeled(), indent=2).encode()
    assert (await hook.post(respelt, X_Hub_Signature_256=signature)).status_code == 401


async def test_ping_with_any_spelling_of_json_is_fine(hook: Hook) -> None:
    body = '{"zen":"Keep it simple 😊","hook_id":1e2, "p":"a\\/b"}\n'.encode()
    response = await hook.post(body, "ping")
    assert (response.status_code, response.json()["status"]) == (202, "ignored")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Content_Encoding": "gzip"}, 415),
        ({"Content_Type": "application/x-www-form-urlencoded"}, 415),
        ({"X_GitHub_Event": ""}, 400),
        ({"X_GitHub_Event": "Issues!"}, 400),
        ({"X_GitHub_Delivery": ""}, 400),
        ({"X_GitHub_Delivery": "a b c d e f g h"}, 400),
    ],
)
async def test_other_forms_are_refused(hook: Hook, store: JobStore, headers: dict[str, str], status: int) -> None:
    response = await hook.post(encode(labeled()), **headers)
    assert response.status_code == status
    assert store.recent() == []


@pytest.mark.parametrize("body", [b"", b"{", b"nonsense", b"\xff\xfe", b'{"a":NaN}', b'{"a":1}x'])
async def test_signed_text_that_is_not_json(hook: Hook, body: bytes) -> None:
    assert (await hook.post(body)).status_code == 400


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"[" * 100_000 + b"]" * 100_000, "malformed payload: nested too deeply"),
        (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "malformed payload: nested too deeply"),
        (b'{"action":"labeled","action":"labeled"}', "malformed payload: a key occurs twice"),
        (b'{"action":"labeled","sender":' + b"9" * 5000 + b"}", "malformed payload: a number is too long"),
        (encode(labeled()).replace(b'"number": 12', b'"number": 1e400'), "malformed payload: issue.number"),
        (encode(labeled("\ud800")), "malformed payload: label.name"),
        (b"[]", "malformed payload: not an object"),
        (b"null", "malformed payload: not an object"),
        (encode(labeled(installation=None)), "no installation"),
        (encode(labeled(sender=None)), "malformed payload: sender"),
    ],
    ids=range(10),
)
async def test_odd_json_is_dropped_with_a_reason_and_work_goes_on(
    hook: Hook, store: JobStore, body: bytes, reason: str
) -> None:
    response = await hook.post(body)
    assert response.status_code == 202
    assert response.json()["reason"].startswith(reason)
    assert store.recent() == []
    assert (await hook.post(encode(labeled()))).json()["status"] == "accepted"


async def test_too_many_waiting_jobs_are_turned_away_and_can_come_again(hook: Hook, store: JobStore) -> None:
    body = encode(labeled())
    for number in range(30):
        assert (await hook.post(body, guid=f"{GUID}-{number}")).status_code == 202
    turned_away = await hook.post(body, guid=GUID)
    assert turned_away.status_code == 503
    assert "GRAFTSMITH_MAX_WAITING" in turned_away.json()["reason"]
    assert (await hook.post(body, guid=f"{GUID}-3")).status_code == 202, "a copy of a stored one is still known"
    other = encode(labeled(repository={"id": 43, "full_name": "acme/other"}))
    assert (await hook.post(other, guid=GUID)).status_code == 202, "another repository has room"


async def test_a_store_that_fails_is_no_2xx() -> None:
    async def broken(delivery: Delivery, command: Command) -> str:
        raise RetryLater("The job database can't take the delivery", why="disk full")

    hook = WebhookEndpoint(SECRET, Rules(), broken)
    body = encode(labeled())
    headers = {
        "X-Hub-Signature-256": "sha256=" + digest(SECRET, body),
        "X-GitHub-Event": "issues",
        "X-GitHub-Delivery": GUID,
    }
    async with httpx.AsyncClient(transport=httpx.ASGITransport(hook), base_url="http://hook") as client:
        response = await client.post("/", content=body, headers=headers)
    assert (response.status_code, response.json()["status"]) == (503, "retry")


# ── bodies that a client library would not send ──────────────────────────────────────────────────────────────────


class Wire:
    """One request, given chunk by chunk."""

    def __init__(self, headers: Mapping[str, str], chunk: bytes, count: int, pause: float = 0.0) -> None:
        signed = {"x-hub-signature-256": "sha256=" + "0" * 64, **headers}
        self.scope: dict[str, Any] = {
            "type": "http",
            "method": "POST",
            "path": "/webhooks",
            "headers": [(k.encode(), v.encode()) for k, v in signed.items()],
        }
        self.chunk, self.count, self.pause = chunk, count, pause
        self.given = 0
        self.sent: list[Message] = []

    async def receive(self) -> Message:
        await asyncio.sleep(self.pause)
        self.given += 1
        return {"type": "http.request", "body": self.chunk, "more_body": self.given < self.count}

    async def send(self, message: Message) -> None:
        self.sent.append(message)

    async def through(self, hook: Hook) -> int:
        await hook.endpoint(self.scope, self.receive, self.send)
        start = self.sent[0]
        closes = (b"connection", b"close") in start["headers"]
        assert closes or self.given == self.count, "what is left would be read as the next request"
        return int(start["status"])


async def test_declared_size_above_the_limit_is_refused_unread(hook: Hook) -> None:
    wire = Wire({"content-length": str(26 * 1024 * 1024)}, b"x", 1)
    assert (await wire.through(hook), wire.given) == (413, 0)


@pytest.mark.parametrize("length", ["-1", "0x10", "²", "9" * 30])
async def test_declared_size_that_is_no_size_is_refused_unread(hook: Hook, length: str) -> None:
    wire = Wire({}, b"x", 1)
    wire.scope["headers"].append((b"content-length", length.encode("latin-1")))
    assert (await wire.through(hook), wire.given) == (413, 0)


@pytest.mark.parametrize("headers", [{}, {"content-length": "10"}], ids=["chunked without end", "lie about the size"])
async def test_body_is_read_no_further_than_the_limit(hook: Hook, headers: dict[str, str]) -> None:
    megabyte = 1024 * 1024
    wire = Wire(headers, b"x" * megabyte, 10**9)
    assert await wire.through(hook) == 413
    assert wire.given == MAX_BODY // megabyte + 1


async def test_missing_signature_is_refused_unread(hook: Hook) -> None:
    wire = Wire({"x-hub-signature-256": "sha256=none"}, b"x", 10**9)
    assert (await wire.through(hook), wire.given) == (401, 0)


async def test_slow_body_is_given_up(hook: Hook) -> None:
    hook.endpoint = WebhookEndpoint(SECRET, Rules(), hook.intake.accept, read_seconds=0.05)
    assert await Wire({}, b"x", 10**9, pause=0.01).through(hook) == 408


async def test_only_the_body_has_to_come_in_time(hook: Hook, store: JobStore) -> None:
    async def slow(delivery: Delivery, command: Command) -> str:
        await asyncio.sleep(0.6)
        return await hook.intake.accept(delivery, command)

    endpoint = WebhookEndpoint(SECRET, Rules(), slow, read_seconds=0.3)
    hook.client = httpx.AsyncClient(transport=httpx.ASGITransport(endpoint), base_url="http://hook")
    assert (await hook.post(encode(labeled()))).status_code == 202


async def test_a_service_that_is_stopped_while_a_body_comes_is_not_held_up(hook: Hook) -> None:
    wire = Wire({}, b"x", 10**9, pause=0.01)
    request = asyncio.create_task(wire.through(hook))
    await asyncio.sleep(0.05)
    request.cancel()
    with pytest.raises(asyncio.CancelledError):
        await request
    assert wire.sent == []


async def test_all_unchecked_bodies_together_are_bounded(hook: Hook) -> None:
    wires = [Wire({}, b"x" * (5 * 1024 * 1024), 5, pause=0.001) for _ in range(8)]
    statuses = await asyncio.gather(*(wire.through(hook) for wire in wires))
    assert set(statuses) == {401, 503}
    assert await Wire({}, b"x", 1).through(hook) == 401, "the room is free again"


async def test_connection_that_ends_early(hook: Hook) -> None:
    wire = Wire({}, b"x", 1)

    async def gone() -> Message:
        return {"type": "http.disconnect"}

    wire.receive = gone  # type: ignore[method-assign]
    assert await wire.through(hook) == 400
