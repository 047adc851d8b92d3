"""What a project's own documents hold. Whatever can't be read, or is of another kind, is as good as empty. Pure."""

from __future__ import annotations

import configparser
import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from agent import toml
from agent.verify.files import Files, text


def toml_of(files: Files, path: str) -> Mapping[str, Any]:
    with suppress(ValueError):
        return toml.loads(text(files, path))
    return {}


def json_of(files: Files, path: str) -> Mapping[str, Any]:
    with suppress(ValueError, RecursionError):
        return table(json.loads(text(files, path) or "{}"))
    return {}


def ini_of(source: str) -> Mapping[str, Mapping[str, str]]:
    """Section → what it sets, without Python's own substitutions; a setting without a value has an empty one."""
    parser = configparser.RawConfigParser(strict=False, allow_no_value=True)
    with suppress(configparser.Error):
        parser.read_string(source)
        return {name: {key: value or "" for key, value in parser.items(name)} for name in parser.sections()}
    return {}


def table(of: object, *keys: str) -> Mapping[str, Any]:
    """The table that ``keys`` lead to, one in the other."""
    for key in keys:
        of = of.get(key) if isinstance(of, dict) else None
    return of if isinstance(of, dict) else {}


def strings(value: object) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list | tuple) else []
