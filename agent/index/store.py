"""Records on disk: one SQLite file, keyed by blob, shared by every commit of every repository.

It is a cache: whatever is wrong with it, the answer is the same, only later. Damage is thrown away and made anew once;
what can't be written is read; what can't be read is done without. Each of these is one note for the log.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from agent.index.record import Record
from sandbox.closing import Closing

Row = tuple[str, str, str, bytes, int]
"""(key, outline, words, counts, checksum)"""

_APPLICATION = 0x67726674  # "grft": a file of somebody else is never thrown away
_BATCH = 500


class Store(Closing):
    """Records by key. Several readers and one writer can share the file.

    Args:
        path: the file; made with its folder if missing. ``None`` keeps nothing.
        version: of the records; a file of another version is made anew.
        wait_s: how long to wait for another process's lock before doing without.
        max_bytes: of records; where there are more, the file is begun anew.
    """

    def __init__(self, path: Path | None, version: int, *, wait_s: float = 1.0, max_bytes: int = 2_000_000_000) -> None:
        self.notes: list[str] = []
        self._version = version
        self._wait_s = wait_s
        self._max_bytes = max_bytes
        self._path = path
        self._writable = True
        self._held = -1
        """The file as it was opened, as a name alone: while it is held, no other one gets its number."""
        self._db: sqlite3.Connection | None = self._open(path) if path is not None else None

    def get(self, keys: Sequence[str]) -> Iterator[tuple[str, Record]]:
        """The records that are there and whole, in no order."""
        for start in range(0, len(keys), _BATCH):
            for key, outline, words, counts, checksum in self._select(keys[start : start + _BATCH]):
                with contextlib.suppress(ValueError, TypeError, AttributeError):  # damaged: parsed again
                    yield key, Record.unpack(outline, words, counts, checksum)

    def put(self, rows: Iterable[Row]) -> None:
        """Keep records; a failure to do so is noted and has no other effect."""
        if self._db is None or not self._writable:
            return
        try:
            with self._db:
                self._db.executemany("INSERT OR REPLACE INTO records VALUES (?, ?, ?, ?, ?)", rows)
        except sqlite3.Error as error:
            self._writable = False
            self.notes.append(f"The index was not saved: {error}")

    def close(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None
        self._hold(None)

    def _select(self, keys: Sequence[str]) -> list[Row]:
        if self._db is None:
            return []
        marks = ",".join("?" * len(keys))
        try:
            return self._db.execute(f"SELECT * FROM records WHERE key IN ({marks})", keys).fetchall()  # noqa: S608
        except (sqlite3.Error, UnicodeError) as error:
            self._recover(error)
            return []

    def _recover(self, error: Exception) -> None:
        """Damage inside the file: make it anew. A lock: go on without."""
        if self._db is not None:
            self._db.close()
            self._db = None
        if self._path is not None and _is_damage(error) and self._writable:
            self._db = self._replaced(self._path, error)
        else:
            self.notes.append(f"The stored index can't be used now: {error}")

    def _open(self, path: Path) -> sqlite3.Connection | None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            return self._connect(path)
        except (sqlite3.Error, UnicodeError, OSError) as error:
            if path.is_file() and _is_damage(error):
                return self._replaced(path, error)
            return self._read_only(path, error)

    def _replaced(self, path: Path, error: Exception) -> sqlite3.Connection | None:
        """An empty file in place of the damaged one, unless another process has put one there already."""
        self.notes.append(f"The stored index was damaged and is made anew: {error}")
        with contextlib.suppress(sqlite3.Error, OSError):
            with _alone(path.parent):
                if path.exists() and os.path.samestat(path.stat(), os.fstat(self._held)):
                    _remove(path)
            return self._connect(path)
        return None

    def _connect(self, path: Path) -> sqlite3.Connection:
        if not path.exists():
            path.touch(mode=0o600)  # names and words of private code; the files beside it get the same mode
        self._hold(path)
        db = sqlite3.connect(path, timeout=self._wait_s, check_same_thread=False)
        try:
            application = db.execute("PRAGMA application_id").fetchone()[0]
            if _has_tables(db) and application != _APPLICATION:
                raise sqlite3.OperationalError(f"{path} is not an index of ours; remove it, or name another file")
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = NORMAL")
            if self._is_stale(db):
                self._begin_anew(db)
        except BaseException:
            db.close()
            raise
        return db

    def _is_stale(self, db: sqlite3.Connection) -> bool:
        names = ("user_version", "page_count", "freelist_count", "page_size")
        version, pages, free, size = (db.execute(f"PRAGMA {name}").fetchone()[0] for name in names)
        return not _has_tables(db) or version != self._version or (pages - free) * size > self._max_bytes

    def _begin_anew(self, db: sqlite3.Connection) -> None:
        """An empty table and the marks of ours, together: a table without them would be taken for somebody else's."""
        with db:
            db.execute("BEGIN IMMEDIATE")  # sqlite3 begins none by itself for these statements
            if not self._is_stale(db):
                return  # another process has, while this one waited for the lock, and may have kept records there
            db.execute("DROP TABLE IF EXISTS records")
            db.execute(
                "CREATE TABLE records (key TEXT PRIMARY KEY, outline TEXT NOT NULL,"
                " words TEXT NOT NULL, counts BLOB NOT NULL, checksum INTEGER NOT NULL)"
            )
            db.execute(f"PRAGMA application_id = {_APPLICATION}")
            db.execute(f"PRAGMA user_version = {self._version}")

    def _hold(self, path: Path | None) -> None:
        if self._held >= 0:
            os.close(self._held)
        self._held = -1 if path is None else os.open(path, os.O_PATH | os.O_CLOEXEC)

    def _read_only(self, path: Path, error: Exception) -> sqlite3.Connection | None:
        self._writable = False
        # ``immutable`` is needed where not even the shared-memory file of the log can be made.
        for options in ("mode=ro", "mode=ro&immutable=1"):
            db = None
            try:
                address = f"{path.absolute().as_uri()}?{options}"
                db = sqlite3.connect(address, uri=True, timeout=self._wait_s, check_same_thread=False)
                version = db.execute("PRAGMA user_version").fetchone()[0]
                db.execute("SELECT count(*) FROM records WHERE key = ''").fetchone()
                if version == self._version:
                    self.notes.append(f"The stored index is used read-only: {error}")
                    return db
            except sqlite3.Error:
                pass
            if db is not None:
                db.close()
        self.notes.append(f"No stored index, this one is kept in memory: {error}")
        return None


def _is_damage(error: Exception) -> bool:
    """Damage, as opposed to a lock, a permission or a file of somebody else."""
    if isinstance(error, UnicodeError):
        return True
    return isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError)


def _has_tables(db: sqlite3.Connection) -> bool:
    return bool(db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """While no other process does the same."""
    held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
    finally:
        os.close(held)


def _remove(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        with contextlib.suppress(FileNotFoundError):
            Path(f"{path}{suffix}").unlink()
