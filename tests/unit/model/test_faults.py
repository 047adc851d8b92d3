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


def test_every_error_of_the_table_can_be_told_apart() -> None:
    classes = [rule.error for rule in errors.RECOVERIES]
    assert len(set(classes)) == len(classes)
    assert all(rule.tries >= 1 and rule.cause for rule in errors.RECOVERIES)
    retried = [rule for rule in errors.RECOVERIES if rule.first is errors.Recovery.RETRY]
    assert all(issubclass(rule.error, RetryLater) and rule.tries > 1 for rule in retried)


def test_the_table_as_markdown() -> None:
    table = errors.recovery_table()
    assert table.count("\n") == len(errors.RECOVERIES) + 2
    assert "| `RateLimited` | 429, or an error that names a rate limit | retry | 6 | fall back |" in table
    assert table in (Path(__file__).parents[3] / "docs" / "operating.md").read_text("utf-8")


def test_an_error_without_a_row_stops() -> None:
    assert errors.rule_for(ValueError()).first is errors.Recovery.STOP
