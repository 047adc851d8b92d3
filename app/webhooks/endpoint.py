"""The one place where deliveries come in: check, parse, decide, store, answer. Nothing slow happens here.

A 2xx answer is a promise: the delivery is on disk as a job, or starts none for the reason that the answer names.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from typing import Any, NoReturn, Protocol

import jiter
from starlette.responses import JSONResponse
from starlette.types import Message, Receive, Scope, Send

from agent.errors import RetryLater
from app.jobs.types import Command, Delivery
from app.webhooks import signature
from app.webhooks.events import excerpt
from app.webhooks.policy import Ignored, Rules, decide

MAX_BODY = 25 * 1024 * 1024  # GitHub sends no larger delivery
_MAX_BUFFERED = 4 * MAX_BODY  # of all unchecked bodies together: anybody can open connections
_READ_SECONDS = 10.0  # GitHub itself gives up then
_LATE = "the body did not arrive in time"
_EVENT = re.compile(r"[a-z0-9_]{1,60}", re.ASCII)
_GUID = re.compile(r"[A-Za-z0-9-]{8,64}", re.ASCII)


class Accept(Protocol):
    """Stores a delivery with its job durably and returns the job's id. Raises ``RetryLater``."""

    async def __call__(self, delivery: Delivery, command: Command) -> str: ...


class Refused(Exception):
    """The delivery is not taken."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class WebhookEndpoint:
    """ASGI application for ``POST`` of deliveries. What it did goes into ``scope["log"]``, where there is one.

    Args:
        secret: the webhook secret.
        rules: what counts as a command.
        accept: stores a delivery that does.
    """

    def __init__(self, secret: bytes, rules: Rules, accept: Accept, *, read_seconds: float = _READ_SECONDS) -> None:
        self._secret = secret
        self._rules = rules
        self._accept = accept
        self._read_seconds = read_seconds
        self._buffered = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        # What is left of a refused body is not read: the connection has to end.
        closing: dict[str, str] | None = {"connection": "close"}
        try:
            given = _check_headers(headers)
            body = await self._read(receive)
            closing = None
            status, answer = 202, await self._take(headers, given, body)
        except Refused as refusal:
            status, answer = refusal.status, {"status": "refused", "reason": refusal.reason}
        except RetryLater as error:
            status, answer = 503, {"status": "retry", "reason": str(error)}
        scope.get("log", {}).update(delivery=headers.get("x-github-delivery", "")[:64], **answer)
        await JSONResponse(answer, status, headers=closing)(scope, receive, send)

    async def _take(self, headers: Mapping[str, str], given: str, body: bytes) -> Mapping[str, str]:
        if not signature.matches(self._secret, body, given):
            raise Refused(401, "the signature does not match: is WEBHOOK_SECRET the App's webhook secret?")
        event, delivery_id = headers.get("x-github-event", ""), headers.get("x-github-delivery", "")
        if not _EVENT.fullmatch(event) or not _GUID.fullmatch(delivery_id):
            raise Refused(400, "X-GitHub-Event or X-GitHub-Delivery is missing or malformed")
        payload = _payload(body)
        command = payload if isinstance(payload, Ignored) else decide(event, payload, self._rules)
        if isinstance(command, Ignored):
            return {"status": "ignored", "reason": command.reason}
        delivery = Delivery(id=delivery_id, event=event, excerpt=excerpt(payload))
        return {"status": "accepted", "job": await self._accept(delivery, command)}

    async def _read(self, receive: Receive) -> bytes:
        """The whole body, bounded in size, time, and memory over all requests."""
        body = bytearray()
        task = asyncio.current_task()
        assert task is not None
        # As asyncio.timeout does, which takes as long as the policy: nearly every body is here when it is asked for.
        deadline = asyncio.get_running_loop().call_later(self._read_seconds, task.cancel, _LATE)
        try:
            more = True
            while more:
                chunk, more = _chunk(await receive())
                self._buffered += len(chunk)
                body += chunk
                if len(body) > MAX_BODY:
                    raise Refused(413, f"the body is larger than {MAX_BODY} bytes")
                if self._buffered > _MAX_BUFFERED:
                    raise Refused(503, "too many large deliveries at once")
        except asyncio.CancelledError as error:
            if error.args != (_LATE,) or task.uncancel():
                raise
            raise Refused(408, _LATE) from None
        finally:
            deadline.cancel()
            self._buffered -= len(body)
        return bytes(body)


def _check_headers(headers: Mapping[str, str]) -> str:
    """The signature's digest; refuses what can be refused before a byte of the body is read."""
    given = signature.parse_header(headers.get("x-hub-signature-256"))
    if given is None:
        raise Refused(401, "X-Hub-Signature-256 is missing or malformed: set a webhook secret on the App")
    if headers.get("content-encoding", "identity") != "identity":
        raise Refused(415, "an encoded body is not accepted")
    if not headers.get("content-type", "application/json").startswith("application/json"):
        raise Refused(415, "set the webhook's content type to application/json")
    length = headers.get("content-length", "0")
    if not length.isdecimal() or int(length) > MAX_BODY:
        raise Refused(413, f"the body is larger than {MAX_BODY} bytes")
    return given


def _chunk(message: Message) -> tuple[bytes, bool]:
    if message["type"] == "http.disconnect":
        raise Refused(400, "the connection ended before the body did")
    return message.get("body", b""), message.get("more_body", False)


def _payload(body: bytes) -> object | Ignored:
    """The JSON value; or why nobody should read it."""
    try:
        return _parsed(body)
    except RecursionError:
        return Ignored("malformed payload: nested too deeply")
    except _DuplicateKey:
        return Ignored("malformed payload: a key occurs twice")
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise Refused(400, "the body is not JSON") from error
    except ValueError:
        return Ignored("malformed payload: a number is too long")


def _parsed(body: bytes) -> object:
    """What is wrong with a body, and lone surrogates, are left to the standard library: it takes twice as long."""
    try:
        return jiter.from_json(body, catch_duplicate_keys=True, allow_inf_nan=False)
    except ValueError:
        return json.loads(body.decode(), object_pairs_hook=_no_duplicates, parse_constant=_no_constant)


class _DuplicateKey(Exception):
    """Two readers of one JSON text could disagree about it."""


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise _DuplicateKey
    return result


def _no_constant(name: str) -> NoReturn:
    raise json.JSONDecodeError(f"{name} is not JSON", name, 0)
