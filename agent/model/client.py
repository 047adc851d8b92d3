"""The client of an OpenAI-compatible endpoint: streaming, retries by error class, a second model to fall back on."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast
from urllib.parse import urlsplit

import httpx
import openai
from tenacity import RetryCallState, Retrying, retry_if_exception

from agent.budget import Meter
from agent.errors import GraftsmithError, OperatorError, RetryLater
from agent.events import Events
from agent.model import faults, pump, wire
from agent.model.errors import MalformedReply, Recovery, StreamBroken, TimedOut, Unreachable, Unsupported, rule_for
from agent.model.recorded import CallLog, OpenCall
from agent.model.tokens import Counter, estimate_tokens
from agent.model.types import CallUsage, JsonSchema, Message, OnText, Reply, ToolSpec
from agent.outside import proxy_for, tls
from agent.types import ModelEndpoint, RunSpec

RESTARTED = "\n[the reply broke off and begins again]\n"
"""What ``on_text`` gets when text was shown and the call had to be repeated."""


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
                for payload in wire.payloads(response.iter_bytes(), kind, self._limits.reply_bytes):
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
            raise MalformedReply(error.what, why=faults.excerpt(why, self._secrets)) from None

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


class ModelClient:
    """Completes conversations at an endpoint, within a budget, writing each call into the run's log.

    One call at a time; not for several threads.

    Args:
        endpoint: where to ask first.
        fallback: a second model for the errors whose row says so; once taken it is kept.
        meter: checked before each call, told of each.
        events: gets one ``model_call`` a call, also when it failed.
        cancelled: looked at several times a second; when it says yes the call ends with ``CallCancelled``.
        count: tokens of a text, for replies without usage.
    """

    def __init__(
        self,
        endpoint: ModelEndpoint,
        *,
        fallback: ModelEndpoint | None = None,
        meter: Meter | None = None,
        events: Events | None = None,
        cancelled: Callable[[], bool] = pump.never,
        limits: CallLimits = CallLimits(),  # frozen
        count: Counter = estimate_tokens,
    ) -> None:
        # History is append-only: the same texts are counted again for every call.
        self._count = lru_cache(4096)(count)
        self._links = [Link(e, limits, self._count) for e in (endpoint, fallback) if e is not None]
        self._meter = meter
        self._cancelled = cancelled
        self._limits = limits
        self._log = CallLog(events)

    def __enter__(self) -> ModelClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for link in self._links:
            link.close()

    def complete(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[ToolSpec] = (),
        schema: JsonSchema | None = None,
        max_output_tokens: int | None = None,
        on_text: OnText | None = None,
    ) -> Reply:
        """See ``Model.complete``. ``on_text`` gets ``RESTARTED`` when a call is repeated after text was shown."""
        request = wire.Request(tuple(messages), tuple(tools), schema, max_output_tokens)
        model = self._links[0].endpoint.model
        if self._meter:
            self._meter.check(wire.input_tokens(wire.parameters(request, wire.Dialect(), model), self._count))
        call = self._log.begin(request, model)
        try:
            reply = self._answered(request, call, _Shown(on_text))
        except GraftsmithError as error:
            self._charge(call.lost)
            call.failed(error)
            raise
        self._charge([*call.lost, reply.usage])
        call.answered(reply)
        return reply

    def _charge(self, usages: Sequence[CallUsage]) -> None:
        if self._meter:
            for usage in usages:
                self._meter.record(usage)

    def _answered(self, request: wire.Request, call: OpenCall, shown: _Shown) -> Reply:
        watch = pump.Watch(self._cancelled, time.monotonic() + self._seconds())
        while True:
            try:
                return self._retried(request, call, shown, watch)
            except GraftsmithError as error:
                if isinstance(error, TimedOut) and self._meter:
                    self._meter.check()
                rule = rule_for(error)
                if Recovery.FALL_BACK not in (rule.first, rule.after) or len(self._links) < 2:
                    raise
                self._links.pop(0).close()
                call.model = self._links[0].endpoint.model
                call.attempts.append(f"going on with {call.model}")

    def _seconds(self) -> float:
        left = self._meter.seconds_left if self._meter else None
        return self._limits.total_s if left is None else min(left, self._limits.total_s)

    def _retried(self, request: wire.Request, call: OpenCall, shown: _Shown, watch: pump.Watch) -> Reply:
        def attempt() -> Reply:
            shown.begin()
            return self._links[0].ask(request, call, shown, watch)

        def stop(state: RetryCallState) -> bool:
            late = time.monotonic() + state.upcoming_sleep >= watch.deadline
            return late or state.attempt_number >= rule_for(_error(state)).tries

        return Retrying(
            retry=retry_if_exception(lambda error: rule_for(error).first is Recovery.RETRY),
            wait=lambda state: pause(_error(state), state.attempt_number, self._limits, random.random()),  # noqa: S311
            stop=stop,
            sleep=watch.sleep,
            reraise=True,
        )(attempt)


def for_run(spec: RunSpec, meter: Meter, events: Events, cancelled: Callable[[], bool]) -> ModelClient:
    """The model that ``spec`` names, with the second one behind it."""
    return ModelClient(spec.model, fallback=spec.fallback, meter=meter, events=events, cancelled=cancelled)


def pause(error: BaseException, attempt: int, limits: CallLimits, chance: float) -> float:
    """Seconds before the next try: what the other side asked for, but never less than our own growing pause.

    Args:
        attempt: number of the failed try, from 1.
        chance: 0 to 1; takes up to half off our own pause, so that many runs don't come back at once.
    """
    own = min(limits.longest_pause_s, limits.pause_s * 2.0 ** (attempt - 1)) * (1 - chance / 2)
    asked = error.after_s if isinstance(error, RetryLater) else None
    return max(asked or 0.0, own)


def _error(state: RetryCallState) -> BaseException:
    error = state.outcome.exception() if state.outcome else None
    assert error is not None, "only failures are retried"
    return error


class _Shown:
    """Hands visible text on, and says so when a new try begins after some was shown."""

    def __init__(self, on_text: OnText | None) -> None:
        self._on_text = on_text
        self._dirty = False

    def begin(self) -> None:
        if self._dirty and self._on_text:
            self._on_text(RESTARTED)
        self._dirty = False

    def __call__(self, piece: str) -> None:
        if self._on_text:
            self._dirty = True
            self._on_text(piece)
