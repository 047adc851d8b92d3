"""What an endpoint said, as an error: texts are clean, waits are found."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.errors import RetryLater
from agent.model import errors, faults

NOW = 1_700_000_000.0


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            "<html><head><title>x</title><style>p{color:red}</style></head><h1>502</h1>\n Bad &amp; gone",
            "502 Bad & gone",
        ),
        ({"error": {"message": "too\x1b[31m red\x00\nnext‮line"}}, "too [31m red next line"),
        ({"error": "plain"}, "plain"),
        ({"detail": {"message": "inner"}}, "inner"),
        ({"message": "top"}, "top"),
        ({"odd": 1}, '{"odd": 1}'),
        (None, ""),
        ("key sk-secret-0123456789 leaked", "key [redacted] leaked"),
        ("key none stays", "key none stays"),
    ],
)
def test_excerpt(body: object, expected: str) -> None:
    assert faults.excerpt(body, ("sk-secret-0123456789", "none")) == expected


def test_excerpt_is_short_whatever_comes() -> None:
    assert len(faults.excerpt("<p>" * 1_000_000 + "x" * 1_000_000)) <= faults.EXCERPT


@pytest.mark.parametrize(
    ("headers", "body", "seconds"),
    [
        ({"Retry-After": "7"}, None, 7),
        ({"retry-after": "1.5"}, None, 1.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, None, 0.25),
        ({"retry-after": "Tue, 14 Nov 2023 22:13:50 GMT"}, None, 30),
        ({"retry-after": "Tue, 14 Nov 2023 22:13:00 GMT"}, None, 0),
        ({"retry-after": "-4"}, None, 0),
        ({"retry-after": "999999"}, None, faults.MAX_WAIT_S),
        ({"retry-after": "nan"}, None, None),
        ({"retry-after": "soon"}, None, None),
        ({}, {"error": {"message": "Rate limit reached. Please try again in 1.2s."}}, 1.2),
        ({}, {"error": {"message": "Please retry after 20 seconds."}}, 20),
        ({}, {"error": {"message": "try again in 350ms"}}, 0.35),
        ({}, {"error": {"message": "try again in 2m"}}, 120),
        ({}, {"error": {"message": "busy", "retry_after": 3}}, 3),
        ({}, {"error": {"message": "busy", "details": [{"x": 1}, {"retryDelay": "7s"}]}}, 7),
        ({}, {"error": {"message": "busy since 20 s"}}, None),
        ({}, None, None),
    ],
)
def test_how_long_to_wait(headers: dict[str, str], body: object, seconds: float | None) -> None:
    error = faults.from_status(429, body, headers, now=NOW)
    assert isinstance(error, RetryLater)
    assert error.after_s == (None if seconds is None else pytest.approx(seconds))


NO_CREDIT = [
    {"message": "x", "type": "insufficient_quota"},
    {"message": "You exceeded your current quota, please check your plan"},
    {"message": "Your credit balance is too low to access the API"},
    {"message": "Insufficient credits. Add more"},
    {"message": "Your account is not active, please check your billing details"},
]
TOO_LONG = [
    {"message": "x", "code": "context_length_exceeded"},
    {"message": "the request exceeds the context length of the model"},
    {"message": "Requested tokens exceed context window of 2048"},
    {"message": "the request exceeds the available context size"},
    {"message": "x", "type": "exceed_context_size_error"},
    {"message": "This model's maximum context is 8192"},
    {"message": "Too many tokens: 9000 > 8192"},
    {"message": "prompt is too long: 210000 tokens > 200000"},
    {"message": "input is too long for requested model"},
    {"message": "Please reduce the length of the messages"},
]
FILTERED = [
    {"message": "x", "code": "content_filter"},
    {"message": "Output blocked by content filter policy"},
    {"message": "x", "code": "content_policy_violation"},
    {"message": "The response was filtered due to our content management policy"},
]
UNREADABLE_CALL = [
    {"message": "x", "code": "tool_use_failed"},
    {"message": "Failed to parse tool call arguments as JSON"},
    {"message": "Failed to call a function. Please adjust your prompt"},
]
SLOW_DOWN = [
    {"message": "x", "code": "rate_limit_exceeded"},
    {"message": "Rate limit reached for requests"},
    {"message": "Too Many Requests"},
]
BUSY = [
    {"message": "x", "type": "overloaded_error"},
    {"message": "x", "type": "server_error"},
    {"message": "Internal error encountered"},
    {"message": "The service is temporarily unable to answer"},
    {"message": "Something went wrong, try again"},
]
NO_MODEL = [{"message": "x", "code": "model_not_found"}, {"message": "Model not found: m"}]
WORDS = {
    errors.QuotaExhausted: NO_CREDIT,
    errors.ContextTooLong: TOO_LONG,
    errors.ContentRefused: FILTERED,
    errors.MalformedReply: UNREADABLE_CALL,
    errors.RateLimited: SLOW_DOWN,
    errors.Overloaded: BUSY,
    errors.ModelMissing: NO_MODEL,
}


@pytest.mark.parametrize(("expected", "said"), [(e, said) for e, every in WORDS.items() for said in every])
def test_words_say_what_it_is_where_the_status_does_not(expected: type, said: dict[str, str]) -> None:
    assert type(faults.from_status(400, {"error": said}, {}, now=NOW)) is expected
    # Into "not implemented" nothing is read.
    assert type(faults.from_status(505, {"error": said}, {}, now=NOW)) is errors.RequestRefused


@pytest.mark.parametrize(
    ("status", "said", "expected"),
    [
        (401, "You exceeded your current quota", errors.KeyRefused),
        (429, "Too many tokens per minute", errors.RateLimited),
        (413, "", errors.ContextTooLong),
        *((status, "", errors.Overloaded) for status in (408, 409, 425, 500, 502, 503, 504, 520, 529, 599)),
        *((status, "", errors.RequestRefused) for status in (301, 307, 308, 400, 405, 418, 501, 505)),
    ],
)
def test_statuses_that_words_do_not_change(status: int, said: str, expected: type) -> None:
    assert type(faults.from_status(status, {"error": said}, {}, now=NOW)) is expected


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        ("stream_options", "Unknown parameter: include_usage"),
        ("response_format", "json_schema is not supported"),
        ("response_format", "json_object is unavailable"),
        ("response_format", "Structured outputs are not available"),
        ("response_format", "grammar can't be used: unexpected type"),
        ("max_tokens", "Unsupported parameter. Use 'max_completion_tokens' instead"),
        ("tools", "tool_choice is not allowed"),
        ("tools", "tool use is not permitted"),
        ("tools", "function calling is disabled"),
        ("tools", "unrecognized argument: functions"),
        ("stream", "stream is not supported"),
    ],
)
def test_words_that_refuse_a_parameter(sent: str, said: str) -> None:
    every = {"tools", "response_format", "stream_options", "stream", "max_tokens"}
    error = faults.from_status(400, {"error": {"message": said}}, {}, sent=every)
    assert isinstance(error, errors.Unsupported) and error.parameter == sent
    assert not isinstance(faults.from_status(400, {"error": said}, {}, sent=every - {sent}), errors.Unsupported)
    assert not isinstance(faults.from_status(429, {"error": said}, {}, sent=every), errors.Unsupported)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        ({"message": "model is melting"}, "HTTP 200 with an error: model is melting"),
        ({"message": "busy", "code": 429}, "HTTP 200 with the error 429: busy"),
        ("plain", "HTTP 200 with an error: plain"),
    ],
)
def test_an_error_inside_a_success_is_told_as_one(error: object, told: str) -> None:
    assert faults.from_payload(error).why == told


def test_every_error_of_the_table_can_be_told_apart() -> None:
    classes = [rule.error for rule in errors.RECOVERIES]
    assert len(set(classes)) == len(classes)
    assert all(rule.tries >= 1 and rule.cause for rule in errors.RECOVERIES)
    retried = [rule for rule in errors.RECOVERIES if rule.first is errors.Recovery.RETRY]
    assert all(issubclass(rule.error, RetryLater) and rule.tries > 1 for rule in retried)


def test_the_operator_reads_the_table_that_decides() -> None:
    head = "| error | when | first | tries | then |\n| --- | --- | --- | --- | --- |\n"
    rows = [f"| `{r.error.__name__}` | {r.cause} | {r.first} | {r.tries} | {r.after} |\n" for r in errors.RECOVERIES]
    assert head + "".join(rows) in (Path(__file__).parents[3] / "docs" / "operating.md").read_text("utf-8")


def test_an_error_without_a_row_stops() -> None:
    assert errors.rule_for(ValueError()).first is errors.Recovery.STOP
