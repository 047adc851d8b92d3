"""One OpenAI-compatible endpoint: its connection, its dialect, and its failures as our errors."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import urlsplit

import httpx
import openai

from agent.errors import GraftsmithError, OperatorError
from agent.model import faults, pump, stream, wire
from agent.model.errors import MalformedReply, StreamBroken, TimedOut, Unreachable, Unsupported
from agent.model.recorded import OpenCall
from agent.model.tokens import Counter
from agent.model.types import OnText, Reply
from agent.outside import proxy_for, tls
from agent.types import ModelEndpoint

IDLE_REPLIES = 2
"""Replies without a tool call, from the first one on, after which an endpoint counts as one that drops ``tools``."""


@dataclass(frozen=True)
class CallLimits:
    """Bounds of one call; seconds and bytes."""

    connect_s: float = 10.0
    read_s: float = 180.0
    """Silence on the connection. Reasoning models and local ones on a CPU are silent for minutes."""
    total_s: float = 900.0
    """One ``complete``, with all its tries and pauses."""
    pause_s: float = 1.0
    """Before the second try; doubles with each, with jitter."""
    longest_pause_s: float = 60.0
    reply_bytes: int = 32 * 1024 * 1024


USUAL_LIMITS = CallLimits()


class Link:
    """One endpoint and what we have learnt about it.

    Raises:
        OperatorError: the address or the key can't be used at all.
    """

    def __init__(self, endpoint: ModelEndpoint, limits: CallLimits, count: Counter) -> None:
        _check_endpoint(endpoint)
        self.endpoint = endpoint
        self._limits = limits
        self._count = count
        self._dialect = wire.Dialect()
        self._idle = 0
        timeout = httpx.Timeout(limits.read_s, connect=limits.connect_s)
        # Redirects are not followed: the key would go wherever the answer points.
        self._http = httpx.Client(
            timeout=timeout,
            follow_redirects=False,
            verify=tls(),
            proxy=proxy_for(endpoint.base_url),
            trust_env=False,
        )
        self._openai = openai.OpenAI(
            api_key=endpoint.api_key or "none",
            base_url=endpoint.base_url,
            max_retries=0,
            # The openai client takes either httpx; with ours, the errors of a broken stream are ours to name.
            http_client=cast(Any, self._http),
            timeout=cast(Any, timeout),
        )

    def ask(self, request: wire.Request, call: OpenCall, on_text: OnText, watch: pump.Watch) -> Reply:
        """One try. A parameter that is refused is dropped, remembered, and the request sent again."""
        while True:
            body = wire.parameters(request, self._dialect, self.endpoint.model)
            try:
                reply = self._once(request, body, call, on_text, watch)
                self._learn(request, body, reply, call)
                return reply
            except Unsupported as refusal:
                call.attempts.append(str(refusal))
                simpler = self._dialect.without(refusal.parameter)
                if simpler == self._dialect:
                    raise
                self._dialect = simpler
            except GraftsmithError as error:
                call.attempts.append(str(error))
                raise

    def _learn(self, request: wire.Request, body: Mapping[str, Any], reply: Reply, call: OpenCall) -> None:
        """Some endpoints take ``tools`` and drop them: where none is ever called, actions in text are asked for."""
        if "tools" not in body or request.schema is not None or self._idle < 0:
            return
        self._idle = -1 if reply.tool_calls else self._idle + reply.whole
        if self._idle == IDLE_REPLIES:
            call.attempts.append("no tool was ever called; from now on they are offered in text")
            self._dialect = self._dialect.without("tools")

    def _once(
        self, request: wire.Request, body: dict[str, Any], call: OpenCall, on_text: OnText, watch: pump.Watch
    ) -> Reply:
        assembly, retries = wire.Assembly(), len(call.attempts)
        try:
            for payload in pump.pumped(lambda: self._exchange(body, retries), watch):
                if isinstance(payload, str):
                    assembly.done()
                    break
                if payload.get("error"):
                    raise faults.from_payload(payload["error"], sent=_sent(body), secrets=self._secrets)
                shown = assembly.feed(payload)
                if shown:
                    on_text(shown)
            return assembly.reply(request, body, self.endpoint.model, self._count)
        except GraftsmithError as error:
            if isinstance(error, StreamBroken) and assembly.finished:
                return assembly.reply(request, body, self.endpoint.model, self._count)
            if assembly.begun:
                call.lost.append(assembly.usage(body, self.endpoint.model, self._count))
            raise

    def _exchange(self, body: dict[str, Any], retries: int) -> Generator[Mapping[str, Any] | str]:
        """Send, and yield the payloads of the answer; every failure leaves as one of our errors."""
        started = False
        try:
            with self._openai.chat.completions.with_streaming_response.create(
                **body, extra_headers={"x-stainless-retry-count": str(retries)}
            ) as response:
                kind = response.headers.get("content-type", "")
                for payload in stream.payloads(response.iter_bytes(), kind, self._limits.reply_bytes):
                    yield payload
                    started = True
        except openai.APIStatusError as error:
            raise faults.from_status(
                error.status_code,
                faults.decoded(error.response.text),
                error.response.headers,
                sent=_sent(body),
                secrets=self._secrets,
            ) from None
        except (openai.APITimeoutError, httpx.TimeoutException) as error:
            raise TimedOut("the model endpoint was silent for too long", why=type(error).__name__) from None
        except (openai.OpenAIError, httpx.HTTPError, httpx.InvalidURL) as error:
            # The request hangs on the exception and its headers hold the key: only the text of the cause goes on.
            why = faults.excerpt(str(error.__cause__ or error), self._secrets)
            if started:
                raise StreamBroken("the reply stopped midway", why=why) from None
            raise Unreachable(
                "the model endpoint can't be reached", why=why, todo="Check OPENAI_BASE_URL and the network"
            ) from None
        except MalformedReply as error:
            why = f"HTTP 200: {error.why or 'an empty body'}"
            raise MalformedReply(error.what, why=faults.excerpt(why, self._secrets), todo=error.todo) from None

    @property
    def _secrets(self) -> tuple[str, ...]:
        return (self.endpoint.api_key,)

    def close(self) -> None:
        self._http.close()


def _check_endpoint(endpoint: ModelEndpoint) -> None:
    address = urlsplit(endpoint.base_url)
    if address.scheme not in ("http", "https") or not address.hostname:
        raise OperatorError(
            f"the model endpoint {endpoint.base_url!r} is no web address",
            todo="Set OPENAI_BASE_URL to something like https://api.openai.com/v1",
        )
    # The HTTP library would put the key into the message of its own error.
    if not endpoint.api_key.isascii() or not endpoint.api_key.isprintable():
        raise OperatorError(
            "the model key can't be sent", why="it holds signs other than plain ASCII", todo="Check OPENAI_API_KEY"
        )


def _sent(body: Mapping[str, Any]) -> set[str]:
    return {name for name in ("tools", "response_format", "stream_options", "stream", "max_tokens") if name in body}
