"""The client of an OpenAI-compatible endpoint: streaming, retries by error class, a second model to fall back on."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from functools import lru_cache

from tenacity import RetryCallState, Retrying, retry_if_exception

from agent.budget import Meter
from agent.errors import GraftsmithError, RetryLater
from agent.events import Events
from agent.model import pump, wire
from agent.model.errors import Recovery, TimedOut, rule_for
from agent.model.link import USUAL_LIMITS, CallLimits, Link
from agent.model.recorded import CallLog, OpenCall
from agent.model.tokens import estimate_tokens
from agent.model.types import JsonSchema, Message, OnText, Reply, ToolSpec
from agent.types import CallUsage, ModelEndpoint, RunSpec
from sandbox.closing import Closing

RESTARTED = "\n[the reply broke off and begins again]\n"
"""What ``on_text`` gets when text was shown and the call had to be repeated."""


class ModelClient(Closing):
    """Completes conversations at an endpoint, within a budget, writing each call into the run's log.

    One call at a time; not for several threads.

    Args:
        endpoint: where to ask first.
        fallback: a second model for the errors whose row says so; once taken it is kept.
        meter: checked before each call, told of each.
        events: gets one ``model_call`` a call, also when it failed.
        cancelled: looked at several times a second; when it says yes the call ends with ``CallCancelled``.
    """

    def __init__(
        self,
        endpoint: ModelEndpoint,
        *,
        fallback: ModelEndpoint | None = None,
        meter: Meter | None = None,
        events: Events | None = None,
        cancelled: Callable[[], bool] = pump.never,
        limits: CallLimits = USUAL_LIMITS,
    ) -> None:
        # History is append-only: the same texts are counted again for every call.
        self._count = lru_cache(4096)(estimate_tokens)
        self._links = [Link(e, limits, self._count) for e in (endpoint, fallback) if e is not None]
        self._meter = meter
        self._cancelled = cancelled
        self._limits = limits
        self._log = CallLog(events)

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
