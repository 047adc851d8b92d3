"""Meaning as one more signal: embeddings of chunks and of the issue, from any OpenAI-compatible endpoint. Optional.

Vectors are kept as float16, keyed by what was embedded, so that an unchanged function is never sent twice. Whatever the
endpoint refuses is split, and in the end left out: the other signals still find it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from agent.context.issue import Issue
from agent.context.vectors import Vector, Vectors
from agent.errors import GraftsmithError
from agent.index.corpus import Floats
from agent.index.index import Index
from agent.model.errors import InputRefused
from agent.model.tokens import estimate_tokens
from agent.model.types import Embedder

PIECE_TOKENS = 1_000
"""A longer chunk is embedded in pieces; its vector is their mean."""

MOST_PIECES = 8
"""What is longer still is data: its beginning stands for it."""

BATCH = 64

BEST = 300
"""Only so many of the most similar chunks count: the rest is noise, and a log has to hold them."""


class Meaning(Protocol):
    """How near each chunk of an index is to an issue."""

    @property
    def notes(self) -> Sequence[str]:
        """What was cut or left out, and why."""
        ...

    def scores(self, index: Index, issue: Issue) -> Floats:
        """Similarity (C, 0 to 1) of each chunk; all 0 where nothing is known."""
        ...

    def close(self) -> None: ...


OnScores = Callable[[Sequence[int], Sequence[float]], None]
"""Told the chunks that count and their similarity."""


class Semantic:
    """Cosine of an issue with every chunk that is not a test.

    Args:
        embedder: the endpoint.
        store: SQLite file for the vectors; ``None`` keeps them in memory.
        on_scores: told the result of each question, from which :class:`RecordedMeaning` answers the same.
    """

    def __init__(
        self, embedder: Embedder, store: Path | None = None, on_scores: OnScores = lambda chunks, scores: None
    ) -> None:
        self._embedder = embedder
        self._on_scores = on_scores
        self._vectors = Vectors(store, embedder.model)
        self._failed = False
        self.notes: list[str] = []

    def scores(self, index: Index, issue: Issue) -> Floats:
        """See :class:`Meaning`. Where the endpoint fails, that is noted."""
        found = self._similar(index, issue)
        best = np.argsort(-found, kind="stable")[:BEST]
        best = best[found[best] > 0]
        values = [round(value, 4) for value in found[best].tolist()]
        self._on_scores(best.tolist(), values)
        return _spread(best, values, len(found))

    def _similar(self, index: Index, issue: Issue) -> Floats:
        out = np.zeros(len(index.corpus.chunk_file), np.float32)
        if self._failed:  # a search must not wait for it again
            return out
        try:
            wanted = self._embed(_pieces(issue.text)[:1])
            chunks, matrix = self._matrix(index)
        except GraftsmithError as error:
            self._failed = True
            self.notes.append(f"Meaning was left out: {error}")
            return out
        if wanted and len(chunks):
            asked = next(iter(wanted.values()))
            if matrix.shape[1] != len(asked):  # the model behind the name was exchanged
                self._vectors.forget()
                index.forget("vectors")
                chunks, matrix = self._matrix(index)
            if matrix.shape[1] == len(asked):
                out[chunks] = np.maximum(matrix @ asked, 0.0)
        return out

    def close(self) -> None:
        self._vectors.close()

    def _matrix(self, index: Index) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        return index.cached("vectors", lambda: self._embed_chunks(index))

    def _embed_chunks(self, index: Index) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        pieces = {chunk: _pieces(text) for chunk, text in _texts(index)}
        vectors = self._embed([piece for parts in pieces.values() for piece in parts])
        size = max((len(vector) for vector in vectors.values()), default=0)
        rows, chunks = [], []
        for chunk, parts in pieces.items():
            found = [vectors[key] for key in map(_key, parts) if key in vectors and len(vectors[key]) == size]
            if found:
                chunks.append(chunk)
                rows.append(_unit(np.mean(found, axis=0)))
        matrix = np.stack(rows) if rows else np.zeros((0, size), np.float32)
        return np.array(chunks, dtype=np.int64), matrix

    def _embed(self, texts: Sequence[str]) -> dict[str, Vector]:
        by_key = {_key(text): text for text in texts if text.strip()}
        known = self._vectors.get(by_key)
        missing = [(key, text) for key, text in by_key.items() if key not in known]
        for start in range(0, len(missing), BATCH):
            fresh = self._batch(missing[start : start + BATCH])
            self._vectors.put(fresh)
            known.update(fresh)
        return known

    def _batch(self, items: Sequence[tuple[str, str]]) -> dict[str, Vector]:
        """Vectors of a batch. A refused one is halved until the culprit is alone; that is cut once, then left out."""
        try:
            found = self._embedder.embed([text for _, text in items])
        except InputRefused as refusal:
            if len(items) > 1:
                half = len(items) // 2
                return {**self._batch(items[:half]), **self._batch(items[half:])}
            return self._shortened(items[0], refusal)
        return {key: _unit(np.asarray(vector, np.float32)) for (key, _), vector in zip(items, found, strict=True)}

    def _shortened(self, item: tuple[str, str], refusal: InputRefused) -> dict[str, Vector]:
        key, text = item
        try:
            vector = self._embedder.embed([text[: len(text) // 4]])[0]
        except InputRefused:
            self.notes.append(f"A text of {len(text)} characters has no vector: {refusal.what}")
            return {}
        self.notes.append(f"A text of {len(text)} characters was cut to a quarter: {refusal.what}")
        return {key: _unit(np.asarray(vector, np.float32))}


class RecordedMeaning:
    """What an earlier run was answered, in order, so that a replay needs no endpoint.

    Args:
        events: the lines of the run's log, decoded; other kinds than ``meaning`` are passed over.
    """

    notes: Sequence[str] = ()

    def __init__(self, events: Iterable[Mapping[str, Any]]) -> None:
        self._answers = iter([event for event in events if event.get("kind") == "meaning"])

    def scores(self, index: Index, issue: Issue) -> Floats:
        """See :class:`Meaning`; beyond the end of the record, and for another tree, all 0."""
        total = len(index.corpus.chunk_file)
        answer = next(self._answers, None)
        chunks = np.array(answer["chunks"] if answer else [], dtype=np.int64)
        fits = not len(chunks) or int(np.max(chunks)) < total
        return _spread(chunks, answer["scores"], total) if answer and fits else np.zeros(total, np.float32)

    def close(self) -> None:
        """Nothing is open."""


def _spread(chunks: NDArray[np.int64], scores: Sequence[float], total: int) -> Floats:
    out = np.zeros(total, np.float32)
    out[chunks] = scores
    return out


def _texts(index: Index) -> Iterable[tuple[int, str]]:
    lines: dict[int, list[str]] = {}
    for chunk in np.flatnonzero(index.corpus.chunk_file >= 0).tolist():
        file, piece = index.piece(chunk)
        if file in index.graph.tests:
            continue
        if file not in lines:
            lines[file] = index.text(index.paths[file]).split("\n")
        yield chunk, f"{index.paths[file]}\n" + "\n".join(lines[file][piece.start - 1 : piece.end])


def _pieces(text: str) -> list[str]:
    """Runs of whole lines of at most ``PIECE_TOKENS``; a line that is longer is cut."""
    pieces: list[str] = []
    current: list[str] = []
    size = 0
    for line in text.split("\n"):
        line = line[: 4 * PIECE_TOKENS]
        cost = estimate_tokens(line) + 1
        if current and size + cost > PIECE_TOKENS:
            pieces.append("\n".join(current))
            current, size = [], 0
        if len(pieces) == MOST_PIECES:
            return pieces
        current.append(line)
        size += cost
    return [piece for piece in [*pieces, "\n".join(current)] if piece.strip()][:MOST_PIECES]


def _key(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _unit(vector: Vector) -> Vector:
    length = float(np.linalg.norm(vector))
    return (vector / length if length else vector).astype(np.float32)
