"""Turning what an endpoint answered into one of our errors: pure, and never with a key or a header in the text."""

from __future__ import annotations

import html
import json
import re
import time
import unicodedata
from collections.abc import Collection, Container, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

from agent.errors import GraftsmithError, RetryLater
from agent.model import errors
from agent.secrets import redact

EXCERPT = 300
MAX_WAIT_S = 3600.0
BUDGET_CODE = "budget_reached"
"""The error code of our own endpoint when a run's budget is spent."""


def excerpt(body: object, secrets: Collection[str] = ()) -> str:
    """A short clean line out of an error body: no markup, no control signs, no secret."""
    text = redact(body if isinstance(body, str) else _message_of(body), secrets)
    if "<" in text:
        text = re.sub(r"(?is)<(script|style|head)\b.*?(</\1>|$)", " ", text[:20_000])
        text = html.unescape(re.sub(r"<[^>]*>", " ", text))
    text = "".join(" " if unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp", "Cs") else c for c in text[:20_000])
    text = " ".join(text.split())
    return text if len(text) <= EXCERPT else text[: EXCERPT - 1] + "…"


def _message_of(body: object) -> str:
    match body:
        case None:
            return ""
        case {"error": inner}:
            return _message_of(inner)
        case {"message": str(message)}:
            return message
        case {"detail": detail}:
            return _message_of(detail)
        case str():
            return body
        case _:
            return json.dumps(body, ensure_ascii=False, default=str)


@dataclass(frozen=True)
class _Case:
    """One way to fail: the statuses that mean it, and the words that mean it whatever the status (bar ``unless``)."""

    error: type[GraftsmithError]
    what: str
    todo: str = ""
    statuses: Container[int] = ()
    words: tuple[str, ...] = ()
    unless: Container[int] = ()

    def fits(self, status: int, text: str) -> bool:
        return status in self.statuses or (status not in self.unless and any(word in text for word in self.words))


_PLAIN = frozenset({501, 505})
_FAILING = frozenset({408, 409, 425, *range(500, 600)} - _PLAIN)

# The first one that fits; a refused parameter is looked for between the two tuples.
_BEFORE = (
    _Case(errors.BudgetReached, "the run's budget is reached", "Retry with a larger budget", words=(BUDGET_CODE,)),
    _Case(
        errors.ContentRefused,
        "the provider's filter refused the task",
        "Rephrase the task",
        words=("content_filter", "content filter", "content_policy", "content management policy"),
    ),
    _Case(
        errors.MalformedReply,
        "the endpoint could not read the model's own tool call",
        words=("tool_use_failed", "failed to parse tool call", "failed to call a function"),
    ),
    _Case(
        errors.QuotaExhausted,
        "the model account has no credit left",
        "Top up the provider account",
        statuses=(402,),
        words=("insufficient_quota", "exceeded your current quota", "credit balance", "insufficient credit", "billing"),
        unless=(401,),
    ),
    _Case(
        errors.KeyRefused,
        "the model endpoint refused the key",
        "Check OPENAI_API_KEY and its rights",
        statuses=(401, 403),
    ),
)
_AFTER = (
    _Case(
        errors.ContextTooLong,
        "the conversation is longer than the model's window",
        "Use a model with a larger window",
        statuses=(413,),
        words=(
            "context_length",
            "context length",
            "context window",
            "context size",
            "context_size",
            "maximum context",
            "too many tokens",
            "prompt is too long",
            "input is too long",
            "reduce the length",
        ),
        unless=(429,),
    ),
    _Case(
        errors.RateLimited,
        "the model endpoint limits the rate",
        statuses=(429,),
        words=("rate_limit", "rate limit", "too many requests"),
    ),
    _Case(
        errors.ModelMissing,
        "the endpoint does not know this model or path",
        "Check OPENAI_MODEL, and that OPENAI_BASE_URL ends in the version, mostly /v1",
        statuses=(404,),
        words=("model_not_found", "model not found"),
    ),
    _Case(
        errors.Overloaded,
        "the model endpoint failed",
        "Try again later",
        statuses=_FAILING,
        words=("overloaded", "server_error", "internal error", "temporarily", "try again"),
    ),
    _Case(
        errors.RequestRefused,
        "the model endpoint redirects",
        "Set OPENAI_BASE_URL to the address that it redirects to",
        statuses=range(300, 400),
    ),
)
_ELSE = _Case(errors.RequestRefused, "the model endpoint refused the request")


def from_status(
    status: int,
    body: object,
    headers: Mapping[str, str],
    *,
    sent: Collection[str] = (),
    secrets: Collection[str] = (),
    now: float | None = None,
    came_as: str = "",
) -> GraftsmithError:
    """The error for an HTTP status, or for an error object inside a success.

    Args:
        status: the HTTP status, or the number that an error object carries.
        body: the decoded JSON, or the text when it is none.
        headers: of the response; only the ones that say how long to wait are read.
        sent: optional parameters of the request, so that a refusal of one is recognised.
        secrets: values that must not occur in the message.
        now: seconds since the epoch, for dates in Retry-After.
        came_as: what a person is told of where it stood; the status when not given.
    """
    said = excerpt(body, secrets)
    why = (came_as or f"HTTP {status}") + (f": {said}" if said else "")
    text = f"{_code_of(body)} {said}".lower()
    # Into "not implemented" nothing is read: the text may quote the conversation.
    case = _ELSE if status in _PLAIN else next((case for case in _BEFORE if case.fits(status, text)), None)
    parameter = "" if case else refused_parameter(status, body, text, sent)
    if parameter:
        return errors.Unsupported(f"the endpoint does not accept `{parameter}`", parameter=parameter, why=why)
    case = case or next((case for case in _AFTER if case.fits(status, text)), _ELSE)
    if issubclass(case.error, RetryLater):
        wait = retry_after(headers, said, body, time.time() if now is None else now)
        return case.error(case.what, why=why, todo=case.todo, after_s=wait)
    return case.error(case.what, why=why, todo=case.todo)


def from_payload(error: object, *, sent: Collection[str] = (), secrets: Collection[str] = ()) -> GraftsmithError:
    """The error for an error object inside a successful response or stream."""
    code = error.get("code", error.get("status")) if isinstance(error, Mapping) else None
    try:
        status = int(str(code))
    except ValueError:
        status = 0
    if not 300 <= status < 600:
        # Nothing says whose fault it is. A request that was accepted and then failed is worth another try.
        status = 400 if "invalid" in f"{code} {_type_of(error)}".lower() else 500
    named = excerpt(str(code), secrets) if code else ""
    came_as = f"HTTP 200 with the error {named}" if named else "HTTP 200 with an error"
    return from_status(status, {"error": error}, {}, sent=sent, secrets=secrets, came_as=came_as)


def _type_of(error: object) -> str:
    return str(error.get("type", "")) if isinstance(error, Mapping) else ""


def _code_of(body: object) -> str:
    match body:
        case {"error": {"code": str(code)}} if code:
            return code
        case {"error": {"type": str(kind)}}:
            return kind
        case {"code": str(code)}:
            return code
        case _:
            return ""


# What the refusal of an optional parameter looks like. Order matters: stream_options also holds the word stream.
_REFUSALS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("stream_options", re.compile(r"stream_options|include_usage")),
    ("response_format", re.compile(r"response_format|json_schema|json_object|structured output|grammar")),
    ("max_tokens", re.compile(r"max_completion_tokens")),
    ("tools", re.compile(r"\btools\b|tool[_ ]choice|tool use|(?:tool|function)[- ]calling|\bfunctions\b")),
    ("stream", re.compile(r"\bstream(?:ing)?\b")),
)
_REFUSED_WORDS = re.compile(
    r"not support|unsupported|n't support|unavailable|not available|not allowed|not permitted|unknown|unrecogni[sz]ed"
    r"|unexpected|requires|not implemented|disabled|no endpoints found|invalid (?:schema|parameter|argument)"
)
# These speak of the conversation, not of a parameter.
_ABOUT_MESSAGES = re.compile(r"messages\[|tool_calls|tool_call_id")
_REFUSED_STATUS = frozenset({400, 404, 405, 415, 422, 500})


def refused_parameter(status: int, body: object, text: str, sent: Collection[str]) -> str:
    """Which of the ``sent`` optional parameters a refusal is about; empty when it is about something else."""
    if status not in _REFUSED_STATUS or _ABOUT_MESSAGES.search(text):
        return ""
    named = re.split(r"[.\[]", _param_of(body))[0]
    if named in sent:
        return named
    if not _REFUSED_WORDS.search(text):
        return ""
    return next((name for name, pattern in _REFUSALS if name in sent and pattern.search(text)), "")


def _param_of(body: object) -> str:
    match body:
        case {"error": {"param": str(param)}}:
            return param
        case _:
            return ""


_IN_TEXT = re.compile(
    r"(?:try again|retry|wait)[^.\d]{0,30}?(\d+(?:\.\d+)?)\s*(ms|milliseconds?|m|minutes?|s|seconds?)\b", re.I
)


def retry_after(headers: Mapping[str, str], said: str, body: object, now: float) -> float | None:
    """Seconds to wait as the other side asks: header in milliseconds, seconds or as a date, else in the body."""
    lower = {name.lower(): value for name, value in headers.items()}
    for value, scale in ((lower.get("retry-after-ms"), 0.001), (lower.get("retry-after"), 1.0)):
        if value is None:
            continue
        seconds = _seconds(value, scale, now)
        if seconds is not None:
            return seconds
    field = _wait_field(body)
    if field is not None:
        return field
    match = _IN_TEXT.search(said)
    if match is None:
        return None
    unit = match[2].lower()
    scale = 0.001 if unit.startswith(("ms", "milli")) else 60.0 if unit.startswith("m") else 1.0
    return _bounded(float(match[1]) * scale)


def _seconds(value: str, scale: float, now: float) -> float | None:
    try:
        return _bounded(float(value) * scale)
    except ValueError:
        pass
    try:
        return _bounded(parsedate_to_datetime(value).timestamp() - now)
    except (ValueError, TypeError, OverflowError):
        return None


def _wait_field(body: object, depth: int = 0) -> float | None:
    """``retry_after`` or ``retryDelay`` anywhere near the top of an error object."""
    if depth > 8:
        return None
    if isinstance(body, list):
        return next((w for w in (_wait_field(item, depth + 1) for item in body[:10]) if w is not None), None)
    if not isinstance(body, Mapping):
        return None
    for key, value in body.items():
        if key in ("retry_after", "retry_after_seconds", "retryDelay", "retry_delay"):
            seconds = _seconds(str(value).removesuffix("s"), 1.0, 0.0)
            if seconds is not None:
                return seconds
    return _wait_field([v for v in body.values() if isinstance(v, (Mapping, list))], depth + 1)


def _bounded(seconds: float) -> float | None:
    # NaN and infinity compare false.
    return min(max(seconds, 0.0), MAX_WAIT_S) if seconds < float("inf") else None


def decoded(text: str) -> Any:
    """``text`` as JSON, or itself when it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
