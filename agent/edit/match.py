"""Finding the one place that an edit means: exactly, apart from line endings, or apart from a uniform indentation.

Each layer must give exactly one place. Two places, or none, is a refusal that says where, so that the next try works.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass

from agent.errors import ToolRefusal

NO_MATCH = "No match"
_MOST_MATCHES = 100
"""So many are looked for: it is clear then that the text is not unique."""
_SHOWN_MATCHES = 8
_SHOWN_LINES = 12
_TOLD_APART = 3
_SHOWN_CHARS = 200
_COMPARED_LINES = 4000
_SIMILAR = 0.5
_WORD = re.compile(r"\w+")
_NUMBERED = re.compile(r"^\s*\d+\s?[|:\t→]")


class EditRefused(ToolRefusal):
    """The edit was not made; nothing of the file changed."""


@dataclass(frozen=True)
class Place:
    """A span of the text and what the search text means there."""

    start: int
    end: int
    added: str = ""
    """Indentation that every line of the file has and the search text lacks."""
    removed: str = ""
    """Indentation that the search text has and the file lacks."""

    def shift(self, text: str) -> str:
        """``text``, written with the search text's indentation, with the file's.

        Raises:
            EditRefused: a line is indented less than what must be taken away.
        """
        if not (self.added or self.removed):
            return text
        return "\n".join(self._line(line) for line in text.split("\n"))

    def _line(self, line: str) -> str:
        if not line.strip():
            return line
        if self.removed and not line.startswith(self.removed):
            raise EditRefused(
                "The search text only matches with less indentation, and the replacement can't be shifted the same way",
                todo="Copy the search text with its exact indentation",
            )
        return self.added + line[len(self.removed) :]


def unified(text: str) -> str:
    """With ``\\n`` as the only line ending."""
    return text.replace("\r\n", "\n")


def locate(text: str, search: str) -> Place:
    """The one place in ``text`` (line ends as ``\\n``) that ``search`` means.

    Raises:
        EditRefused: none or several; with the line numbers, or the nearest lines.
    """
    if not search:
        raise EditRefused("The search text is empty", todo="Give the text to replace, or use insert or write")
    exact = _all(text, search)
    if len(exact) == 1:
        return Place(exact[0], exact[0] + len(search))
    if exact:
        raise _ambiguous(text, [(start, start + len(search)) for start in exact])
    shifted = _shifted(text, search)
    if len(shifted) == 1:
        return shifted[0]
    if shifted:
        raise _ambiguous(text, [(place.start, place.end) for place in shifted])
    raise _missing(text, search)


def line_of(text: str, position: int) -> int:
    """The number of the line at ``position``, from 1."""
    return text.count("\n", 0, position) + 1


def _all(text: str, search: str) -> list[int]:
    """Occurrences, overlapping ones too: with two of them it is not clear which is meant."""
    found: list[int] = []
    start = text.find(search)
    while start != -1 and len(found) < _MOST_MATCHES:
        found.append(start)
        start = text.find(search, start + 1)
    return found


# ── indentation ──────────────────────────────────────────────────────────────────────────────────────────────────


def _shifted(text: str, search: str) -> list[Place]:
    """Places where whole lines equal the search text's apart from one indentation for all."""
    if not search.strip():
        return []
    wanted = search.removesuffix("\n").split("\n")
    lines = text.split("\n")
    starts = _starts(lines)
    places = _alike(lines, wanted)
    if len(places) == _MOST_MATCHES:
        raise _ambiguous(text, [(starts[first], starts[first] + 1) for first in places])
    found = []
    for first in places:
        shift = _shift(lines[first : first + len(wanted)], wanted)
        if shift is not None:
            last = first + len(wanted) - 1
            end = starts[last] + len(lines[last])
            whole = search.endswith("\n") and end < len(text)
            if search.endswith("\n") and not whole:
                continue
            found.append(Place(starts[first], end + whole, *shift))
    return found


def _alike(lines: list[str], wanted: list[str]) -> list[int]:
    """Where ``wanted`` begins in ``lines``, whatever the indentation. Found in one text of them all: to compare the
    lines at each place would take the square of their number."""
    text, sought = ("\n".join(["", *(line.strip() for line in part), ""]) for part in (lines, wanted))
    found, number, before = list[int](), 0, 0
    for place in _all(text, sought):
        number, before = number + text.count("\n", before, place), place
        found.append(number)
    return found


def _starts(lines: list[str]) -> list[int]:
    position = 0
    starts = []
    for line in lines:
        starts.append(position)
        position += len(line) + 1
    return starts


def _shift(lines: list[str], wanted: list[str]) -> tuple[str, str] | None:
    """(indentation to add, to remove) that turns every wanted line into the file's; ``None`` when there is none."""
    shift: tuple[str, str] | None = None
    for line, want in zip(lines, wanted, strict=True):
        if not line.strip() and not want.strip():
            continue
        this = (line[: -len(want)], "") if want and line.endswith(want) else ("", want[: -len(line)])
        if this[0] + want[len(this[1]) :] != line or (this[0] + this[1]).strip() or (shift or this) != this:
            return None
        shift = this
    return shift


# ── refusals ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _ambiguous(text: str, spans: list[tuple[int, int]]) -> EditRefused:
    lines = [line_of(text, start) for start, _ in spans]
    more = " or more" if len(lines) == _MOST_MATCHES else ""
    shown = ", ".join(map(str, lines[:_SHOWN_MATCHES])) + (", …" if len(lines) > _SHOWN_MATCHES else "")
    listed = shown if len(lines) < 2 else " and ".join(shown.rsplit(", ", 1))
    beside = _beside(text, spans) if len(spans) <= _TOLD_APART else ""
    return EditRefused(
        f"{len(lines)}{more} matches, lines {listed}",
        todo=f"Add neighbouring lines to the search text until it is unique{beside}",
    )


def _beside(text: str, spans: list[tuple[int, int]]) -> str:
    """The lines before and behind each span: a next try needs no look."""
    lines = text.split("\n")
    numbers = {n for start, end in spans for n in (line_of(text, start) - 1, line_of(text, max(start, end - 1)) + 1)}
    shown = "\n".join(f"{n}|{lines[n - 1][:_SHOWN_CHARS]}" for n in sorted(numbers) if 0 < n <= len(lines))
    return f". The lines beside them are:\n{shown}" if shown else ""


def _missing(text: str, search: str) -> EditRefused:
    hints = []
    if all(_NUMBERED.match(line) for line in search.splitlines() if line.strip()):
        hints.append("it seems to hold line numbers, which are not part of the file")
    near = nearest(text, search)
    if near and "\t" in near and "\t" not in search and search[:1] == " ":
        hints.append("the file indents with tabs")
    return EditRefused(
        NO_MATCH,
        why="; ".join(hints),
        todo=f"Copy the text exactly. The nearest lines are:\n{near}" if near else "Read the file first",
    )


def nearest(text: str, search: str) -> str:
    """The lines of ``text`` most like ``search``, numbered; empty when nothing is similar."""
    wanted = search.strip("\n").split("\n")
    lines = text.split("\n")
    if len(wanted) == 1 and len(lines) <= _COMPARED_LINES:
        return _listing(lines, *_most_alike(lines, wanted[0]))
    words = set(_WORD.findall(search))
    scores = [_share(line, words) for line in lines]
    size = min(len(wanted), len(lines))
    window = sum(scores[:size])
    best, at = window, 0
    for first in range(1, len(lines) - size + 1):
        window += scores[first + size - 1] - scores[first - 1]
        if window > best + 1e-9:
            best, at = window, first
    while at < len(lines) - size and not scores[at] and _WORD.search(wanted[0]):
        at += 1  # as good, and it begins where the text does
    return _listing(lines, at, size) if best >= size * _SIMILAR else ""


def _share(line: str, words: set[str]) -> float:
    """How much of a line's words the search text has too."""
    own = _WORD.findall(line)
    return sum(word in words for word in own) / len(own) if own else 0.0


def _most_alike(lines: list[str], want: str) -> tuple[int, int]:
    bare = [line.strip()[:200] for line in lines]
    close = difflib.get_close_matches(want.strip()[:200], dict.fromkeys(bare), n=1)
    return (bare.index(close[0]), 1) if close else (0, 0)


def _listing(lines: list[str], at: int, size: int) -> str:
    shown = lines[at : at + min(size, _SHOWN_LINES)]
    return "\n".join(f"{number}|{line}" for number, line in enumerate(shown, at + 1))
