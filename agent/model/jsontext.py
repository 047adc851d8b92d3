"""Finding the JSON object in what a model wrote."""

from __future__ import annotations

import json
from typing import Any

_MAX_STARTS = 200
# Models put raw line ends and tabs into strings; that is unambiguous, so it is read.
_DECODER = json.JSONDecoder(strict=False)


def json_objects(text: str) -> tuple[dict[str, Any], ...]:
    """Every whole JSON object in ``text`` that is not inside another, in order. Fences and prose don't matter."""
    return tuple(value for _, value in _found(text))


def _found(text: str) -> list[tuple[int, dict[str, Any]]]:
    """(length, object) for each."""
    found: list[tuple[int, dict[str, Any]]] = []
    at = text.find("{")
    for _ in range(_MAX_STARTS):
        if at < 0:
            break
        try:
            value, end = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            end = at + 1
        else:
            found.append((end - at, value))
        at = text.find("{", end)
    return found


def extract_json(text: str) -> dict[str, Any]:
    """The longest JSON object in ``text``.

    Raises:
        ValueError: there is none; the message says where the text stops being JSON.
    """
    found = _found(text)
    if found:
        return max(found, key=lambda item: item[0])[1]
    start = text.find("{")
    if start < 0:
        raise ValueError("the reply holds no JSON object")
    try:
        _DECODER.raw_decode(text, start)
    except RecursionError as error:
        raise ValueError("the JSON object is nested too deeply") from error
    except json.JSONDecodeError as error:
        raise ValueError(
            f"the JSON object is broken: {error.msg} at line {error.lineno} column {error.colno}"
        ) from error
    raise ValueError("the reply holds no JSON object")


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
