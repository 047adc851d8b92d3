"""Edits of one file, applied together or not at all."""

from __future__ import annotations

import difflib
import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from agent.edit import omission
from agent.edit.match import NO_MATCH, EditRefused, line_of, locate, unified
from agent.edit.text import Text


@dataclass(frozen=True)
class Edit:
    """Replace the one place where ``search`` stands by ``replace``, or each of them."""

    search: str
    replace: str
    everywhere: bool = False


@dataclass(frozen=True)
class _Change:
    """A span of the text with ``\\n`` ends, and what takes its place."""

    start: int
    end: int
    new: str

    def applied(self, flat: str) -> str:
        return flat[: self.start] + self.new + flat[self.end :]


def edited(path: str, data: bytes, edits: Sequence[Edit]) -> bytes:
    """The file with all ``edits`` made. Each is matched against the file as it was given.

    Args:
        path: to tell prose from code.

    Raises:
        EditRefused: none of the edits was made; says which one and why.
        NotText: binary, or a character that the file's encoding does not have.
    """
    if not edits:
        raise EditRefused("There is no edit", todo="Give at least one search text and its replacement")
    file = Text.decode(data)
    flat = unified(file.text)
    changes = []
    for number, edit in enumerate(edits, 1):
        try:
            changes += _changes(path, flat, edit)
        except EditRefused as error:
            if len(edits) == 1:
                raise
            raise EditRefused(f"Edit {number} of {len(edits)}: {error.what}", why=error.why, todo=error.todo) from error
    return _applied(file, _ordered(flat, changes))


def inserted(path: str, data: bytes, anchor: str, text: str, *, before: bool = False) -> bytes:
    """The file with ``text`` as lines of its own after (or before) the lines that ``anchor`` stands in.

    Raises:
        EditRefused: nothing was inserted; says why.
        NotText: binary, or a character that the file's encoding does not have.
    """
    file = Text.decode(data)
    flat = unified(file.text)
    place = locate(flat, unified(anchor))
    lines = place.shift(unified(text)).removesuffix("\n") + "\n"
    if not lines.strip():
        raise EditRefused("The text to insert is empty", todo="Give the lines to insert")
    omission.check(path, "", lines)
    start = flat.rfind("\n", 0, place.start) + 1
    end = flat.find("\n", max(place.end - 1, place.start)) + 1 or len(flat)
    at = start if before else end
    if flat[at:].startswith(lines) or flat[:at].endswith(lines) or flat[at:] == lines[:-1]:
        raise EditRefused(f"The text stands there already, line {line_of(flat, at)}", todo="Go on with the next step")
    if at == len(flat) and not flat.endswith("\n") and flat:
        lines = "\n" + lines[:-1]  # the last line has no newline, and the new last one gets none either
    return _applied(file, [_Change(at, at, lines)])


def replaced(path: str, data: bytes, first: int, last: int, text: str) -> bytes:
    """The file with lines ``first`` to ``last`` (from 1, both included) replaced by ``text``, which takes over the
    indentation of the first of them. Decorators stay when ``text`` begins without one.

    Raises:
        EditRefused: nothing was replaced; says why.
        NotText: binary, or a character that the file's encoding does not have.
    """
    file = Text.decode(data)
    flat = unified(file.text)
    lines = flat.split("\n")
    old = lines[first - 1 : last]
    new = _indented(unified(text).strip("\n"), old[0])
    if not new.strip():
        raise EditRefused("The new text is empty", todo="To delete it use edit with an empty replacement")
    if not new.lstrip().startswith(_DECORATORS):
        kept = _decorators(old)
        first, old = first + kept, old[kept:]
    omission.check(path, "\n".join(old), new)
    if new == "\n".join(old):
        raise EditRefused("The edit changes nothing", todo="Go on with the next step")
    start = sum(len(line) + 1 for line in lines[: first - 1])
    return _applied(file, [_Change(start, start + len("\n".join(old)), new)])


_DECORATORS = ("@", "#[")


def _decorators(lines: Sequence[str]) -> int:
    """How many lines at the beginning are decorators, whose brackets may span lines; 0 where nothing follows them."""
    opened = 0
    for number, line in enumerate(map(str.strip, lines)):
        begins = line.startswith(_DECORATORS)
        if not begins and opened <= 0:
            return number
        opened = (0 if begins else opened) + sum(map(line.count, "([{")) - sum(map(line.count, ")]}"))
    return 0


def _indented(text: str, old: str) -> str:
    """``text`` shifted as a whole so that its first line is indented as ``old``."""
    lines = text.split("\n")
    have, want = _indentation(lines[0]), _indentation(old)
    if have == want or not all(line.startswith(have) or not line.strip() for line in lines):
        return text
    return "\n".join(want + line[len(have) :] if line.strip() else line for line in lines)


def _indentation(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def written(path: str, data: bytes | None, content: str) -> bytes:
    """The whole file as ``content``; an existing one keeps its encoding, byte order mark and line endings.

    Args:
        data: the existing file, ``None`` for a new one.

    Raises:
        EditRefused: the content leaves something out, or is there already.
        NotText: the existing file is binary, or can't hold a character.
    """
    flat = unified(content)
    file = Text("") if data is None else Text.decode(data)
    omission.check(path, file.text, flat)
    result = file.with_text(flat.replace("\n", file.newline) if data is not None else flat).encode()
    if result == data:
        raise EditRefused("The file holds exactly that already", todo="Go on with the next step")
    return result


# ── one edit ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _changes(path: str, flat: str, edit: Edit) -> list[_Change]:
    search, replacement = unified(edit.search), unified(edit.replace)
    if not edit.everywhere or not search or search == replacement or flat.count(search) < 2:
        return [_change(path, flat, edit)]
    if search in flat.replace(search, replacement):
        raise _matches_again()
    omission.check(path, search, replacement)
    places = re.finditer(re.escape(search), flat)
    return [_Change(place.start(), place.end(), replacement) for place in places]


def _matches_again() -> EditRefused:
    return EditRefused(
        "The search text would match again after the edit",
        why="A call that is repeated by mistake would then edit twice",
        todo="Take neighbouring lines into the search text and the replacement",
    )


def _change(path: str, flat: str, edit: Edit) -> _Change:
    search, replacement = unified(edit.search), unified(edit.replace)
    if search == replacement:
        raise EditRefused("The edit changes nothing", why="Search text and replacement are the same")
    try:
        change = _planned(flat, search, replacement)
    except EditRefused as error:
        if error.what == NO_MATCH and replacement.strip() and replacement in flat:
            line = line_of(flat, flat.find(replacement))
            raise EditRefused(
                f"No match, but the replacement stands in the file already, line {line}",
                todo="If that is the place, go on with the next step",
            ) from error
        raise
    if _would_go_on(change.applied(flat), search, replacement):
        raise _matches_again()
    omission.check(path, flat[change.start : change.end], change.new)
    return change


def _planned(flat: str, search: str, replacement: str) -> _Change:
    """The change that an edit means, refused where it seems to be made already."""
    place = locate(flat, search)
    if (place.added or place.removed) and (not replacement.strip() or replacement in flat):
        raise EditRefused(
            "The search text only matches with another indentation, and the replacement stands elsewhere or is empty",
            todo="Copy the search text with its exact indentation",
        )
    change = _Change(place.start, place.end, place.shift(replacement))
    found = flat[place.start : place.end]
    if change.new == found:
        raise EditRefused("The edit changes nothing", todo="Go on with the next step")
    at = change.new.find(found)
    while at != -1:
        begin = place.start - at
        if begin >= 0 and flat.startswith(change.new, begin):
            raise EditRefused(
                f"The replacement stands there already, line {line_of(flat, begin)}", todo="Go on with the next step"
            )
        at = change.new.find(found, at + 1)
    return change


def _would_go_on(flat: str, search: str, replacement: str) -> bool:
    try:
        _planned(flat, search, replacement)
    except EditRefused:
        return False
    return True


def _ordered(flat: str, changes: Sequence[_Change]) -> list[_Change]:
    ordered = sorted(changes, key=lambda change: change.start)
    for first, second in pairwise(ordered):
        if second.start < first.end:
            raise EditRefused(f"Two edits overlap, line {line_of(flat, second.start)}", todo="Join them into one edit")
    return ordered


# ── putting it together ──────────────────────────────────────────────────────────────────────────────────────────


def _applied(file: Text, changes: Sequence[_Change]) -> bytes:
    position = _positions(file.text)
    pieces = []
    last = 0
    for change in changes:
        start, end = position(change.start), position(change.end)
        pieces += [file.text[last:start], _with_endings(file, start, end, change.new)]
        last = end
    return file.with_text("".join(pieces) + file.text[last:]).encode()


def _positions(text: str) -> Callable[[int], int]:
    """Where a position of the text with ``\\n`` ends is in ``text`` as stored."""
    ends = [match.start() - number for number, match in enumerate(re.finditer("\r\n", text))]
    return lambda position: position + bisect_left(ends, position)


def _with_endings(file: Text, start: int, end: int, new: str) -> str:
    """``new`` with the endings of the lines that it takes the place of, else of their neighbours."""
    if "\r\n" not in file.text or "\n" not in new:
        return new
    if file.text.count("\r\n") == file.text.count("\n"):
        return new.replace("\n", "\r\n")
    lines = _lines(new)
    last = _neighbour(file, start, end)
    pieces = []
    for (line, ending), kept in zip(lines, _kept_endings(_lines(file.text[start:end]), lines), strict=True):
        last = kept or last
        pieces.append(line + (last if ending else ""))
    return "".join(pieces)


def _lines(text: str) -> list[tuple[str, str]]:
    """(line, its ending); the last one has none."""
    *lines, last = text.split("\n")
    return [*((line[:-1], "\r\n") if line.endswith("\r") else (line, "\n") for line in lines), (last, "")]


def _kept_endings(old: list[tuple[str, str]], new: list[tuple[str, str]]) -> list[str]:
    """For each new line the ending of the old one in its place; empty where there is none."""
    endings = [""] * len(new)
    matcher = difflib.SequenceMatcher(None, [line for line, _ in old], [line for line, _ in new], autojunk=False)
    for kind, old_start, old_end, new_start, new_end in matcher.get_opcodes():
        if kind in ("equal", "replace"):
            for mine, theirs in zip(range(new_start, new_end), range(old_start, old_end), strict=False):
                endings[mine] = old[theirs][1]
    return endings


def _neighbour(file: Text, start: int, end: int) -> str:
    before = file.text[:start]
    if before.endswith("\n"):
        return "\r\n" if before.endswith("\r\n") else "\n"
    after = file.text.find("\n", end)
    if after == -1:
        return file.newline
    return "\r\n" if file.text[after - 1 : after] == "\r" else "\n"
