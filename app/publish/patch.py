"""A change as a patch that ``git apply`` takes. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence

from app.publish.policy import is_binary


def patch(path: str, before: bytes | None, after: bytes | None, *, mode: str = "100644", old_mode: str = "") -> str:
    """A unified diff with git's header. ``None``: the file is not there. Binary contents are only named.

    Args:
        mode: of the file as it will be (as it was, when it is deleted).
        old_mode: of the file as it was; empty when it stays the same.
    """
    if before == after and old_mode in ("", mode):
        return ""
    head = "\n".join(_header(path, before, after, mode, old_mode)) + "\n"
    if before == after:
        return head
    if is_binary(before or b"") or is_binary(after or b""):
        return f"{head}Binary files differ\n"
    old_name = "/dev/null" if before is None else _quoted(f"a/{path}")
    new_name = "/dev/null" if after is None else _quoted(f"b/{path}")
    old, new = _lines(before), _lines(after)
    top = _same(old, new)
    bottom = _same(old[top:][::-1], new[top:][::-1])
    few = len(old) + len(new) - 2 * (top + bottom) <= _COMPARED
    hunks = difflib.unified_diff(old, new, old_name, new_name)
    body = hunks if few else [f"--- {old_name}\n", f"+++ {new_name}\n", *_replaced(old, new, top, bottom)]
    return head + "".join(_ended(line) for line in body)


_COMPARED = 10_000
"""Lines between the first difference and the last, in both files, that are compared with each other: what that takes
grows with their square."""
_CONTEXT = 3


def _same(old: Sequence[str], new: Sequence[str]) -> int:
    """Lines at the beginning that are the same."""
    pairs = enumerate(zip(old, new, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(old), len(new)))


def _replaced(old: Sequence[str], new: Sequence[str], top: int, bottom: int) -> Iterator[str]:
    """One hunk that puts all lines between ``top`` and ``bottom`` in the place of those that were there."""
    above, below = old[max(0, top - _CONTEXT) : top], old[len(old) - bottom :][:_CONTEXT]
    gone, come = old[top : len(old) - bottom], new[top : len(new) - bottom]
    first, around = top - len(above), len(above) + len(below)
    yield f"@@ -{_span(first, around + len(gone))} +{_span(first, around + len(come))} @@\n"
    for sign, lines in ((" ", above), ("-", gone), ("+", come), (" ", below)):
        yield from (f"{sign}{line}" for line in lines)


def _span(first: int, lines: int) -> str:
    return f"{first + 1 if lines else first},{lines}"


def _header(path: str, before: bytes | None, after: bytes | None, mode: str, old_mode: str) -> Iterator[str]:
    yield f"diff --git {_quoted(f'a/{path}')} {_quoted(f'b/{path}')}"
    if before is None:
        yield f"new file mode {mode}"
    elif after is None:
        yield f"deleted file mode {mode}"
    elif old_mode and old_mode != mode:
        yield f"old mode {old_mode}"
        yield f"new mode {mode}"


def _lines(content: bytes | None) -> list[str]:
    """Lines as git counts them: ended by a newline and by nothing else."""
    return re.findall(r"[^\n]*\n|[^\n]+", (content or b"").decode("utf-8"))


def _ended(line: str) -> str:
    return line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _quoted(name: str) -> str:
    """As git writes names in headers: C quotes where a quote, backslash or non-ASCII sign would be ambiguous."""
    raw = name.encode("utf-8", "surrogateescape")
    if all(0x20 <= byte < 0x7F and byte not in b'"\\' for byte in raw):
        return name
    spelled = "".join(chr(b) if 0x20 <= b < 0x7F and b not in b'"\\' else _octal(b) for b in raw)
    return f'"{spelled}"'


def _octal(byte: int) -> str:
    return {0x22: '\\"', 0x5C: "\\\\"}.get(byte, f"\\{byte:03o}")
