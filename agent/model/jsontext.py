"""Finding JSON objects in what a model wrote."""

from __future__ import annotations

import json
from typing import Any

_MAX_STARTS = 200
# Models put raw line ends and tabs into strings; that is unambiguous, so it is read.
_DECODER = json.JSONDecoder(strict=False)


def json_objects(text: str) -> tuple[dict[str, Any], ...]:
    """Every whole JSON object in ``text`` that is not inside another, in order. Fences and prose don't matter."""
    found: list[dict[str, Any]] = []
    at = text.find("{")
    for _ in range(_MAX_STARTS):
        if at < 0:
            break
        try:
            value, end = _DECODER.raw_decode(text, at)
            found.append(value)
        except (ValueError, RecursionError):
            end = at + 1
        at = text.find("{", end)
    return tuple(found)


def why_none(text: str) -> str:
    """Why there is no object in ``text``, as a sentence: where the first one stops being JSON."""
    start = text.find("{")
    try:
        if start >= 0:
            _DECODER.raw_decode(text, start)
    except RecursionError:
        return "The JSON object is nested too deeply."
    except json.JSONDecodeError as error:
        return f"The JSON object is broken: {error.msg} at line {error.lineno} column {error.colno}."
    except ValueError:
        return "The JSON object holds a number that is too long."
    return "The reply holds no JSON object."


def is_cut(text: str) -> bool:
    """True when ``text`` begins a JSON object or array and ends before it is closed."""
    if not text.lstrip().startswith(("{", "[")):
        return False
    depth, in_string, escaped = 0, False, False
    for sign in text:
        if escaped:
            escaped = False
        elif in_string:
            escaped, in_string = sign == "\\", sign != '"'
        elif sign == '"':
            in_string = True
        elif sign in "{[":
            depth += 1
        elif sign in "}]":
            depth -= 1
    return in_string or depth > 0
