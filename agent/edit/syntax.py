"""A change must not break a file's syntax. The check itself is given by the caller."""

from __future__ import annotations

import ast
import json
import warnings
from collections.abc import Callable

from agent.edit.match import EditRefused

SyntaxOk = Callable[[str, bytes], bool]
"""(path, bytes) → whether the file parses; True for what can't be judged."""


def check(path: str, before: bytes | None, after: bytes, syntax_ok: SyntaxOk) -> None:
    """Refuse ``after`` when it does not parse although ``before`` did, or is new.

    Raises:
        EditRefused: with the place of the error, where it is known.
    """
    if syntax_ok(path, after) or (before is not None and not syntax_ok(path, before)):
        return
    raise EditRefused(
        f"{path} would no longer parse" if before is not None else f"{path} does not parse",
        why=explanation(path, after),
        todo="Nothing was changed; send it again with correct syntax",
    )


def ok(path: str, content: bytes) -> bool:
    """A check for what the standard library reads (Python, JSON); everything else passes."""
    return not explanation(path, content)


def explanation(path: str, content: bytes) -> str:
    """Where the error is, for languages that the standard library reads; else empty."""
    try:
        if path.endswith((".py", ".pyi")):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                ast.parse(content, path)
        elif path.endswith(".json"):
            json.loads(content)
    except SyntaxError as error:
        return f"line {error.lineno}: {error.msg}: {(error.text or '').strip()[:120]}"
    except (ValueError, RecursionError, MemoryError) as error:
        return str(error)
    return ""
