"""JSON in ASCII, of whatever a Python value holds."""

from __future__ import annotations

import json

from pydantic_core import PydanticSerializationError, to_json


def encode(value: object) -> bytes:
    """What JSON has no word for becomes a string."""
    try:
        return to_json(value, fallback=str, ensure_ascii=True)
    except PydanticSerializationError:  # lone surrogates: the standard library writes them, five times as slow
        return json.dumps(value, default=str).encode()
