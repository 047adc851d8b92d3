"""Records in one SQLite file.

A record type is a table, a field is a column; tuples and mappings are JSON text. One connection, one lock: whoever
changes something does it in one transaction, so that a killed process leaves all of it or none.
"""

from __future__ import annotations

import json
import sqlite3
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from agent.errors import OperatorError
from app.devhub.records import KINDS, Record

R = TypeVar("R", bound=Record)


def _hints(kind: type[Record]) -> list[Any]:
    hints = get_type_hints(kind)
    return [hints[field.name] for field in fields(kind)]


def _reader(hint: str) -> Any:
    if "tuple" in hint:
        return lambda raw: None if raw is None else tuple(json.loads(raw))
    if "Mapping" in hint:
        return json.loads
    return bool if "bool" in hint else None


_COLUMNS = {kind: tuple(field.name for field in fields(kind)) for kind in KINDS}
_READERS = {kind: [_reader(str(hint)) for hint in _hints(kind)] for kind in KINDS}
"""How each column is read back: as it is, or through one function."""


_VERSION = zlib.crc32(repr(_COLUMNS).encode()) >> 1
"""Changes when the records change; 31 bits, as SQLite keeps it."""


def _encode(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, tuple | list | dict) else value


def _decode(kind: type[R], row: tuple[Any, ...]) -> R:
    readers = _READERS[kind]
    values = (raw if read is None else read(raw) for raw, read in zip(row, readers, strict=True))
    return kind(**dict(zip(_COLUMNS[kind], values, strict=True)))


class Store:
    """Typed access to the records.

    Args:
        path: the database file, made if missing; ``:memory:`` keeps nothing.
    """

    def __init__(self, path: Path | str) -> None:
        self._lock = threading.RLock()
        self._depth = 0
        self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._check_version()
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = NORMAL")
        with self.transaction():
            self._db.execute(f"PRAGMA user_version = {_VERSION}")
            for kind in KINDS:
                self._create(kind)

    def _check_version(self) -> None:
        """A file of another version is refused: a stand-in's state is made anew, not migrated."""
        (version,) = self._db.execute("PRAGMA user_version").fetchone()
        if version not in (0, _VERSION):
            self._db.close()
            raise OperatorError(
                "The stand-in's state was made by another version",
                why=f"it is version {version}, this is {_VERSION}",
                todo="Remove its folder, or name another one",
            )

    def _create(self, kind: type[Record]) -> None:
        table = kind.__name__
        if self._db.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchone():
            return
        others = ", ".join(name for name in _COLUMNS[kind] if name != "id")
        self._db.execute(f"CREATE TABLE {table} (id INTEGER PRIMARY KEY AUTOINCREMENT, {others})")
        self._db.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", (table, kind.FIRST_ID - 1))

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing, and nobody else in between. May be nested; the outermost one decides."""
        with self._lock:
            if self._depth == 0:
                self._db.execute("BEGIN IMMEDIATE")
            self._depth += 1
            try:
                yield
            except BaseException:
                self._depth -= 1
                if self._depth == 0:
                    self._db.execute("ROLLBACK")
                raise
            self._depth -= 1
            if self._depth == 0:
                self._db.execute("COMMIT")

    def add(self, record: R) -> R:
        """Keep a new record; the answer carries its id."""
        kind = type(record)
        names = [name for name in _COLUMNS[kind] if name != "id"]
        marks = ", ".join("?" * len(names))
        values = [_encode(getattr(record, name)) for name in names]
        sql = f"INSERT INTO {kind.__name__} ({', '.join(names)}) VALUES ({marks})"  # noqa: S608 - names from dataclass fields
        with self._lock:
            return replace(record, id=self._db.execute(sql, values).lastrowid or 0)

    def change(self, record: R, **new: Any) -> R:
        """Keep new values of some fields; the answer is the record as it is now."""
        kind = type(record)
        unknown = set(new) - set(_COLUMNS[kind])
        if unknown:
            raise TypeError(f"{kind.__name__} has no field {sorted(unknown)}")
        sets = ", ".join(f"{name} = ?" for name in new)
        with self._lock:
            self._db.execute(
                f"UPDATE {kind.__name__} SET {sets} WHERE id = ?",  # noqa: S608 - names from dataclass fields
                [*(_encode(value) for value in new.values()), record.id],
            )
        return replace(record, **new)

    def remove(self, record: Record) -> None:
        with self._lock:
            self._db.execute(f"DELETE FROM {type(record).__name__} WHERE id = ?", (record.id,))  # noqa: S608 - a type's name

    def find(self, kind: type[R], **wanted: Any) -> list[R]:
        """Records whose fields equal ``wanted``, in the order in which they were made."""
        unknown = set(wanted) - set(_COLUMNS[kind])
        if unknown:
            raise TypeError(f"{kind.__name__} has no field {sorted(unknown)}")
        where = " AND ".join(f"{name} IS ?" for name in wanted) or "1"
        sql = f"SELECT {', '.join(_COLUMNS[kind])} FROM {kind.__name__} WHERE {where} ORDER BY id"  # noqa: S608 - as above
        with self._lock:
            rows = self._db.execute(sql, list(wanted.values())).fetchall()
        return [_decode(kind, row) for row in rows]

    def first(self, kind: type[R], **wanted: Any) -> R | None:
        """The oldest record whose fields equal ``wanted``."""
        found = self.find(kind, **wanted)
        return found[0] if found else None

    def get(self, kind: type[R], id: int) -> R:
        """The record with this id, which must exist."""
        found = self.first(kind, id=id)
        if found is None:
            raise KeyError(f"no {kind.__name__} {id}")
        return found

    def close(self) -> None:
        with self._lock:
            self._db.close()
