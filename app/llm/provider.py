"""The real model provider behind our endpoint: one fixed address, its key, and bounds on whatever it answers."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import httpx

from agent.errors import OperatorError
from agent.model import faults
from agent.outside import proxy_for, tls
from agent.secrets import LEAST, REDACTED
from app.llm import requests
from app.llm.requests import Refused

log = logging.getLogger(__name__)

_ERROR_BYTES = 64 * 1024
_WAIT_HEADERS = ("retry-after", "retry-after-ms")


@dataclass(frozen=True)
class Limits:
    """Bounds of one call; bytes, seconds, tokens."""

    body_bytes: int = 16 * 1024 * 1024
    reply_bytes: int = 32 * 1024 * 1024
    line_bytes: int = 4 * 1024 * 1024
    """One event of a stream."""
    output_tokens: int = 32_768
    connect_s: float = 10.0
    idle_s: float = 180.0
    total_s: float = 900.0


class Provider:
    """Sends completions and texts to embed to ``base_url``.

    Raises:
        OperatorError: the address is no web address, or can't be reached as this machine is told to reach it.
    """

    def __init__(self, base_url: str, api_key: str, limits: Limits) -> None:
        address = urlsplit(base_url)
        if address.scheme not in ("http", "https") or not address.hostname:
            raise OperatorError(
                f"the model provider {base_url!r} is no web address",
                todo="Set OPENAI_BASE_URL to something like https://api.openai.com/v1",
            )
        self._url = base_url.rstrip("/")
        self._key = api_key
        self._limits = limits
        self._limit_name = requests.LIMIT_NAMES[0]
        timeout = httpx.Timeout(limits.idle_s, connect=limits.connect_s)
        # A redirect would carry the key, or the conversation, wherever the answer points.
        self._http = httpx.AsyncClient(
            timeout=timeout, follow_redirects=False, verify=tls(), proxy=proxy_for(base_url), trust_env=False
        )

    async def aclose(self) -> None:
        await self._http.aclose()

    async def open(self, body: Mapping[str, Any]) -> Answer:
        """The beginning of a successful answer.

        Raises:
            Refused: it failed, in whatever way; the reason is free of the key.
        """
        limited = requests.limited(body, self._limits.output_tokens, self._limit_name)
        answer = await self._post("/chat/completions", limited)
        if answer.status < 300:
            return answer
        said = faults.decoded((await answer.read(_ERROR_BYTES, cut=True)).decode("utf-8", "replace"))
        wanted = next(name for name in requests.LIMIT_NAMES if name != self._limit_name)
        if answer.status == 400 and wanted in faults.excerpt(said):
            # Newer models take only the newer name. Learnt once; runs never see the difference.
            self._limit_name = wanted
            return await self.open(body)
        raise self._failure(answer, said)

    async def embed(self, body: Mapping[str, Any]) -> Answer:
        """The beginning of a successful answer to a request for vectors.

        Raises:
            Refused: as ``open``.
        """
        answer = await self._post("/embeddings", body)
        if answer.status < 300:
            return answer
        said = (await answer.read(_ERROR_BYTES, cut=True)).decode("utf-8", "replace")
        raise self._failure(answer, faults.decoded(said))

    async def _post(self, path: str, body: Mapping[str, Any]) -> Answer:
        deadline = time.monotonic() + self._limits.total_s
        content = json.dumps(body)
        headers = {"authorization": f"Bearer {self._key}", "content-type": "application/json"}
        request = self._http.build_request("POST", self._url + path, content=content, headers=headers)
        with _named():
            async with asyncio.timeout(deadline - time.monotonic()):
                response = await self._http.send(request, stream=True)
        return Answer(response, self._key, self._limits, deadline)

    def _failure(self, answer: Answer, body: object) -> Refused:
        """What the run is told. What only the operator can mend gets a status that nobody repeats."""
        said = faults.excerpt(body, (self._key,))
        log.warning("the model provider answered HTTP %s: %s", answer.status, said)
        if answer.status in (401, 403):
            return Refused("the provider refused the server's key", status=403, code="provider_key_refused")
        if answer.status < 400:
            return Refused("the provider redirects, which is not followed", status=501, code="provider_redirects")
        error = body.get("error") if isinstance(body, Mapping) else None
        detail = error if isinstance(error, Mapping) else {}
        return Refused(
            said or f"HTTP {answer.status}",
            status=answer.status,
            code=faults.excerpt(str(detail.get("code") or detail.get("type") or "provider_error"), (self._key,)),
            param=faults.excerpt(str(detail.get("param") or ""), (self._key,)),
            headers={name: answer.headers[name] for name in _WAIT_HEADERS if name in answer.headers},
        )


@dataclass(frozen=True)
class Answer:
    """One answer under way: its bytes come bounded in size and time, and without the key."""

    _response: httpx.Response
    _key: str = field(repr=False)
    _limits: Limits
    _deadline: float

    @property
    def status(self) -> int:
        return self._response.status_code

    @property
    def headers(self) -> Mapping[str, str]:
        return self._response.headers

    @property
    def streaming(self) -> bool:
        return "event-stream" in self.headers.get("content-type", "")

    async def close(self) -> None:
        await self._response.aclose()

    async def read(self, most: int, *, cut: bool = False) -> bytes:
        """The whole body, then closed. With ``cut`` a longer one ends at ``most`` bytes.

        Raises:
            Refused: it is longer, or breaks off, or takes too long.
        """
        data = bytearray()
        try:
            async for piece in self._pieces():
                data += piece
                if len(data) > most:
                    if cut:
                        break
                    raise Refused("the provider sent too much", status=502, code="provider_reply_too_large")
        finally:
            await self.close()
        return self._redacted(bytes(data[:most]))

    async def lines(self) -> AsyncIterator[bytes]:
        """The body line by line, each with its end.

        Raises:
            Refused: as ``read``.
        """
        rest, total = bytearray(), 0
        async for piece in self._pieces():
            total += len(piece)
            rest += piece
            lines: list[bytearray] = []
            if b"\n" in piece:
                *lines, rest = rest.split(b"\n")
            if total > self._limits.reply_bytes or len(rest) > self._limits.line_bytes:
                raise Refused("the provider sent too much", status=502, code="provider_reply_too_large")
            for line in lines:
                yield self._redacted(bytes(line) + b"\n")
        if rest:
            yield self._redacted(bytes(rest))

    async def _pieces(self) -> AsyncIterator[bytes]:
        pieces = self._response.aiter_bytes()
        while True:
            with _named():
                # Around each step: a trickle keeps every single read short and the call long.
                async with asyncio.timeout(self._deadline - time.monotonic()):
                    piece = await anext(pieces, None)
            if piece is None:
                return
            yield piece

    def _redacted(self, data: bytes) -> bytes:
        if len(self._key) < LEAST:
            return data
        return data.replace(self._key.encode(), REDACTED.encode())


@contextmanager
def _named() -> Iterator[None]:
    """A failed connection as a refusal. The library's exceptions hold the request with its key: none leaves."""
    try:
        yield
    except (TimeoutError, httpx.TimeoutException):
        raise Refused("the provider took too long", status=504, code="provider_timeout") from None
    except (httpx.HTTPError, httpx.StreamError) as error:
        log.warning("the model provider can't be reached: %s", type(error).__name__)
        raise Refused("the provider can't be reached", status=502, code="provider_unreachable") from None
