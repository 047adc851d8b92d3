"""Lines of a draft that hold a text or match a pattern.

A plain text needs no git: the base's text files are read once and kept, which costs less than a single ``git grep`` and
makes every later look a scan of memory. A pattern is always given to git, where it can't hold us up (a regular
expression of Python's may take for ever); what it must hold literally is looked up first, so that git reads few files.
Both ways find the same.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from agent.git import Match
from agent.tree import Draft

MOST = 10_000
"""Matches that are counted."""
_FEW = 200
"""Files that git is given by name."""
_SHORTEST = 3
_STARS = 4
"""Wildcards in a glob; with more, matching could take long."""
_SIMPLE = re.compile(r"(?:\*\*/)?(?:[^\[\]\\{}*]|\*(?!\*)|/\*\*/|/\*\*$)*(?<!/)")
"""Globs without brackets and escapes, in which two stars stand for whole folders only."""
_REGEX = {"**/": "(?:.*/)?", "/**": "/.+", "**": ".+", "*": "[^/]*", "?": "[^/]"}


def search(
    draft: Draft, text: str, *, regex: bool = False, ignore_case: bool = False, glob: str = ""
) -> tuple[Match, ...]:
    """The first ``MOST`` matching lines, by path as git sorts them.

    Args:
        text: one line's worth of plain text, or an extended regular expression.
        glob: as git's ``:(glob)`` pathspec.

    Raises:
        UserError: the pattern is not valid.
    """
    texts = draft.texts
    named = _matcher(glob)
    if texts is None or named is None or (ignore_case and not text.isascii()):
        return _by_git(draft, text, regex, ignore_case, [f":(glob){glob}"] if glob else [])
    candidates = {path: content for path, content in texts.items() if named(path)}
    if not regex:
        found = (match for path in _sorted(candidates) for match in _lines(path, candidates[path], text, ignore_case))
        return tuple(islice(found, MOST))
    literal = literal_in(text)
    if not literal:
        return _by_git(draft, text, regex, ignore_case, [f":(glob){glob}"] if glob else [])
    holding = [path for path in _sorted(candidates) if _holds(candidates[path], literal, ignore_case)]
    if len(holding) > _FEW:
        return _by_git(draft, text, regex, ignore_case, [f":(glob){glob}"] if glob else [])
    return _by_git(draft, text, regex, ignore_case, [f":(literal){path}" for path in holding]) if holding else ()


def _matcher(glob: str) -> Callable[[str], bool] | None:
    """Whether a path matches; ``None`` for what only git knows (brackets, escapes, many wildcards)."""
    if not glob:
        return lambda path: True
    if not re.search(r"[*?\[\]\\{}]", glob):
        folder = glob.rstrip("/") + "/"
        return lambda path: path == glob or path.startswith(folder)
    if not _SIMPLE.fullmatch(glob) or len(re.findall(r"\*+", glob)) > _STARS:
        return None
    parts = re.findall(r"\*\*/|/\*\*$|\*\*$|\*|\?|/(?!\*\*)|[^*?/]+", glob)
    compiled = re.compile("".join(_REGEX.get(part) or re.escape(part) for part in parts))
    return lambda path: compiled.fullmatch(path) is not None


def _by_git(draft: Draft, text: str, regex: bool, ignore_case: bool, where: list[str]) -> tuple[Match, ...]:
    found = draft.base.git.grep(draft.tree_id(), text, regex=regex, ignore_case=ignore_case, where=where)
    return tuple(islice(found, MOST))


def _sorted(paths: Iterable[str]) -> list[str]:
    return sorted(paths, key=os.fsencode)


def _holds(content: bytes, text: str, ignore_case: bool) -> bool:
    needle = text.encode(errors="surrogateescape")
    return needle.lower() in content.lower() if ignore_case else needle in content


def _lines(path: str, content: bytes, text: str, ignore_case: bool) -> Iterator[Match]:
    needle = text.encode(errors="surrogateescape")
    hay = content
    if ignore_case:  # of ASCII only, so that every byte keeps its place
        needle, hay = needle.lower(), hay.lower()
    at, line, counted = hay.find(needle), 1, 0
    while at >= 0:
        line += hay.count(b"\n", counted, at)
        start, end = hay.rfind(b"\n", 0, at) + 1, hay.find(b"\n", at)
        end = len(hay) if end < 0 else end
        yield Match(path, line, content[start:end].decode(errors="replace").rstrip("\r"))
        counted, at = at, hay.find(needle, end)


def literal_in(pattern: str) -> str:
    """The longest text that every line must hold to match the extended regular expression; empty when none is sure."""
    if "|" in pattern:
        return ""
    runs: list[str] = []
    run, depth, at = "", 0, 0
    while at < len(pattern):
        sign = pattern[at]
        at += 1
        if sign == "[":
            at = _after_brackets(pattern, at)
            runs, run = [*runs, run], ""
        elif sign in "()":
            depth += 1 if sign == "(" else -1
            runs, run = [*runs, run], ""
        elif sign in "*?{+":  # says how often the sign before it stands there
            runs, run = [*runs, run[:-1]], ""
            if sign == "{":
                at = pattern.find("}", at) + 1 or len(pattern)
        elif sign in ".^$":
            runs, run = [*runs, run], ""
        elif sign == "\\":
            escaped = pattern[at : at + 1]
            at += 1
            if escaped.isalnum() or escaped in "<>`'" or not escaped:  # GNU's own meanings
                runs, run = [*runs, run], ""
            elif not depth:
                run += escaped
        elif not depth:
            run += sign
    longest = max([*runs, run], key=len)
    return longest if len(longest) >= _SHORTEST and depth == 0 else ""


def _after_brackets(pattern: str, at: int) -> int:
    """Where a bracket expression that begins before ``at`` ends."""
    at += pattern.startswith("^", at)
    at += pattern.startswith("]", at)
    while at < len(pattern) and pattern[at] != "]":
        inner = pattern[at : at + 2]
        if inner in ("[:", "[.", "[="):
            end = pattern.find(f"{inner[1]}]", at + 2)
            at = end + 2 if end >= 0 else len(pattern)
        else:
            at += 1
    return at + 1
