"""Git's objects as values, and how they are read from and written as git's own text. Pure.

Ids are 40 hex digits. Names and messages travel as ``str`` with surrogateescape where bytes are not UTF-8.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

SHA = re.compile(r"[0-9a-f]{40}")
ZERO = "0" * 40
BINARY = "-"


@dataclass(frozen=True)
class Person:
    name: str
    email: str
    date: str
    """``2030-01-31T12:00:00Z``."""


@dataclass(frozen=True)
class Commit:
    sha: str
    tree: str
    parents: tuple[str, ...]
    author: Person
    committer: Person
    message: str


@dataclass(frozen=True)
class Tag:
    sha: str
    name: str
    object: str
    type: str
    tagger: Person
    message: str


@dataclass(frozen=True)
class Entry:
    """One line of a tree. ``size`` is known for blobs only."""

    path: str
    mode: str
    type: str
    sha: str
    size: int | None = None


@dataclass(frozen=True)
class TreeChange:
    """``sha is None`` means: take the path away."""

    path: str
    mode: str
    sha: str | None


@dataclass(frozen=True)
class FileDiff:
    path: str
    previous: str | None
    status: str
    """``added``, ``removed``, ``modified``, ``renamed`` or ``changed`` (mode or type only)."""
    sha: str
    additions: int
    deletions: int
    patch: str | None
    """From the first ``@@``; ``None`` for binary files and pure renames."""


@dataclass(frozen=True)
class Ref:
    name: str
    sha: str
    type: str


def text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def data(value: str) -> bytes:
    return value.encode("utf-8", "surrogateescape")


def entry_of(line: bytes) -> Entry:
    head, _, path = text(line).partition("\t")
    mode, type, sha, size = head.split()
    return Entry(path, mode, type, sha, None if size == "-" else int(size))


def index_line(change: TreeChange) -> bytes:
    mode, sha = (change.mode, change.sha) if change.sha else ("0", ZERO)
    return data(f"{mode} {sha}\t{change.path}") + b"\0"


def diffs_of(found: bytes) -> list[FileDiff]:
    """Changed files out of ``diff-tree -z --raw --numstat -p``."""
    heads, _, patch = found.partition(b"\0\0")
    changes, counts = _heads(text(heads).split("\0"))
    return [
        FileDiff(path, previous, status, sha, *counts[path], patch=part)
        for (path, previous, status, sha), part in zip(changes, _hunks(patch), strict=True)
    ]


Change = tuple[str, str | None, str, str]
"""Path, previous path, status, blob."""


def _heads(fields: list[str]) -> tuple[list[Change], dict[str, tuple[int, int]]]:
    """Changes, and lines added and deleted by path, out of ``diff-tree -z --raw --numstat``."""
    changes, counts = [], {}
    rest = iter(field for field in fields if field)
    for head in rest:
        if head.startswith(":"):
            _, _, old, new, letter = head.lstrip(":").split()
            path, previous = next(rest), None
            if letter[0] in "RC":
                path, previous = next(rest), path
            changes.append((path, previous, _status(letter[0], old == new), old if letter == "D" else new))
        else:
            added, deleted, path = head.split("\t", 2)
            if not path:  # a rename: the old and the new name follow
                next(rest)
                path = next(rest)
            counts[path] = (0, 0) if added == BINARY else (int(added), int(deleted))
    return changes, counts


def _hunks(patch: bytes) -> list[str | None]:
    """The hunks of each file; ``None`` where there are none."""
    files = re.split(rb"^diff --git ", patch, flags=re.MULTILINE)[1:]
    starts = (re.search(rb"^@@", file, flags=re.MULTILINE) for file in files)
    return [
        file[start.start() :].decode("utf-8", "replace").rstrip("\n") if start else None
        for file, start in zip(files, starts, strict=True)
    ]


_HUNK = re.compile(r"^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")


@dataclass(frozen=True)
class Row:
    """One line of a patch, with its number on each side where it has one."""

    raw: str
    old: int | None = None
    new: int | None = None

    @property
    def is_head(self) -> bool:
        """A part of the patch begins."""
        return _HUNK.match(self.raw) is not None

    @property
    def kind(self) -> str:
        """``add``, ``del``, ``hunk`` for what is no line of the file, or empty."""
        if self.old is None:
            return "hunk" if self.new is None else "add"
        return "del" if self.new is None else ""

    @property
    def text(self) -> str:
        """Without its sign."""
        if self.kind == "hunk":
            return self.raw.removeprefix("\\ ")
        return self.raw[1:]


def rows(patch: str) -> Iterator[Row]:
    """A patch line by line."""
    old = new = 0
    for raw in patch.split("\n") if patch else ():
        if head := _HUNK.match(raw):
            old, new = int(head[1]), int(head[2])
        before, after = (not head and raw[:1] not in ("\\", sign) for sign in "+-")
        yield Row(raw, old if before else None, new if after else None)
        old, new = old + before, new + after


def _status(letter: str, same_content: bool) -> str:
    if letter == "M":
        return "changed" if same_content else "modified"
    return {"A": "added", "D": "removed", "R": "renamed", "C": "copied", "T": "changed"}[letter]


def commit_of(sha: str, raw: bytes) -> Commit:
    head, _, message = text(raw).partition("\n\n")
    parents: list[str] = []
    field: dict[str, str] = {}
    for line in head.split("\n"):
        key, _, value = line.partition(" ")
        if key == "parent":
            parents.append(value)
        elif key:  # an empty key is a continuation line, of a signature for example
            field.setdefault(key, value)
    return Commit(sha, field["tree"], tuple(parents), _person(field["author"]), _person(field["committer"]), message)


def tag_of(sha: str, raw: bytes) -> Tag:
    head, _, message = text(raw).partition("\n\n")
    field = dict(line.split(" ", 1) for line in head.splitlines())
    return Tag(sha, field["tag"], field["object"], field["type"], _person(field["tagger"]), message)


def _person(line: str) -> Person:
    found = re.fullmatch(r"(.*?) ?<(.*?)> (-?\d+) [+-]\d+", line)
    if not found:
        return Person(line, "", "1970-01-01T00:00:00Z")
    return Person(found[1], found[2], stamp(int(found[3])))


def signed(person: Person) -> str:
    """Name, mail and time as git writes them; signs that would end a field are taken out, as git itself does."""
    clean = [re.sub(r"[<>\n\0]", "", value).strip() for value in (person.name, person.email)]
    return f"{clean[0]} <{clean[1]}> {seconds(person.date)} +0000"


def stamp(at: float) -> str:
    """Seconds since the epoch as ``2030-01-31T12:00:00Z``."""
    return datetime.fromtimestamp(int(at), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def seconds(when: str) -> int:
    """The inverse of ``stamp``; any ISO 8601 time with a zone is read."""
    return int(datetime.fromisoformat(when.replace("Z", "+00:00")).timestamp())
