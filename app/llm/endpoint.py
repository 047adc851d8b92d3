"""The routes ``/llm/v1/…``: a run's token in, one fixed provider behind, every call checked and counted.

The provider's address, key and models come from the server's settings alone; nothing in a request can change them.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from agent.budget import BudgetReached
from agent.model import faults, wire
from agent.model.stream import ServerSentEvents
from agent.model.tokens import estimate_tokens
from agent.types import CallUsage, ModelEndpoint
from app.llm import requests
from app.llm.ledger import Ledger, Runs
from app.llm.provider import Answer, Limits, Provider
from app.llm.requests import Refused
from app.llm.run_tokens import TokenRefused, check_secret, verify_token

_DONE = b"data: [DONE]"


@dataclass(frozen=True)
class GatewayConfig:
    """Where calls go and what they may take, fixed when the server starts."""

    base_url: str
    api_key: str = field(repr=False)
    models: tuple[str, ...]
    """The names that a run may ask for."""
    token_secret: str = field(repr=False)
    embedding: ModelEndpoint | None = None
    """Where texts are embedded, and the one model that a run may ask for."""
    limits: Limits = field(default_factory=Limits)
    in_flight: int = 4
    """Calls of one run at a time. What they have not reported yet is what it can spend beyond its budget."""


class Gateway:
    """Passes the calls of running runs on to the provider.

    Raises:
        OperatorError: the provider's address or the token secret can't be used.
    """

    def __init__(self, config: GatewayConfig, runs: Runs, ledger: Ledger) -> None:
        check_secret(config.token_secret)
        self._config = config
        self._runs = runs
        self._ledger = ledger
        self._provider = Provider(config.base_url, config.api_key, config.limits)
        embedding = config.embedding
        self._embedder = Provider(embedding.base_url, embedding.api_key, config.limits) if embedding else None
        self._under_way: Counter[str] = Counter()

    async def aclose(self) -> None:
        """Close the connections to the provider."""
        await self._provider.aclose()
        if self._embedder:
            await self._embedder.aclose()

    async def models(self, request: Request) -> Response:
        """GET: the models that runs may use."""
        try:
            await self._run_of(request)
        except Refused as refusal:
            return _refusal(refusal)
        listed = [
            {"id": name, "object": "model", "created": 0, "owned_by": "graftsmith"} for name in self._config.models
        ]
        return JSONResponse({"object": "list", "data": listed})

    async def completions(self, request: Request) -> Response:
        """POST: one completion, streamed or whole."""
        try:
            run_id = await self._run_of(request)
            data = await _read(request, self._config.limits.body_bytes)
            body = requests.parse(data, self._config.models)
            call = self._entered(run_id, body)
            # Five bytes a token is fewer tokens than any text has: only what surely can't be paid is refused here.
            return await _while_listening(request, self._answered(call, len(data) // 5))
        except Refused as refusal:
            return _refusal(refusal)

    @property
    def embeds(self) -> bool:
        """Whether runs can have texts embedded here."""
        return self._embedder is not None

    async def embeddings(self, request: Request) -> Response:
        """POST: the vectors of some texts. Costs the run money, and none of its tokens or steps."""
        assert self._config.embedding and self._embedder, "the route is only there where it is configured"
        try:
            run_id = await self._run_of(request)
            data = await _read(request, self._config.limits.body_bytes)
            body = requests.parse_embedding(data, self._config.embedding.model)
            return await _while_listening(request, self._embedded(self._entered(run_id, body), self._embedder))
        except Refused as refusal:
            return _refusal(refusal)

    async def _embedded(self, call: _Call, embedder: Provider) -> Response:
        try:
            await call.admit(0)
            answer = await embedder.embed(call.body)
            reply = faults.decoded((await answer.read(self._config.limits.reply_bytes)).decode("utf-8", "replace"))
            await call.settle_texts(reply)
        finally:
            call.abandon()
        if not isinstance(reply, dict):
            raise Refused("the provider's answer is no JSON", status=502, code="provider_reply_unreadable")
        return JSONResponse(reply)

    async def _run_of(self, request: Request) -> str:
        """The run that the request's token speaks for."""
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        try:
            if kind.lower() != "bearer":
                raise TokenRefused("no run token was sent")
            run_id = verify_token(self._config.token_secret, token.strip()).run_id
            if not await self._runs.running(run_id):
                raise TokenRefused("the run of this token is not under way")
        except TokenRefused as refusal:
            raise Refused(refusal.what, status=401, code="run_token_refused") from None
        return run_id

    def _entered(self, run_id: str, body: dict[str, Any]) -> _Call:
        # Looked at and counted without a pause between, so that calls at the same moment can't all pass.
        if self._under_way[run_id] >= self._config.in_flight:
            raise Refused(
                "this run has too many calls under way",
                status=429,
                code="too_many_calls",
                headers={"retry-after": "1"},
            )
        return _Call(run_id, body, self._ledger, self._under_way)

    async def _answered(self, call: _Call, tokens: int) -> Response:
        try:
            await call.admit(tokens)
            answer = await self._provider.open(call.body)
            if answer.streaming:
                return _Streamed(call, answer)
            return JSONResponse(await _whole(call, answer, self._config.limits.reply_bytes))
        except BaseException:
            call.abandon()
            raise


class _Call:
    """One call under way: counted from here on, and charged once, whatever becomes of it."""

    def __init__(self, run_id: str, body: Mapping[str, Any], ledger: Ledger, under_way: Counter[str]) -> None:
        self.body = body
        self.assembly = wire.Assembly()
        self._run_id = run_id
        self._ledger = ledger
        self._under_way = under_way
        self._open = True
        under_way[run_id] += 1

    async def admit(self, tokens: int) -> None:
        try:
            await self._ledger.admit(self._run_id, tokens)
        except BudgetReached as reached:
            # 403 and not 429: waiting does not help, and no client repeats it.
            raise Refused(str(reached), status=403, code=faults.BUDGET_CODE) from None

    def abandon(self) -> None:
        """The provider did not begin to answer, or the call is charged already."""
        if self._open:
            self._open = False
            self._under_way[self._run_id] -= 1
            if not self._under_way[self._run_id]:
                del self._under_way[self._run_id]

    async def settle(self) -> None:
        """Charge what came so far. Shielded: a run that hangs up has still used what it was sent."""
        if not self._open:
            return
        with anyio.CancelScope(shield=True):
            try:
                usage = await anyio.to_thread.run_sync(
                    self.assembly.usage, self.body, self.body["model"], estimate_tokens
                )
                await self._ledger.record(self._run_id, usage)
            finally:
                self.abandon()

    async def settle_texts(self, reply: object) -> None:
        """Charge texts that were embedded: what the provider says they were, else our estimate."""
        usage = reply.get("usage") if isinstance(reply, dict) else None
        told = usage.get("prompt_tokens") if isinstance(usage, dict) else None
        counted = isinstance(told, int) and told > 0
        with anyio.CancelScope(shield=True):
            tokens = int(told or 0) if counted else await anyio.to_thread.run_sync(_tokens, self.body["input"])
            charged = CallUsage(model=self.body["model"], input_tokens=tokens, estimated=not counted, embedding=True)
            await self._ledger.record(self._run_id, charged)


def _tokens(texts: Sequence[str]) -> int:
    return sum(map(estimate_tokens, texts))


async def _whole(call: _Call, answer: Answer, most: int) -> dict[str, Any]:
    try:
        reply = faults.decoded((await answer.read(most)).decode("utf-8", "replace"))
        if not isinstance(reply, dict):
            said = faults.excerpt(reply)
            raise Refused(f"the provider's answer is no JSON: {said}", status=502, code="provider_reply_unreadable")
        call.assembly.feed(reply)
        return reply
    finally:
        await call.settle()


class _Streamed(StreamingResponse):
    """Passes a stream on line by line, and settles the call also when nobody reads it to its end."""

    def __init__(self, call: _Call, answer: Answer) -> None:
        super().__init__(self._passed_on(), media_type="text/event-stream")
        self._call = call
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            with anyio.CancelScope(shield=True):
                await self._answer.close()
            await self._call.settle()

    async def _passed_on(self) -> AsyncIterator[bytes]:
        events, last = ServerSentEvents(), b""
        try:
            async for line in self._answer.lines():
                if line.strip() == _DONE:
                    last = _DONE + b"\n\n"
                    break
                _look(self._call.assembly, events, line)
                yield line
        except Refused as refusal:
            # The status is long sent: the error goes into the stream, where clients look for it.
            error = refusal.error | {"code": refusal.status}
            last = b"data: " + json.dumps({"error": error}).encode() + b"\n\n"
        # Before the end is told, so that a run's next call is checked against the usage of this one.
        await self._call.settle()
        yield last


def _look(assembly: wire.Assembly, events: ServerSentEvents, line: bytes) -> None:
    data = events.feed(line.decode("utf-8", "replace").rstrip("\r\n"))
    payload = faults.decoded(data) if data else None
    if isinstance(payload, dict):
        assembly.feed(payload)


async def _while_listening(request: Request, work: Coroutine[Any, Any, Response]) -> Response:
    """The result of ``work``, which is given up when the run hangs up: nobody would read it, and it holds a place."""

    async def gone() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    tasks = (asyncio.ensure_future(work), asyncio.ensure_future(gone()))
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if tasks[0].done():
            return tasks[0].result()
        raise Refused("the run has hung up", status=499, code="hung_up")
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _read(request: Request, most: int) -> bytes:
    """The body, never more than ``most`` bytes of it."""
    too_large = Refused("the request is too large", status=413, code="request_too_large")
    if request.headers.get("content-encoding", "identity") != "identity":
        raise Refused("a compressed body is not accepted", status=415, code="encoding_not_allowed")
    length = request.headers.get("content-length", "0")
    if length.isdecimal() and int(length[:20]) > most:
        raise too_large
    data = bytearray()
    async for piece in request.stream():
        data += piece
        if len(data) > most:
            raise too_large
    return bytes(data)


def _refusal(refusal: Refused) -> Response:
    headers = dict(refusal.headers)
    if refusal.status == 401:
        headers["www-authenticate"] = "Bearer"
    return JSONResponse({"error": refusal.error}, status_code=refusal.status, headers=headers)


def routes(gateway: Gateway) -> Sequence[Route]:
    """To mount at the root of the server."""
    embeddings = [Route("/llm/v1/embeddings", gateway.embeddings, methods=["POST"])] if gateway.embeds else []
    return (
        Route("/llm/v1/chat/completions", gateway.completions, methods=["POST"]),
        Route("/llm/v1/models", gateway.models, methods=["GET"]),
        *embeddings,
    )
