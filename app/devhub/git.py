"""Bare repositories through git's own plumbing.

Ids are 40 hex digits. Names and messages travel as ``str`` with surrogateescape where bytes are not UTF-8. Nothing
that comes from a request is an option: revisions go after ``--end-of-options`` or are ids that git gave us.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from agent.errors import BugError
from sandbox import process
from sandbox.types import Finished, Limits

ENVIRONMENT: Mapping[str, str] = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/nonexistent",
    "LC_ALL": "C.UTF-8",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "safe.directory",
    "GIT_CONFIG_VALUE_0": "*",
}
LIMITS = Limits(wall_s=120.0, output_bytes=1 << 30)
EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
CONFIG = """\
[core]
\trepositoryformatversion = 0
\tbare = true
[http]
\treceivepack = true
[receive]
\thideRefs = refs/pull
\tdenyDeleteCurrent = refuse
[uploadpack]
\tallowFilter = true
\tallowAnySHA1InWant = true
[gc]
\tauto = 0
"""
AS_THEY_ARE = "* -text -eol -filter -ident -working-tree-encoding\n"
"""Bytes of files go in and out unchanged, whatever attributes the repository itself asks for."""
SHA = re.compile(r"[0-9a-f]{40}")
ZERO = "0" * 40
BINARY = "-"
_PLAIN = ("--no-color", "--no-ext-diff", "--no-textconv", "-M")


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


class GitFailed(BugError):
    """git refused something that our checks should have refused."""


def text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def data(value: str) -> bytes:
    return value.encode("utf-8", "surrogateescape")


class GitRepository:
    """One bare repository.

    Args:
        path: its git dir.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    # ── running git ──────────────────────────────────────────────────────────────────────────────────────────────

    def _run(self, *args: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> Finished:
        argv = ["git", f"--git-dir={self.path}", "-c", "core.hooksPath=/dev/null", *args]
        cwd = Path((env or {}).get("GIT_WORK_TREE", self.path))
        full = {**ENVIRONMENT, **(env or {})}
        return process.run(argv, cwd=cwd, stdin=stdin, env=full, limits=LIMITS, split_stderr=True)

    def _git(self, *args: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> bytes:
        done = self._run(*args, stdin=stdin, env=env)
        if done.exit_code != 0:
            raise GitFailed(f"git {' '.join(args[:3])} failed", why=text(done.stderr[-500:]))
        return done.stdout

    def _maybe(self, *args: str) -> bytes | None:
        done = self._run(*args)
        return done.stdout if done.exit_code == 0 else None

    def init(self, default_branch: str) -> None:
        """Make the repository, ready for pushes over HTTP."""
        self.path.mkdir(parents=True)
        process.run(
            ["git", "init", "--quiet", "--bare", f"--initial-branch={default_branch}", "--", str(self.path)],
            env=ENVIRONMENT,
            limits=LIMITS,
        )
        (self.path / "config").write_text(CONFIG)
        (self.path / "info").mkdir(exist_ok=True)
        (self.path / "info" / "attributes").write_text(AS_THEY_ARE)

    # ── revisions and refs ───────────────────────────────────────────────────────────────────────────────────────

    def resolve(self, revision: str, type: str = "commit") -> str | None:
        """The id that a branch, tag, full ref or id stands for."""
        if "\n" in revision:
            return None
        candidates = (f"refs/heads/{revision}", f"refs/tags/{revision}", revision)
        asked = "".join(f"{candidate}^{{{type}}}\n" for candidate in candidates)
        answers = text(self._git("cat-file", "--batch-check=%(objectname)", stdin=data(asked))).splitlines()
        return next((answer for answer in answers if SHA.fullmatch(answer)), None)

    def type_of(self, sha: str) -> str | None:
        """``blob``, ``tree``, ``commit`` or ``tag``; ``None`` if there is no such object."""
        found = self._maybe("cat-file", "-t", sha) if SHA.fullmatch(sha) else None
        return text(found).strip() if found else None

    def valid_ref(self, name: str) -> bool:
        return self._run("check-ref-format", name).exit_code == 0

    def refs(self, prefix: str = "refs/") -> list[Ref]:
        """Refs whose full name starts with ``prefix``, sorted."""
        raw = text(self._git("for-each-ref", "--format=%(refname) %(objectname) %(objecttype)"))
        return [Ref(*line.rsplit(" ", 2)) for line in raw.splitlines() if line.startswith(prefix)]

    def ref(self, name: str) -> Ref | None:
        return next((ref for ref in self.refs(name) if ref.name == name), None)

    def set_ref(self, name: str, sha: str, old: str | None = None) -> bool:
        """Move or make a ref; with ``old`` (``ZERO``: must not exist) only from there. False: somebody was faster."""
        return self._run("update-ref", "--", name, sha, *([old] if old else [])).exit_code == 0

    def delete_ref(self, name: str) -> None:
        self._git("update-ref", "-d", name)

    def fetch(self, source: Path, ref: str, target: str) -> None:
        """Bring ``ref`` of another repository here, as ``target``."""
        self._git("fetch", "--quiet", "--no-tags", "--force", "--", str(source), f"{ref}:{target}")

    def is_ancestor(self, old: str, new: str) -> bool:
        return self._run("merge-base", "--is-ancestor", old, new).exit_code == 0

    def merge_base(self, one: str, other: str) -> str | None:
        found = self._maybe("merge-base", one, other)
        return text(found).split()[0] if found else None

    def count(self, since: str, until: str) -> int:
        """Commits that ``until`` has and ``since`` has not."""
        return int(self._git("rev-list", "--count", f"{since}..{until}"))

    def log(self, until: str, since: str | None = None, path: str | None = None) -> list[str]:
        """Ids of commits, newest first."""
        limit = ["--", path] if path else []
        return text(self._git("rev-list", until, *([f"^{since}"] if since else []), *limit)).split()

    # ── objects ──────────────────────────────────────────────────────────────────────────────────────────────────

    def read_blob(self, sha: str) -> bytes:
        return self._git("cat-file", "blob", sha)

    def write_blob(self, content: bytes) -> str:
        return self._write("blob", content)

    def write_blobs(self, contents: Sequence[bytes], scratch: Path) -> list[str]:
        """Many blobs at once; ``scratch`` is a folder for their bytes."""
        files = [scratch / f"blob-{number}" for number in range(len(contents))]
        for file, content in zip(files, contents, strict=True):
            file.write_bytes(content)
        names = "".join(f"{file}\n" for file in files)
        return text(self._git("hash-object", "-w", "--no-filters", "--stdin-paths", stdin=data(names))).split()

    def _write(self, type: str, content: bytes) -> str:
        return text(self._git("hash-object", "-w", "--stdin", "-t", type, stdin=content)).strip()

    def tree(self, sha: str, *, recursive: bool = False, prefix: str = "") -> list[Entry]:
        """Entries of a tree or of a commit's tree; ``prefix`` is put before their paths."""
        flags = ["-r", "-t"] if recursive else []
        lines = self._git("ls-tree", "-l", "-z", *flags, sha).split(b"\0")
        return [replace(entry, path=prefix + entry.path) for entry in map(_entry, filter(None, lines))]

    def at(self, commit: str, path: str) -> Entry | None:
        """What stands at ``path`` in a commit's tree."""
        lines = self._git("ls-tree", "-l", "-z", commit, "--", path).split(b"\0")
        return next((_entry(line) for line in lines if line and _entry(line).path == path), None)

    def write_tree(self, base: str | None, changes: Iterable[TreeChange], scratch: Path) -> str:
        """A tree: ``base`` (or nothing) with ``changes``. ``scratch`` is a folder for the temporary index."""
        env = {"GIT_INDEX_FILE": str(scratch / "index")}
        if base:
            self._git("read-tree", base, env=env)
        lines = b"".join(_index_line(change) for change in changes)
        self._git("update-index", "-z", "--add", "--replace", "--index-info", stdin=lines, env=env)
        return text(self._git("write-tree", env=env)).strip()

    def write_folder(self, folder: Path, scratch: Path) -> str:
        """A tree of all files of a folder, ignored ones too. Nothing of the folder's own git settings is used."""
        env = {"GIT_INDEX_FILE": str(scratch / "index"), "GIT_WORK_TREE": str(folder)}
        self._git("add", "--all", "--force", "--", ".", env=env)
        return text(self._git("write-tree", env=env)).strip()

    def commit(self, sha: str) -> Commit:
        return _parse_commit(sha, self._git("cat-file", "commit", sha))

    def write_commit(
        self, *, tree: str, parents: Sequence[str], author: Person, committer: Person, message: str, signature: str = ""
    ) -> str:
        head = [f"tree {tree}", *(f"parent {parent}" for parent in parents)]
        head += [f"author {_signed(author)}", f"committer {_signed(committer)}"]
        if signature:
            head.append("gpgsig " + signature.rstrip("\n").replace("\n", "\n "))
        return self._write("commit", data("\n".join(head) + "\n\n" + message))

    def write_tag(self, *, name: str, object: str, type: str, tagger: Person, message: str) -> str:
        head = f"object {object}\ntype {type}\ntag {name}\ntagger {_signed(tagger)}\n\n"
        return self._write("tag", data(head + message.rstrip("\n") + "\n"))

    def tag(self, sha: str) -> Tag:
        head, _, message = text(self._git("cat-file", "tag", sha)).partition("\n\n")
        field = dict(line.split(" ", 1) for line in head.splitlines())
        return Tag(sha, field["tag"], field["object"], field["type"], _parse_person(field["tagger"]), message)

    # ── differences ──────────────────────────────────────────────────────────────────────────────────────────────

    def diff(self, base: str, head: str) -> list[FileDiff]:
        """Changed files between two commits or trees, renames found."""
        found = self._git("diff-tree", "-r", "-z", "--raw", "--numstat", "-p", "--no-abbrev", *_PLAIN, base, head)
        heads, _, patch = found.partition(b"\0\0")
        changes, counts = _heads(text(heads).split("\0"))
        return [
            FileDiff(path, previous, status, sha, *counts[path], patch=part)
            for (path, previous, status, sha), part in zip(changes, _patches(patch), strict=True)
        ]

    def patch(self, base: str, head: str) -> bytes:
        """The difference as ``git diff`` prints it."""
        return self._git("diff-tree", "-r", "-p", *_PLAIN, base, head)

    def merge(self, ours: str, theirs: str) -> str | None:
        """The tree of a merge, or ``None`` where it conflicts."""
        found = self._maybe("merge-tree", "--write-tree", "-z", ours, theirs)
        return text(found).split("\0")[0] if found else None


def _entry(line: bytes) -> Entry:
    head, _, path = text(line).partition("\t")
    mode, type, sha, size = head.split()
    return Entry(path, mode, type, sha, None if size == "-" else int(size))


def _index_line(change: TreeChange) -> bytes:
    mode, sha = (change.mode, change.sha) if change.sha else ("0", ZERO)
    return data(f"{mode} {sha}\t{change.path}") + b"\0"


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


def _patches(patch: bytes) -> list[str | None]:
    """The hunks of each file; ``None`` where there are none."""
    files = re.split(rb"^diff --git ", patch, flags=re.MULTILINE)[1:]
    starts = (re.search(rb"^@@", file, flags=re.MULTILINE) for file in files)
    return [
        file[start.start() :].decode("utf-8", "replace").rstrip("\n") if start else None
        for file, start in zip(files, starts, strict=True)
    ]


def _status(letter: str, same_content: bool) -> str:
    if letter == "M":
        return "changed" if same_content else "modified"
    return {"A": "added", "D": "removed", "R": "renamed", "C": "copied", "T": "changed"}[letter]


def _parse_commit(sha: str, raw: bytes) -> Commit:
    head, _, message = text(raw).partition("\n\n")
    parents: list[str] = []
    field: dict[str, str] = {}
    for line in head.split("\n"):
        key, _, value = line.partition(" ")
        if key == "parent":
            parents.append(value)
        elif key:  # an empty key is a continuation line, of a signature for example
            field.setdefault(key, value)
    return Commit(
        sha, field["tree"], tuple(parents), _parse_person(field["author"]), _parse_person(field["committer"]), message
    )


def _parse_person(line: str) -> Person:
    found = re.fullmatch(r"(.*?) ?<(.*?)> (-?\d+) [+-]\d+", line)
    if not found:
        return Person(line, "", "1970-01-01T00:00:00Z")
    return Person(found[1], found[2], stamp(int(found[3])))


def _signed(person: Person) -> str:
    """Name, mail and time as git writes them; signs that would end a field are taken out, as git itself does."""
    clean = [re.sub(r"[<>\n\0]", "", value).strip() for value in (person.name, person.email)]
    return f"{clean[0]} <{clean[1]}> {seconds(person.date)} +0000"


def stamp(at: float) -> str:
    """Seconds since the epoch as ``2030-01-31T12:00:00Z``."""
    return datetime.fromtimestamp(int(at), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def seconds(when: str) -> int:
    """The inverse of ``stamp``; any ISO 8601 time with a zone is read."""
    return int(datetime.fromisoformat(when.replace("Z", "+00:00")).timestamp())
