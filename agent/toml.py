"""TOML that others have written, read in a time that its size bounds."""

from __future__ import annotations

import re
import tomllib
from typing import Any, Final

_PARTS: Final = 100
"""Of one key. ``tomllib`` takes a time that grows with their square, and for each line below a heading with theirs."""
_LONG_KEY: Final = re.compile(rf"(?<![\w\"'-])(?:[\w\"'-]+[ \t]*\.[ \t]*){{{_PARTS}}}")


def loads(source: str) -> dict[str, Any]:
    """Read a document.

    Raises:
        ValueError: it is not TOML, or nests deeper than anybody writes, or holds a number that Python does not read.
    """
    if _LONG_KEY.search(source):
        raise ValueError(f"a key has more than {_PARTS} parts")
    try:
        return tomllib.loads(source)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
