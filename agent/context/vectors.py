"""Vectors of texts that were embedded, on disk as float16."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float32]


class Vectors:
    """Vectors by key in one SQLite file of their own. A damaged one is made anew; where it can't be used, as while
    somebody locks it, they are kept in memory."""

    def __init__(self, path: Path | None, model: str) -> None:
        self._model = model
        self._db = _opened(path)

    def get(self, keys: Iterable[str]) -> dict[str, Vector]:
        """Those of ``keys`` that are known."""
        found: dict[str, Vector] = {}
        with contextlib.suppress(sqlite3.Error):
            for key in keys:
                asked = "SELECT data FROM vectors WHERE model = ? AND key = ?"
                for (data,) in self._db.execute(asked, (self._model, key)):
                    found[key] = np.frombuffer(data, dtype="<f2").astype(np.float32)
        return found

    def put(self, vectors: Mapping[str, Vector]) -> None:
        rows = [(self._model, key, vector.astype("<f2").tobytes()) for key, vector in vectors.items()]
        with contextlib.suppress(sqlite3.Error), self._db:
            self._db.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", rows)

    def forget(self) -> None:
        """Drop this model's vectors: its dimension changed."""
        with contextlib.suppress(sqlite3.Error), self._db:
            self._db.execute("DELETE FROM vectors WHERE model = ?", (self._model,))

    def close(self) -> None:
        self._db.close()


def _opened(path: Path | None) -> sqlite3.Connection:
    with contextlib.suppress(sqlite3.OperationalError, OSError):
        try:
            return _connected(path or ":memory:")
        except sqlite3.DatabaseError as error:
            if path is None or isinstance(error, sqlite3.OperationalError):
                raise
            path.unlink()
            return _connected(path)
    return _connected(":memory:")


def _connected(place: Path | str) -> sqlite3.Connection:
    db = sqlite3.connect(place, timeout=1.0)
    try:
        db.execute("CREATE TABLE IF NOT EXISTS vectors (model TEXT, key TEXT, data BLOB, PRIMARY KEY (model, key))")
    except sqlite3.Error:
        db.close()
        raise
    return db
