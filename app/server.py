"""The HTTP service, put together from parts. ``graftsmith serve`` runs it; the tests run the same."""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agent.errors import OperatorError
from agent.start import spare_the_collector
from app.jobs.executor import Executor
from app.jobs.intake import Intake
from app.jobs.store import JobStore
from app.web import health
from app.webhooks.endpoint import WebhookEndpoint
from app.webhooks.policy import Rules

_log = logging.getLogger("app.server")
_access = logging.getLogger("app.access")
_TOGETHER_S = 0.05

_SECURITY_HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'self'; img-src 'self'; script-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "cross-origin-opener-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cache-control": "no-store",
}
_HEADERS = [(name.encode(), value.encode()) for name, value in _SECURITY_HEADERS.items()]


def build(
    *,
    webhook_secret: bytes,
    rules: Rules,
    store: JobStore,
    executor: Executor,
    routes: Sequence[BaseRoute] = (),
    on_close: Callable[[], Awaitable[None]] | None = None,
    beside: Sequence[Callable[[], Coroutine[None, None, None]]] = (),
    drain_s: float = 10.0,
) -> Starlette:
    """The whole service as an ASGI application; its lifespan starts and stops the intake and the executor.

    Args:
        webhook_secret: GitHub's key for signing deliveries.
        routes: what other parts add, for example the model endpoint.
        on_close: called last, when nothing runs any more.
        beside: run as long as the service does, and are cancelled with it.
        drain_s: seconds that running jobs get to end at shutdown.
    """
    intake = Intake(store, on_stored=executor.nudge)
    webhook = WebhookEndpoint(webhook_secret, rules, intake.accept)

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        await executor.start()
        tasks = [asyncio.create_task(run()) for run in beside]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await intake.close()
            await executor.stop(drain_s=drain_s)
            if on_close is not None:
                await on_close()
            store.close()

    return Starlette(
        routes=[
            Route("/webhooks", webhook, methods=["POST"]),
            Route("/", webhook, methods=["POST"]),
            *health.routes(store.ping, lambda: executor.healthy),
            *routes,
        ],
        # Inside Starlette's own last resort, which would answer before us and raise all the same.
        middleware=[Middleware(Front)],
        lifespan=lifespan,
    )


class Front:
    """Around everything: security headers, one access line a request, and the catch-all that records what got out.

    The line holds no query string, no header and no body: those can hold secrets. Handlers add to ``scope["log"]``.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self._lines: list[Mapping[str, Any]] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._answer(scope, receive, send)
        else:
            try:
                await self.app(scope, receive, send)
            finally:  # a lifespan ends after the last request
                self._write()

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = time.perf_counter()
        log = scope["log"] = {
            "at": round(time.time(), 3),
            "method": scope["method"],
            "path": scope["path"],
            "status": 0,
        }

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                log["status"] = message["status"]
                given = {name.lower() for name, _ in message["headers"]}
                message["headers"] = [*message["headers"], *(pair for pair in _HEADERS if pair[0] not in given)]
            await send(message)

        try:
            await self.app(scope, receive, send_with_headers)
        except Exception:
            log["error"] = uuid.uuid4().hex[:8]
            _log.exception("error %s in %s %s", log["error"], scope["method"], scope["path"])
            if log["status"]:
                raise  # the answer has begun: only ending the connection tells the client
            answer = JSONResponse({"error": "internal error", "reference": log["error"]}, 500)
            await answer(scope, receive, send_with_headers)
        finally:
            log["ms"] = round((time.perf_counter() - began) * 1000, 1)
            self._note(log)

    def _note(self, line: Mapping[str, Any]) -> None:
        """Lines wait for more, for 50 ms at most: a record and a write for each would take longer than its answer."""
        if not self._lines:
            asyncio.get_running_loop().call_later(_TOGETHER_S, self._write)
        self._lines.append(line)

    def _write(self) -> None:
        lines, self._lines = self._lines, []
        if lines:
            _access.info("request", extra={"lines": lines})


def serve(app: ASGIApp, *, host: str, port: int) -> None:
    """Run until SIGINT or SIGTERM, then drain.

    Raises:
        OperatorError: the address can't be listened on.
        Exception: what kept the service from starting.
    """
    with _listen(host, port) as listening:
        _log.info("listening on %s, port %d; webhooks go to /webhooks", host, port)
        run(app, listening)


def run(app: ASGIApp, listening: socket.socket) -> None:
    """``serve`` on a socket that listens already."""
    started = _Started(app)
    config = uvicorn.Config(
        started,
        access_log=False,
        log_config=None,
        server_header=False,
        proxy_headers=False,
        lifespan="on",
        timeout_graceful_shutdown=15,
    )
    gc.collect()
    spare_the_collector()  # a delivery's JSON makes objects enough for a look through all of ours every few requests
    try:
        uvicorn.Server(config).run(sockets=[listening])
    finally:  # the server itself only logs it, and leaves with a code of its own
        if started.failure is not None:
            raise started.failure


class _Started:
    """Remembers what the application's start or end raised."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.failure: Exception | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._app(scope, receive, send)
        except Exception as error:
            if scope["type"] == "lifespan":
                self.failure = error
            raise


def _listen(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise OperatorError(
            f"Can't listen on {host}, port {port}",
            why=error.strerror or str(error),
            todo="Stop what listens there, or set GRAFTSMITH_HOST and GRAFTSMITH_PORT",
        ) from error
