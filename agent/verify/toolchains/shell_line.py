"""Finds a program inside a shell line, so that options can be added to its call and not to what follows it. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

# Words after which a program name is the program that runs: `python -m pytest`, `poetry run pytest`, `env pytest`.
_LEADERS = frozenset(
    {
        "-m",
        "run",
        "exec",
        "--",
        "env",
        "time",
        "nice",
        "xvfb-run",
        "npx",
        "bunx",
        "dlx",
        "sudo",
        "c8",
        "nyc",
        "pnpm",
        "yarn",
    }
)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_OPERATORS = ";&|()\n"


@dataclass(frozen=True)
class Call:
    """One call of a program: ``line[start:end]`` are its words, without redirections and without what follows."""

    start: int
    end: int
    words_from: int
    """Where its arguments begin."""
    last: bool
    """Nothing but blanks follows, so the line's exit code is this call's."""


def calls(line: str, program: str) -> tuple[Call, ...]:
    """Calls of ``program`` (a regular expression for its name, a path before it is allowed) in ``line``."""
    pattern = re.compile(rf"(?<![^\s;&|()])(?:[^\s;&|()'\"]*/)?(?:{program})(?=$|[\s;&|()])")
    matches = list(pattern.finditer(line))
    bare = {at for at, _ in plain(line)} if matches else set()
    ends = (
        (match, _end(line, match.end())) for match in matches if match.start() in bare and _runs(line, match.start())
    )
    return tuple(Call(match.start(), end, match.end(), not line[end:].strip()) for match, end in ends)


def rewrite(line: str, found: Sequence[Call], arguments: Callable[[int, str], str]) -> str:
    """The line with each call's arguments replaced by ``arguments(number, old arguments)``; blanks behind them stay."""
    for number, call in reversed(list(enumerate(found))):
        old = line[call.words_from : call.end].rstrip()
        line = line[: call.words_from] + arguments(number, old) + line[call.words_from + len(old) :]
    return line


def is_all(found: Sequence[Call]) -> bool:
    """Whether a line makes one call, and its exit code is that of this call."""
    return len(found) == 1 and found[0].last


def without_paths(arguments: str, names_path: Callable[[str], bool]) -> str:
    """The arguments without those that name test files: a selection takes their place.

    A word that might be the value of the option before it stays: then more runs than was selected, which is safe.
    """
    if re.search(r"[$`~]", arguments):
        return arguments
    try:
        words = shlex.split(arguments)
    except ValueError:
        return arguments
    kept: list[str] = []
    for word in words:
        after_option = bool(kept) and kept[-1].startswith("-") and "=" not in kept[-1] and kept[-1] not in _FLAGS
        if after_option or word.startswith("-") or not names_path(word):
            kept.append(word)
    if any(re.search(r"[*?]", word) for word in kept):
        return arguments  # quoted, it would no longer be a pattern
    return " " + shlex.join(kept) if kept else ""


_FLAGS = frozenset(
    (
        "--test",
        "-v",
        "-vv",
        "-q",
        "-qq",
        "-x",
        "-s",
        "-l",
        "--verbose",
        "--quiet",
        "--exitfirst",
        "--strict-markers",
        "--no-header",
    )
)


def entered(line: str) -> str:
    """The folder, seen from the root, that the line changes to before anything else; empty for the root."""
    found = re.match(r"\s*cd\s+([\w.-]+(?:/[\w.-]+)*)/?\s*&&", line)
    return found.group(1) if found else ""


def _runs(line: str, at: int) -> bool:
    before = re.split(r"[;&|()\n]", line[:at])[-1].split()
    if not before:
        return True
    previous = before[-1]
    return (
        previous in _LEADERS
        or _ASSIGNMENT.match(previous) is not None
        or (previous.isdigit() and "timeout" in before)
        or (previous.startswith("-") and any(word in _LEADERS for word in before))
    )


def _end(line: str, start: int) -> int:
    """The end of the simple command that goes on at ``start``: an operator, a redirection or a comment."""
    for at, sign in plain(line, start):
        if sign in _OPERATORS or (sign == "#" and line[at - 1].isspace()):
            return at
        if sign in "<>":
            return at - 1 if re.search(r"\s\d$", line[start:at]) else at
    return len(line)


def plain(line: str, start: int = 0) -> Iterator[tuple[int, str]]:
    """Where a sign stands that is no other's: in no quotes, and behind no backslash, which is one itself. A quote that
    is not closed stands at the end."""
    quote, escaped = "", False
    for at in range(start, len(line)):
        sign = line[at]
        if escaped:
            escaped = False
        elif sign == "\\" and quote != "'":
            escaped = True
            if not quote:
                yield at, sign
        elif quote:
            quote = "" if sign == quote else quote
        elif sign in "'\"":
            quote = sign
        else:
            yield at, sign
    if quote:
        yield len(line), quote
