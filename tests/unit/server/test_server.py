"""The assembled service: routes, health, security headers, the access line, and the catch-all."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from agent.errors import OperatorError
from app.jobs.durable import claim_identity
from app.jobs.executor import Executor
from app.jobs.store import JobStore
from app.jobs.tables import sqlite_url
from app.logs import JsonLines
from app.server import Front, build, serve
from app.webhooks.policy import Rules
from tests.unit.jobs.serving import FolderSteps

pytestmark = pytest.mark.anyio


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


async def page(_request: Request) -> Response:
    return PlainTextResponse("page", headers={"Cache-Control": "max-age=60"})


async def broken(_request: Request) -> Response:
    raise RuntimeError("the token is ghs_secret")


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    (tmp_path / "dbos.sqlite").write_bytes(b"no database" * 1000)  # as a bad disk leaves it
    store = JobStore(sqlite_url(tmp_path / "jobs.sqlite"))
    identity, lock = claim_identity(tmp_path / "workers")
    steps = FolderSteps(tmp_path, 0.0)
    executor = Executor(store, steps, database_url=sqlite_url(tmp_path / "dbos.sqlite"), identity=identity)
    app = build(
        webhook_secret=b"a-webhook-secret",
        rules=Rules(),
        store=store,
        executor=executor,
        routes=[Route("/page", page), Route("/broken", broken)],
    )
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://server") as client,
    ):
        yield client
    lock.close()


def access_lines(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    records = [record for record in caplog.records if record.name == "app.access"]
    return [json.loads(line) for record in records for line in JsonLines().format(record).splitlines()]


async def test_the_service(client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    assert "dbos.sqlite.damaged" in " ".join(names(tmp_path)), "what the executor remembers can be made anew"
    caplog.set_level(logging.INFO)
    assert (await client.get("/healthz")).text == "ok"
    assert (await client.get("/readyz")).text == "ok"
    assert (await client.get("/")).status_code == 405
    assert (await client.get("/nowhere")).status_code == 404
    for path in ("/webhooks", "/"):
        response = await client.post(path, content=b"{}")
        assert (response.status_code, response.json()["status"]) == (401, "refused")

    shown = await client.get("/page?token=in-the-query")
    assert shown.headers["x-content-type-options"] == "nosniff"
    assert "frame-ancestors 'none'" in shown.headers["content-security-policy"]
    assert shown.headers["cache-control"] == "max-age=60", "what a page says itself stays"

    failed = await client.get("/broken")
    assert failed.status_code == 500
    assert failed.headers["x-frame-options"] == "DENY"
    assert "ghs_secret" not in failed.text

    for _ in range(1000):  # they are written together, soon
        if len(access := access_lines(caplog)) == 8:
            break
        await asyncio.sleep(0.01)
    assert [line["status"] for line in access] == [200, 200, 405, 404, 401, 401, 200, 500]
    assert access[6]["path"] == "/page"
    assert access[4]["reason"].startswith("X-Hub-Signature-256 is missing")
    assert access[7]["error"] == failed.json()["reference"]
    assert all("in-the-query" not in json.dumps(line) for line in access)


async def test_the_last_request_before_the_end_has_its_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    async def the_whole_service(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            async with httpx.AsyncClient(transport=httpx.ASGITransport(front), base_url="http://server") as client:
                await client.get("/last")
        else:
            await PlainTextResponse("page")(scope, receive, send)

    front = Front(the_whole_service)
    await front({"type": "lifespan"}, asyncio.Queue[Any]().get, asyncio.Queue[Any]().put)
    assert [line["path"] for line in access_lines(caplog)] == ["/last"]


def test_live_processes_have_different_names_and_keep_them_over_restarts(tmp_path: Path) -> None:
    first, first_lock = claim_identity(tmp_path)
    second, second_lock = claim_identity(tmp_path)
    assert first != second
    first_lock.close()  # as the system does when the process dies
    again, again_lock = claim_identity(tmp_path)
    assert again == first
    other, other_lock = claim_identity(tmp_path / "of-another-machine")
    assert other not in (first, second)
    for lock in (second_lock, again_lock, other_lock):
        lock.close()


def test_a_service_that_cannot_start_says_why(tmp_path: Path) -> None:
    (tmp_path / "dbos.sqlite").mkdir()
    store = JobStore(sqlite_url(tmp_path / "jobs.sqlite"))
    identity, lock = claim_identity(tmp_path / "workers")
    executor = Executor(
        store, FolderSteps(tmp_path, 0.0), database_url=sqlite_url(tmp_path / "dbos.sqlite"), identity=identity
    )
    app = build(webhook_secret=b"a-webhook-secret", rules=Rules(), store=store, executor=executor)
    with pytest.raises(OperatorError, match=r"executor's database.*unable to open.*Check that the disk has room"):
        serve(app, host="127.0.0.1", port=0)
    lock.close()


def test_the_collector_is_spared_while_it_serves() -> None:
    seen: list[tuple[int, int]] = []

    async def app(scope: Scope, _receive: Receive, _send: Send) -> None:
        seen.append((gc.get_freeze_count(), gc.get_threshold()[0]))
        raise OperatorError("It was only started to be looked at")

    before = gc.get_threshold()
    gc.unfreeze()
    gc.set_threshold(700, 10, 10)
    try:
        with pytest.raises(OperatorError):
            serve(app, host="127.0.0.1", port=0)
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)
    ((frozen, threshold),) = seen
    assert frozen > 10_000, "what is loaded is not looked through"
    assert threshold > 700
