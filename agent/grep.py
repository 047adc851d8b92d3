"""Lines of a draft that hold a text or match a pattern.

The base's text files are read once and kept, which costs less than a single ``git grep`` over their objects; every
later look is a scan of memory. A pattern is matched by ``grep``, whose time can be bounded (a regular expression of
Python's may take for ever, and would take us along). All ways find what ``git grep`` finds.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, islice

from agent.errors import UserError
from agent.git import Match
from agent.tree import Draft
from sandbox import process
from sandbox.errors import CommandNotFound
from sandbox.text import clean
from sandbox.types import MIB, End, Limits

MOST = 10_000
"""Matches that are counted."""
_STARS = 4
"""Wildcards in a glob; with more, matching could take long."""
_SIMPLE = re.compile(r"(?:\*\*/)?(?:[^\[\]\\{}*]|\*(?!\*)|/\*\*/|/\*\*$)*(?<!/)")
"""Globs without brackets and escapes, in which two stars stand for whole folders only."""
_BYTES = {**process.CLEAN_ENV, "LC_ALL": "C"}
_LIMITS = Limits(wall_s=20.0, output_bytes=8 * MIB)
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
        return _by_git(draft, text, regex, ignore_case, glob)
    candidates = [(path, texts[path]) for path in sorted(filter(named, texts), key=os.fsencode)]
    if not regex:
        found = (match for path, content in candidates for match in _lines(path, content, text, ignore_case))
        return tuple(islice(found, MOST))
    try:
        return _matching(candidates, text, ignore_case)
    except CommandNotFound:
        return _by_git(draft, text, regex, ignore_case, glob)


def _matching(candidates: Sequence[tuple[str, bytes]], pattern: str, ignore_case: bool) -> tuple[Match, ...]:
    """What ``grep`` finds in all files as one."""
    files = [(path, content if content.endswith(b"\n") else content + b"\n") for path, content in candidates if content]
    arguments = ["-abE", *(["-i"] if ignore_case else []), "-m", str(MOST), "-e", pattern]
    whole = b"".join(content for _, content in files)
    finished = process.run(["grep", *arguments], env=_BYTES, stdin=whole, limits=_LIMITS, split_stderr=True)
    if finished.end is not End.EXITED or finished.exit_code not in (0, 1):
        raise UserError("The search did not work", why=clean(finished.stderr, 300))
    return tuple(_placed(finished.stdout.split(b"\n")[:-1], files))


def _placed(lines: Sequence[bytes], files: Sequence[tuple[str, bytes]]) -> Iterator[Match]:
    """Lines of output (``offset:text``, the offset in all files as one) as lines of their files."""
    starts = list(accumulate((len(content) for _, content in files), initial=0))
    file, counted, number = -1, 0, 1
    for line in lines:
        offset, colon, text = line.partition(b":")
        if not colon or not offset.isdigit():
            return  # so much was found that the middle of the output is left out
        at = bisect_right(starts, int(offset)) - 1
        if at != file:
            file, counted, number = at, 0, 1
        path, content = files[at]
        inside = int(offset) - starts[at]
        number, counted = number + content.count(b"\n", counted, inside), inside
        yield Match(path, number, text.decode(errors="replace").rstrip("\r"))


def _matcher(glob: str) -> Callable[[str], bool] | None:
    """Whether a path matches; ``None`` for what only git knows (brackets, escapes, dots, many wildcards)."""
    if not glob:
        return lambda path: True
    if not {"", ".", ".."}.isdisjoint(glob.removesuffix("/").split("/")):
        return None
    if not re.search(r"[*?\[\]\\{}]", glob):
        folder = glob.rstrip("/") + "/"
        return lambda path: path == glob or path.startswith(folder)
    if not _SIMPLE.fullmatch(glob) or len(re.findall(r"\*+", glob)) > _STARS:
        return None
    parts = re.findall(r"\*\*/|/\*\*$|\*\*$|\*|\?|/(?!\*\*)|[^*?/]+", glob)
    compiled = re.compile("".join(_REGEX.get(part) or re.escape(part) for part in parts))
    return lambda path: compiled.fullmatch(path) is not None


def _by_git(draft: Draft, text: str, regex: bool, ignore_case: bool, glob: str) -> tuple[Match, ...]:
    where = [f":(glob){glob}"] if glob else []
    found = draft.base.git.grep(draft.tree_id(), text, regex=regex, ignore_case=ignore_case, where=where)
    return tuple(islice(found, MOST))


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
