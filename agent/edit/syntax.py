"""A change must not break a file's syntax.

Where the standard library reads a language itself (Python, JSON, TOML), its word is the language's own. Everywhere else
the index's grammars are asked. A grammar may be older than its language, or not know a project's macros; so it is heard
only about a file that it could parse before, and what it objects to is let through when it is sent once more.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
import warnings
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from agent import toml
from agent.edit.match import EditRefused
from agent.index import outline
from agent.index.languages import language_by_head, language_by_name

_SHOWN: Final = 120


class Problem(NamedTuple):
    """The first place where a file can't be parsed."""

    line: int
    """From 1; 0 where it is not known."""
    message: str


Parser = Callable[[bytes], Problem | None]


class Syntax:
    """Checks changes one after the other.

    Calling it raises ``EditRefused`` for a file that does not parse, although it did before or is new.
    """

    def __init__(self) -> None:
        self._doubted: set[bytes] = set()

    def __call__(self, path: str, before: bytes | None, after: bytes) -> None:
        found = broken(path, before, after)
        if found is None:
            return
        todo = "Nothing was changed; send it again with correct syntax"
        if _own(path) is None:
            this = hashlib.sha256(b"\0".join((path.encode("utf-8", "surrogateescape"), after))).digest()
            if this in self._doubted:
                return
            self._doubted.add(this)
            todo += ", or as it is if you are sure: the grammar that says so may be older than the language"
        what = f"{path} would no longer parse" if before is not None else f"{path} does not parse"
        raise EditRefused(what, why=explained(found, after), todo=todo)


def broken(path: str, before: bytes | None, after: bytes) -> Problem | None:
    """What is wrong with ``after`` that was not with ``before``; ``None`` for what can't be judged.

    Args:
        before: ``None`` for a new file, which only a language's own parser is asked about.
    """
    parse = _own(path)
    if parse is None:
        name = _language(path, after)
        return None if before is None or _by_grammar(name, before) else _by_grammar(name, after)
    found = parse(after)
    return None if found is None or (before is not None and parse(before) is not None) else found


def explained(problem: Problem, content: bytes) -> str:
    """``line 3: what is wrong: the line``."""
    lines = outline.decode(content).splitlines()
    shown = lines[problem.line - 1].strip()[:_SHOWN] if 0 < problem.line <= len(lines) else ""
    place = f"line {problem.line}" if problem.line else ""
    return ": ".join(filter(None, (place, problem.message, shown)))


def no_longer(language: str) -> str:
    """What is said where a grammar does not understand a file."""
    return f"this is no valid {language} any more"


def _own(path: str) -> Parser | None:
    return PARSERS.get(path.rsplit(".", 1)[-1])


def _language(path: str, content: bytes) -> str:
    found = language_by_name(path) or language_by_head(content[:200])
    return found.name if found else ""


def _by_grammar(language: str, content: bytes) -> Problem | None:
    line = outline.first_error(content, language)
    return Problem(line, no_longer(language)) if line else None


# ── what the standard library reads ──────────────────────────────────────────────────────────────────────────────


def _python(data: bytes) -> Problem | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what the source is warned of is the linters' business
            ast.parse(data)
    except SyntaxError as error:
        return Problem(error.lineno or 0, error.msg)
    except (ValueError, RecursionError, MemoryError) as error:
        return Problem(0, str(error) or type(error).__name__)
    return None


def _json(data: bytes) -> Problem | None:
    try:
        json.loads(data)
    except json.JSONDecodeError as error:
        return Problem(error.lineno, error.msg)
    except (ValueError, RecursionError) as error:
        return Problem(0, str(error) or type(error).__name__)
    return None


def _toml(data: bytes) -> Problem | None:
    try:
        toml.loads(data.decode("utf-8"))
    except ValueError as error:  # of TOML and of UTF-8
        line = re.search(r"line (\d+)", str(error))
        return Problem(int(line.group(1)) if line else 0, str(error))
    return None


PARSERS: Final[Mapping[str, Parser]] = {"py": _python, "pyi": _python, "json": _json, "toml": _toml}
"""Suffix → the language's own parser."""
