"""Sends what ``events`` wrote down: signed, one after the other, each once; a person or the API asks for more.

GitHub does not promise an order. The stand-in keeps the order of the events, so that runs can be repeated.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import time
from contextlib import suppress

import httpx

from agent.outside import tls
from app.devhub.hub import Hub
from app.devhub.records import App, Delivery
from app.devhub.shapes import hooks

KEPT = 10_000
"""Characters of a receiver's answer that are kept."""


def sign(secret: str, body: bytes) -> str:
    """The value of ``X-Hub-Signature-256``."""
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def headers_of(app: App, delivery: Delivery) -> dict[str, str]:
    """The headers of one webhook request, as GitHub sends them."""
    found = {
        "Accept": "*/*",
        "Content-Type": "application/json",
        "User-Agent": "GitHub-Hookshot/devhub",
        "X-GitHub-Delivery": delivery.guid,
        "X-GitHub-Event": delivery.event,
        "X-GitHub-Hook-ID": str(app.id),
        "X-GitHub-Hook-Installation-Target-ID": str(app.id),
        "X-GitHub-Hook-Installation-Target-Type": "integration",
    }
    if app.webhook_secret:
        found["X-Hub-Signature-256"] = sign(app.webhook_secret, delivery.payload)
        sha1 = hmac.new(app.webhook_secret.encode(), delivery.payload, hashlib.sha1)
        found["X-Hub-Signature"] = "sha1=" + sha1.hexdigest()
    return found


def redeliver(hub: Hub, guid: str) -> Delivery:
    """Send an event once more, with the same GUID and the same bytes."""
    found = hub.store.first(Delivery, guid=guid)
    if found is None:
        raise KeyError(f"no delivery {guid}")
    again = hub.store.add(hooks.again(found))
    hub.wake()
    return again


class Sender:
    """The one task that sends. ``start`` and ``stop`` belong to the server's event loop."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        loop, more = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            with suppress(RuntimeError):  # the loop is closed: the next start sends it
                loop.call_soon_threadsafe(more.set)

        self._hub.wake = wake
        self._task = asyncio.create_task(self._run(more))

    async def stop(self) -> None:
        if self._task:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _run(self, more: asyncio.Event) -> None:
        # No proxy and no .netrc: the receiver is the one that the App names.
        async with httpx.AsyncClient(timeout=self._hub.delivery_timeout_s, verify=tls(), trust_env=False) as client:
            while True:
                more.clear()
                for waiting in await asyncio.to_thread(self._waiting):
                    await self._send(client, waiting)
                await more.wait()

    def _waiting(self) -> list[Delivery]:
        return self._hub.store.find(Delivery, delivered_at=None)

    async def _send(self, client: httpx.AsyncClient, delivery: Delivery) -> None:
        app = self._hub.store.get(App, delivery.app_id)
        headers = headers_of(app, delivery)
        started = time.monotonic()
        status, code, answer, text = "", 0, {}, ""
        try:
            async with asyncio.timeout(self._hub.delivery_timeout_s):
                response = await client.post(app.webhook_url, content=delivery.payload, headers=headers)
            code, answer, text = response.status_code, dict(response.headers), response.text[:KEPT]
            status = "OK" if response.is_success else f"Invalid HTTP Response: {code}"
        except (TimeoutError, httpx.TimeoutException):
            status = "timed out"
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
            status = f"failed to connect to host: {error}"
        await asyncio.to_thread(
            self._hub.store.change,
            delivery,
            url=app.webhook_url,
            status=status,
            status_code=code,
            request_headers=headers,
            response_headers=answer,
            response_body=text,
            duration=round(time.monotonic() - started, 3),
            delivered_at=self._hub.stamp(),
        )
