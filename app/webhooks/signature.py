"""GitHub signs the raw bytes of a delivery; nothing else of it is believed, or even parsed, before that is checked."""

from __future__ import annotations

import hashlib
import hmac
import re

_HEADER = re.compile(r"sha256=([0-9a-f]{64})", re.ASCII)


def parse_header(value: str | None) -> str | None:
    """The hex digest of an ``X-Hub-Signature-256`` value; ``None`` when it is missing or has another form."""
    match = _HEADER.fullmatch(value or "")
    return match[1] if match else None


def digest(secret: bytes, body: bytes | bytearray) -> str:
    """The hex digest that GitHub would send for ``body``."""
    return hmac.new(secret, body, hashlib.sha256).hexdigest()


def matches(secret: bytes, body: bytes | bytearray, given: str) -> bool:
    """Compare in constant time. ``given`` is what ``parse_header`` returned."""
    return hmac.compare_digest(digest(secret, body), given)
