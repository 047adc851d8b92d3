"""Bare repositories through git's own plumbing.

Nothing that comes from a request is an option: revisions go after ``--end-of-options`` or are ids that git gave us.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from agent.errors import BugError
from app.devhub.gitobjects import (
    SHA,
    Commit,
    Entry,
    FileDiff,
    Person,
    Ref,
    Tag,
    TreeChange,
    commit_of,
    data,
    diffs_of,
    entry_of,
    index_line,
    signed,
    tag_of,
    text,
)
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
_PLAIN = ("--no-color", "--no-ext-diff", "--no-textconv", "-M")


class GitFailed(BugError):
    """git refused something that our checks should have refused."""


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
        return [replace(entry, path=prefix + entry.path) for entry in map(entry_of, filter(None, lines))]

    def at(self, commit: str, path: str) -> Entry | None:
        """What stands at ``path`` in a commit's tree."""
        lines = self._git("ls-tree", "-l", "-z", commit, "--", path).split(b"\0")
        return next((entry_of(line) for line in lines if line and entry_of(line).path == path), None)

    def write_tree(self, base: str | None, changes: Iterable[TreeChange], scratch: Path) -> str:
        """A tree: ``base`` (or nothing) with ``changes``. ``scratch`` is a folder for the temporary index."""
        env = {"GIT_INDEX_FILE": str(scratch / "index")}
        if base:
            self._git("read-tree", base, env=env)
        lines = b"".join(index_line(change) for change in changes)
        self._git("update-index", "-z", "--add", "--replace", "--index-info", stdin=lines, env=env)
        return text(self._git("write-tree", env=env)).strip()

    def write_folder(self, folder: Path, scratch: Path) -> str:
        """A tree of all files of a folder, ignored ones too. Nothing of the folder's own git settings is used."""
        env = {"GIT_INDEX_FILE": str(scratch / "index"), "GIT_WORK_TREE": str(folder)}
        self._git("add", "--all", "--force", "--", ".", env=env)
        return text(self._git("write-tree", env=env)).strip()

    def commit(self, sha: str) -> Commit:
        return commit_of(sha, self._git("cat-file", "commit", sha))

    def write_commit(
        self, *, tree: str, parents: Sequence[str], author: Person, committer: Person, message: str, signature: str = ""
    ) -> str:
        head = [f"tree {tree}", *(f"parent {parent}" for parent in parents)]
        head += [f"author {signed(author)}", f"committer {signed(committer)}"]
        if signature:
            head.append("gpgsig " + signature.rstrip("\n").replace("\n", "\n "))
        return self._write("commit", data("\n".join(head) + "\n\n" + message))

    def write_tag(self, *, name: str, object: str, type: str, tagger: Person, message: str) -> str:
        head = f"object {object}\ntype {type}\ntag {name}\ntagger {signed(tagger)}\n\n"
        return self._write("tag", data(head + message.rstrip("\n") + "\n"))

    def tag(self, sha: str) -> Tag:
        return tag_of(sha, self._git("cat-file", "tag", sha))

    # ── differences ──────────────────────────────────────────────────────────────────────────────────────────────

    def diff(self, base: str, head: str) -> list[FileDiff]:
        """Changed files between two commits or trees, renames found."""
        options = ("-r", "-z", "--raw", "--numstat", "-p", "--no-abbrev")
        return diffs_of(self._git("diff-tree", *options, *_PLAIN, base, head))

    def patch(self, base: str, head: str) -> bytes:
        """The difference as ``git diff`` prints it."""
        return self._git("diff-tree", "-r", "-p", *_PLAIN, base, head)

    def merge(self, ours: str, theirs: str) -> str | None:
        """The tree of a merge, or ``None`` where it conflicts."""
        found = self._maybe("merge-tree", "--write-tree", "-z", ours, theirs)
        return text(found).split("\0")[0] if found else None
