"""Webhook intake: accepted, stored durably and answered, against a bare Starlette handler with the same HMAC check.

Run as ``python -m bench.webhook``. Each server is a process of its own on loopback; 16 connections send distinct signed
deliveries of the size that GitHub sends. Prints one table: requests a second, latencies, and the ratio to the bare one.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import hmac
import json
import os
import re
import signal
import socket
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from app.jobs.intake import Intake
from app.jobs.room import Room
from app.jobs.store import JobStore
from app.jobs.tables import sqlite_url
from app.logs import set_up_logging
from app.server import Front
from app.server import run as run_service
from app.webhooks.endpoint import WebhookEndpoint
from app.webhooks.policy import Rules

SECRET = b"a-webhook-secret"
GOAL_P99_MS = 50.0
GOAL_RATIO = 0.3
WARM_UP = 400


def bare() -> ASGIApp:
    """What a hand-written handler does: read, check, answer."""

    async def webhook(request: Request) -> JSONResponse:
        body = await request.body()
        given = request.headers.get("x-hub-signature-256", "")
        expected = "sha256=" + hmac.new(SECRET, body, hashlib.sha256).hexdigest()
        if not hmac.compare_digest(given, expected):
            return JSONResponse({"status": "refused"}, 401)
        return JSONResponse({"status": "accepted"}, 202)

    return Starlette(routes=[Route("/webhooks", webhook, methods=["POST"])])


def ours(state: Path) -> ASGIApp:
    """The product's intake with its store and its log; jobs wait, because what they would do is not measured here."""
    sys.stderr = (state / "log").open("w")
    set_up_logging("info")
    store = JobStore(sqlite_url(state / "jobs.sqlite"), room=Room(10_000, 10_000))
    intake = Intake(store)

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        yield
        await intake.close()

    route = Route("/webhooks", WebhookEndpoint(SECRET, Rules(), intake.accept), methods=["POST"])
    return Front(Starlette(routes=[route], lifespan=lifespan))


def serve(kind: str, listening: socket.socket, state: Path) -> None:
    if kind == "ours":
        run_service(ours(state), listening)
    else:
        config = uvicorn.Config(bare(), access_log=False, log_config=None, loop="uvloop", http="httptools")
        uvicorn.Server(config).run([listening])


def payload(number: int, size: int) -> bytes:
    """An ``issue_comment`` delivery padded to what GitHub sends, with the many fields that nobody reads."""
    account = {"login": "maintainer", "id": 7, "type": "User", "avatar_url": "https://example.org/u/7"}
    body = {
        "action": "created",
        "issue": {"number": number % 50_000 + 1, "state": "open", "title": "It breaks", "locked": False},
        "comment": {"id": number + 1, "body": "/agent fix the parser", "user": account},
        "repository": {"id": 1 + number // 100, "full_name": "acme/widget", "archived": False, "owner": account},
        "sender": account,
        "installation": {"id": 99},
        "links": {f"resource_{n}_url": f"https://example.org/repos/acme/widget/{n}{{/sha}}" for n in range(size // 80)},
    }
    return json.dumps(body).encode()


@dataclass(frozen=True)
class Measured:
    per_second: float
    p50_ms: float
    p99_ms: float
    worst_ms: float


async def measure(port: int, requests: int, connections: int, size: int, salt: str) -> Measured:
    """Send ``requests`` distinct deliveries over ``connections`` keep-alive connections."""
    prepared = [request(number, size, salt) for number in range(requests)]
    latencies: list[float] = []

    async def one_connection(mine: list[bytes]) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for sent in mine:
            began = time.perf_counter()
            writer.write(sent)
            head = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(length_of(head))
            latencies.append(time.perf_counter() - began)
            assert head.startswith(b"HTTP/1.1 202"), head
        writer.close()

    began = time.perf_counter()
    await asyncio.gather(*(one_connection(prepared[n::connections]) for n in range(connections)))
    seconds = time.perf_counter() - began
    ordered = sorted(latency * 1000 for latency in latencies)
    return Measured(requests / seconds, ordered[len(ordered) // 2], ordered[int(len(ordered) * 0.99)], ordered[-1])


def disk_ms(folder: Path | None, times: int = 40) -> float:
    """Median milliseconds that the disk takes to make one small write durable: nothing durable can be faster."""
    took = []
    with tempfile.TemporaryFile(dir=folder) as file:
        for _ in range(times):
            file.write(b"x" * 16_384)
            file.flush()
            began = time.perf_counter()
            os.fdatasync(file.fileno())
            took.append(time.perf_counter() - began)
    return sorted(took)[times // 2] * 1000


def length_of(head: bytes) -> int:
    found = re.search(rb"(?i)content-length: (\d+)", head)
    assert found is not None
    return int(found[1])


def request(number: int, size: int, salt: str) -> bytes:
    body = payload(number, size)
    signature = hmac.new(SECRET, body, hashlib.sha256).hexdigest()
    head = (
        "POST /webhooks HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nX-GitHub-Event: issue_comment\r\nX-GitHub-Delivery: {salt}-{number:08d}\r\n"
        f"X-Hub-Signature-256: sha256={signature}\r\n\r\n"
    )
    return head.encode() + body


def run(kind: str, options: argparse.Namespace, number: int) -> Measured:
    """One round against a process of its own: some processes are luckier than others, for as long as they live."""
    requests, connections, size = options.requests, options.connections, options.size
    with (
        tempfile.TemporaryDirectory(dir=options.folder) as folder,
        socket.create_server(("127.0.0.1", 0), backlog=128) as listening,
    ):
        process = get_context("spawn").Process(target=serve, args=(kind, listening, Path(folder)), daemon=True)
        process.start()
        port = listening.getsockname()[1]
        try:
            asyncio.run(measure(port, WARM_UP, connections, size, "warmup-0"))
            return asyncio.run(measure(port, requests, connections, size, f"measured-{number}"))
        finally:
            if process.pid is not None:
                os.kill(process.pid, signal.SIGTERM)
            process.join(20)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=2000, help="a round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--folder", type=Path, default=None, help="where the databases go; the disk decides a lot")
    parser.add_argument("--size", type=int, default=9000, help="bytes of a body, about")
    options = parser.parse_args()
    size = len(payload(0, options.size))
    print(f"{options.connections} connections, {options.requests} deliveries of {size} bytes a round")
    print(f"one durable write takes this disk {disk_ms(options.folder):.2f} ms (median)")
    print(f"{'':8} {'req/s':>8} {'p50 ms':>8} {'p99 ms':>8} {'worst':>8}")
    rounds = [{kind: run(kind, options, number) for kind in ("bare", "ours")} for number in range(options.rounds)]
    median = {}
    for kind in ("bare", "ours"):
        ordered = sorted((measured[kind] for measured in rounds), key=lambda measured: measured.per_second)
        median[kind] = shown = ordered[len(ordered) // 2]
        print(f"{kind:8} {shown.per_second:8.0f} {shown.p50_ms:8.2f} {shown.p99_ms:8.2f} {shown.worst_ms:8.2f}")
    ratio = median["ours"].per_second / median["bare"].per_second
    print(f"ratio {ratio:.2f} (goal {GOAL_RATIO} or more)")
    print(f"p99 {median['ours'].p99_ms:.1f} ms (goal {GOAL_P99_MS:.0f} ms or less); median round of {options.rounds}")


if __name__ == "__main__":
    main()
