"""The files that a run works on: the base commit as git stores it, and drafts of a change to it, all in memory.

Neither touches a file system. A draft is immutable: keeping a checkpoint is keeping a reference. What a test run writes
to its checkout can therefore never get into a change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cached_property
from types import MappingProxyType

from agent.errors import ToolRefusal, UserError
from agent.git import GITLINK, LINK, Entry, Git, blob_id
from agent.git_errors import RepositoryTooLarge
from agent.paths import MAX_PATH_BYTES, canonical, check_new_name, folded, is_git_folder, parents
from agent.tree_errors import Binary, NotAFile, missing, named, no_regular_file, spelled_otherwise, unreachable
from agent.types import ChangeSet, FileChange, FileMode
from sandbox.types import MIB

MAX_FILE_BYTES = 2 * MIB
"""Largest file that tools read or write. Larger ones are data, not source."""
MAX_KEPT_BYTES = 64 * MIB
"""Text of a whole repository that is held in memory at most."""
_COMPARED = 1_000
"""Names of one folder that a name which is not there is compared with."""


@dataclass(frozen=True)
class Quota:
    """How large a repository may be."""

    files: int = 200_000
    total_bytes: int = 4096 * MIB


DEFAULT_QUOTA = Quota()


def is_text(content: bytes) -> bool:
    """As git judges it: no NUL among the first 8,000 bytes."""
    return b"\0" not in content[:8_000]


# ── the base ─────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, eq=False)
class BaseTree:
    """The tree of one commit. Use :meth:`load`."""

    git: Git = field(repr=False)
    sha: str
    entries: Mapping[str, Entry] = field(repr=False)
    _kept: dict[str, bytes] = field(default_factory=dict, repr=False)
    """Texts, since they were wanted all at once; not for the sake of one file."""

    @classmethod
    def load(cls, git: Git, sha: str, quota: Quota = DEFAULT_QUOTA) -> BaseTree:
        """Read the listing of commit ``sha``; contents are read when asked for.

        Raises:
            RepositoryTooLarge: more files or bytes than ``quota`` allows.
            UserError: the tree holds names that no checkout may hold.
        """
        entries = git.tree(sha)
        total = sum(entry.size for entry in entries.values())
        if len(entries) > quota.files or total > quota.total_bytes:
            raise RepositoryTooLarge(
                f"The repository has {len(entries)} files of {total // MIB} MiB in all",
                why=f"The limits are {quota.files} files and {quota.total_bytes // MIB} MiB",
                todo="Raise the limits to work on it",
            )
        bad = [path for path in entries if _unfit(path)]
        if bad:
            raise UserError(f"The commit holds paths that no checkout may hold: {named(bad)}", todo="Remove them")
        return cls(git, sha, MappingProxyType(entries))

    def paths(self) -> Collection[str]:
        """Every path, in git's order: files, links and submodules."""
        return self.entries.keys()

    def content(self, path: str) -> bytes:
        """The stored bytes of a file, or the target of a link. Never refused for what they are."""
        return self._kept[path] if path in self._kept else self.git.blob(self.entries[path].blob)

    def contents(self, paths: Sequence[str]) -> Iterator[bytes]:
        """The stored bytes of many files, or targets of links, in order; text is read from git once."""
        kept = self.texts or {}
        others = self.git.blobs(self.entries[path].blob for path in paths if path not in kept)
        return (kept[path] if path in kept else next(others) for path in paths)

    def read(self, path: str) -> bytes:
        """As :meth:`Draft.read` on the untouched tree."""
        return self.draft().read(path)

    def draft(self) -> Draft:
        """A draft without changes."""
        return Draft(self)

    def applied(self, change_set: ChangeSet) -> Draft:
        """A draft with ``change_set`` made; every change is checked as a tool's would be."""
        draft = self.draft()
        for change in change_set.changes:
            draft = draft.changed(change)
        return draft

    @cached_property
    def tree_id(self) -> str:
        return self.git.tree_of(self.sha)

    @cached_property
    def texts(self) -> Mapping[str, bytes] | None:
        """Path → content of each text file; ``None`` when they are too much to be kept in memory."""
        regular = [entry for entry in self.entries.values() if entry.mode not in (LINK, GITLINK)]
        if sum(entry.size for entry in regular) > MAX_KEPT_BYTES:
            return None
        contents = self.git.blobs(entry.blob for entry in regular)
        pairs = zip(regular, contents, strict=True)
        self._kept.update((entry.path, content) for entry, content in pairs if is_text(content))
        return MappingProxyType(self._kept)

    @cached_property
    def folders(self) -> Mapping[str, int]:
        """Folder → number of files anywhere below it."""
        return Counter(folder for path in self.entries for folder in parents(path))

    @cached_property
    def spellings(self) -> Mapping[str, tuple[str, ...]]:
        """Case-folded path or folder → its spellings in the tree."""
        found: dict[str, set[str]] = {}
        for path in self.entries:
            for name in (path, *parents(path)):
                found.setdefault(folded(name), set()).add(name)
        return {key: tuple(sorted(names)) for key, names in found.items()}


# ── a change in progress ─────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class File:
    """The new state of one path."""

    mode: FileMode
    content: bytes


@dataclass(frozen=True)
class Draft:
    """A base and the edits made to it so far. Every method that changes something gives a new draft."""

    base: BaseTree
    edits: Mapping[str, File | None] = field(default_factory=lambda: MappingProxyType({}))
    """Path → its new state, ``None`` when deleted. Never holds what equals the base."""

    # ── looking ──

    def paths(self) -> Collection[str]:
        """Every path, sorted as git does in the base, new ones at the end."""
        return self.entries.keys()

    @cached_property
    def entries(self) -> Mapping[str, Entry]:
        """Path → entry, as a commit of this draft would have it."""
        kept = {path: entry for path, entry in self.base.entries.items() if path not in self.edits}
        made = {
            path: Entry(path, file.mode, blob_id(file.content), len(file.content))
            for path, file in self.edits.items()
            if file is not None
        }
        return MappingProxyType(kept | made)

    @cached_property
    def texts(self) -> Mapping[str, bytes] | None:
        """As :attr:`BaseTree.texts`, with the edits."""
        if self.base.texts is None:
            return None
        kept = {path: content for path, content in self.base.texts.items() if path not in self.edits}
        made = {path: file.content for path, file in self.edits.items() if file is not None}
        return MappingProxyType(kept | {path: content for path, content in made.items() if is_text(content)})

    def __contains__(self, path: str) -> bool:
        return self.mode(path) is not None

    def is_folder(self, path: str) -> bool:
        """Whether some file lies below ``path``."""
        count = self.base.folders.get(path, 0)
        for edited, file in self.edits.items():
            if edited.startswith(f"{path}/"):
                count += (file is not None) - (edited in self.base.entries)
        return count > 0

    def mode(self, path: str) -> str | None:
        """Git's mode of a path; ``None`` where there is none."""
        if path in self.edits:
            file = self.edits[path]
            return None if file is None else file.mode
        entry = self.base.entries.get(path)
        return None if entry is None else entry.mode

    def size(self, path: str) -> int:
        """Bytes of a path that exists."""
        edit = self.edits.get(path)
        return self.base.entries[path].size if edit is None else len(edit.content)

    def content(self, path: str) -> bytes:
        """The bytes of a file, or the target of a link, whatever they are; for the harness, not for a model."""
        edit = self.edits.get(path)
        return self.base.content(path) if edit is None else edit.content

    def read(self, path: str) -> bytes:
        """The bytes of a regular file.

        Raises:
            NotFound, NotAFile, Binary, PathRefused: with what to do instead.
        """
        path = path if path in self else canonical(path)
        self._check_regular(path)
        if path not in self:
            raise self._not_found(path)
        if self.size(path) > MAX_FILE_BYTES:
            raise Binary(f"{path} has {self.size(path)} bytes, too many to work with", todo="Leave it as it is")
        return self.content(path)

    # ── changing ──

    def with_file(self, path: str, content: bytes, mode: FileMode | None = None) -> Draft:
        """Make or replace a regular file.

        Args:
            mode: ``None`` keeps the mode of an existing file and is ``100644`` for a new one.

        Raises:
            NotAFile, Binary, CaseTwin, PathRefused: with what to do instead.
        """
        path = canonical(path)
        self._check_regular(path)
        if len(content) > MAX_FILE_BYTES:
            raise Binary(f"{path} would have {len(content)} bytes; at most {MAX_FILE_BYTES} are allowed")
        if path not in self:
            self._check_spelling(path)
        return self._with(path, File(mode or self._kept_mode(path), content))

    def without(self, path: str) -> Draft:
        """Delete a file, or a link itself.

        Raises:
            NotFound, NotAFile, PathRefused: with what to do instead.
        """
        path = canonical(path)
        if self.mode(path) != LINK:
            self._check_regular(path)
        if path not in self:
            raise self._not_found(path)
        return self._with(path, None)

    def move(self, source: str, target: str) -> Draft:
        """Give a file another path; content and mode stay.

        Raises:
            NotFound, NotAFile, Binary, CaseTwin, PathRefused: with what to do instead.
        """
        content = self.read(source)
        source, target = canonical(source), canonical(target)
        gone = self.without(source)
        if gone.mode(target) not in (None, LINK, GITLINK):
            raise NotAFile(f"{target} exists already", todo="Choose another path, or delete it first")
        return gone.with_file(target, content, self._kept_mode(source))

    def changed(self, change: FileChange) -> Draft:
        """The draft with one more change.

        Raises:
            NotFound, NotAFile, Binary, CaseTwin, PathRefused: with what to do instead.
        """
        if change.content is None:
            return self.without(change.path)
        if change.mode == LINK:
            raise NotAFile(f"{change.path} would be a symbolic link", todo="Make a regular file instead")
        return self.with_file(change.path, change.content, change.mode)

    def restored(self, path: str) -> Draft:
        """One path as the base has it, also when the base does not have it."""
        return replace(self, edits=MappingProxyType({p: f for p, f in self.edits.items() if p != canonical(path)}))

    # ── results ──

    def change_set(self) -> ChangeSet:
        """The edits as data, sorted by path; without what equals the base."""
        return ChangeSet(
            base_sha=self.base.sha,
            changes=tuple(self._change(path, self.edits[path]) for path in sorted(self.edits)),
        )

    def tree_id(self) -> str:
        """The id of the whole tree, stored beside the base."""
        return self._stored if self.edits else self.base.tree_id

    def diff(self, *, context: int = 3, binary: bool = False) -> bytes:
        """The patch from the base to here."""
        if not self.edits:
            return b""
        return self.base.git.diff(self.base.tree_id, self.tree_id(), context=context, binary=binary)

    @cached_property
    def _stored(self) -> str:
        return self.base.git.write_tree(self.base.sha, self.change_set().changes)

    # ── inside ──

    def _change(self, path: str, file: File | None) -> FileChange:
        if file is not None:
            return FileChange(path=path, mode=file.mode, content=file.content)
        return FileChange(path=path, mode=_file_mode(self.base.entries[path].mode), content=None)

    def _with(self, path: str, file: File | None) -> Draft:
        edits = dict(self.edits)
        if self._is_base(path, file):
            edits.pop(path, None)
        else:
            edits[path] = file
        return replace(self, edits=MappingProxyType(edits))

    def _is_base(self, path: str, file: File | None) -> bool:
        entry = self.base.entries.get(path)
        if file is None or entry is None:
            return file is None and entry is None
        return entry.mode == file.mode and entry.size == len(file.content) and self.base.content(path) == file.content

    def _kept_mode(self, path: str) -> FileMode:
        return "100755" if self.mode(path) == "100755" else "100644"

    def _check_regular(self, path: str) -> None:
        """Refuse what is not, or can't become, a regular file."""
        for folder in parents(path):
            mode = self.mode(folder)
            if mode is not None:
                raise unreachable(path, folder, mode)
        mode = self.mode(path)
        if mode is not None and mode in (LINK, GITLINK):
            raise no_regular_file(path, mode)
        if mode is None and self.is_folder(path):
            raise NotAFile(f"{path} is a folder", todo="Name a file in it")

    def _check_spelling(self, path: str) -> None:
        """Refuse a new path that differs only in case from one that is there, or lies in a folder that does, or that
        some systems can't hold."""
        for name in (*parents(path), path):
            twins = self._spellings(name)
            if not twins:
                check_new_name(name)
            elif name not in twins:
                raise spelled_otherwise(path, twins)

    def _spellings(self, name: str) -> tuple[str, ...]:
        key = folded(name)
        candidates = set(self.base.spellings.get(key, ()))
        for path, file in self.edits.items():
            if file is not None:
                candidates.update(n for n in (path, *parents(path)) if folded(n) == key)
        return tuple(sorted(c for c in candidates if c in self or self.is_folder(c)))

    def spelled(self, path: str) -> str:
        """``path``, or the only file that differs from it in case alone."""
        twins = [] if path in self else [twin for twin in self._spellings(path) if twin in self]
        return twins[0] if len(twins) == 1 else path

    def _not_found(self, path: str) -> ToolRefusal:
        name = path.rsplit("/", 1)[-1]
        same_name = [p for p in self.paths() if p.rsplit("/", 1)[-1] == name]
        folder = path[: -len(name)]
        beside = [p for p in self.paths() if p.startswith(folder) and "/" not in p[len(folder) :]]
        near = get_close_matches(path, beside[:_COMPARED], n=1, cutoff=0.8)
        return missing(path, self._spellings(path), same_name, near)


def _unfit(path: str) -> bool:
    """Whether no checkout may hold the path; git's own checks differ by version and by where the objects came from."""
    if len(path) > MAX_PATH_BYTES:
        return True
    return any(part in ("", ".", "..") or is_git_folder(part) for part in path.split("/"))


def _file_mode(mode: str) -> FileMode:
    if mode == "100755":
        return "100755"
    return "120000" if mode == LINK else "100644"
