"""Faults on demand: what a network, a rate limit or an outage does, for chosen requests and so many times."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from email.utils import formatdate
from fnmatch import fnmatchcase
from typing import Any, Literal

from starlette.types import ASGIApp, Message, Receive, Scope, Send


@dataclass(frozen=True)
class Fault:
    """One thing that goes wrong.

    ``route`` is ``METHOD /path`` with ``*`` for anything; the path is as in GitHub's documentation
    (``POST /repos/*/issues/*/comments``), or a page or git path. ``when`` says whether the request takes effect
    (``after``: it does, only the answer is lost or replaced); ``delay_s`` is the silence after that.
    """

    route: str
    count: int = 1
    status: int | None = None
    message: str = "Injected fault"
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str | None = None
    delay_s: float = 0.0
    drop: bool = False
    when: Literal["before", "after"] = "before"

    def content(self) -> bytes:
        if self.body is not None:
            return self.body.encode()
        return json.dumps({"message": self.message, "documentation_url": "https://docs.github.com/rest"}).encode()


class Faults:
    """The faults that wait, oldest first. Each request uses up at most one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[Fault] = []

    def add(self, route: str, **what: Any) -> Fault:
        """Let the next ``count`` requests of ``route`` go wrong; see ``Fault``."""
        fault = Fault(route, **what)
        with self._lock:
            self._waiting.append(fault)
        return fault

    def secondary_rate_limit(self, route: str, *, retry_after_s: int) -> Fault:
        """GitHub's answer to writing too fast."""
        return self.add(
            route,
            status=403,
            message="You have exceeded a secondary rate limit. Please wait a few minutes before you try again.",
            headers={"retry-after": str(retry_after_s)},
        )

    def clear(self) -> None:
        with self._lock:
            self._waiting.clear()

    @property
    def waiting(self) -> tuple[Fault, ...]:
        return tuple(self._waiting)

    def take(self, method: str, path: str) -> Fault | None:
        """The fault for this request, used up once."""
        with self._lock:
            for position, fault in enumerate(self._waiting):
                if not fnmatchcase(f"{method} {path}", fault.route):
                    continue
                if fault.count > 1:
                    self._waiting[position] = replace(fault, count=fault.count - 1)
                else:
                    del self._waiting[position]
                return fault
        return None


def faulty(app: ASGIApp, faults: Faults, api: str) -> ASGIApp:
    """``app`` with faults in front; ``api`` is the prefix that routes in faults leave out."""

    async def called(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await app(scope, receive, send)
        fault = faults.take(scope["method"], scope["path"].removeprefix(api))
        if fault is None:
            return await app(scope, receive, send)
        if fault.when == "after":
            await app(scope, receive, _swallow)
        if fault.delay_s:
            await asyncio.sleep(fault.delay_s)
        if fault.when == "before" and not fault.drop and fault.status is None:
            return await app(scope, receive, send)
        return await (_drop(send) if fault.drop else _answer(fault, send))

    return called


async def _swallow(message: Message) -> None:
    """The answer that nobody gets."""


async def _answer(fault: Fault, send: Send) -> None:
    headers = {
        "content-type": "application/json; charset=utf-8",
        "date": formatdate(usegmt=True),
        **fault.headers,
    }
    raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": fault.status or 502, "headers": raw})
    await send({"type": "http.response.body", "body": fault.content()})


async def _drop(send: Send) -> None:
    """Close the connection without an answer.

    ASGI has no message for that. uvicorn's ``send`` belongs to an object that knows its transport; under another
    server the answer breaks off in the middle instead.
    """
    transport = getattr(getattr(send, "__self__", None), "transport", None)
    if transport is not None:
        transport.abort()
        return
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"1000")]})
    await send({"type": "http.response.body", "body": b"{", "more_body": False})
