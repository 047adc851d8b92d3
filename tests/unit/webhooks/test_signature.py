"""The signature is over the raw bytes, and nothing but its exact form counts."""

from __future__ import annotations

import json

import pytest

from app.webhooks.signature import digest, matches, parse_header

SECRET = b"topsecret-1"
BODY = '{"zen":"Keep it simple 😊","hook_id":1e2, "p":"a\\/b"}\n'.encode()
SIGNED = "0b133d2e34195af1fd0086069e22d476fd758d42385c96a03abd19d6a7c34d6a"


def test_raw_bytes_are_signed() -> None:
    assert len(BODY) == 56
    assert digest(SECRET, BODY) == SIGNED
    assert matches(SECRET, BODY, SIGNED)


def test_the_same_json_spelt_otherwise_does_not_match() -> None:
    for options in ({}, {"ensure_ascii": False}, {"separators": (",", ":")}, {"indent": 2}):
        respelt = json.dumps(json.loads(BODY), **options).encode()  # type: ignore[arg-type]
        assert not matches(SECRET, respelt, SIGNED)


def test_one_changed_byte_or_digit_does_not_match() -> None:
    assert not matches(SECRET, BODY[:-1] + b" ", SIGNED)
    assert not matches(SECRET, BODY, "1" + SIGNED[1:])
    assert not matches(b"topsecret-2", BODY, SIGNED)


def test_header_form() -> None:
    assert parse_header(f"sha256={SIGNED}") == SIGNED


@pytest.mark.parametrize(
    "value",
    [
        None,
        "",
        SIGNED,
        f"sha1={SIGNED[:40]}",
        f"sha256={SIGNED[:63]}",
        f"sha256={SIGNED}0",
        f"sha256={SIGNED.upper()}",
        f"SHA256={SIGNED}",
        f"sha256={SIGNED}\n",
        f" sha256={SIGNED}",
        f"sha256={'é' * 64}",
        f"sha256={'٣' * 64}",
    ],
)
def test_other_forms_are_no_signature(value: str | None) -> None:
    assert parse_header(value) is None
