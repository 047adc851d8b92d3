"""BM25 over code-aware stems: of the chunks and the files of a corpus at once, and of documents put together by hand.

A query is stem → weight. Shapes: C chunks, F files, D documents.

Source: Robertson and Zaragoza, The Probabilistic Relevance Framework: BM25 and Beyond (2009), with an idf that is never
negative.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

import numpy as np

from agent.index.corpus import Corpus, Floats, Ints

K1 = 1.2
B = 0.75

Query = Mapping[str, float]


class Scores(NamedTuple):
    """How well each chunk, and each file as a whole, fits a query; 0 where no word is shared."""

    chunks: Floats
    files: Floats


class _Term(NamedTuple):
    chunks: Ints
    chunk_part: Floats
    files: Ints
    file_part: Floats


class Lexical:
    """Scores queries on the part of a corpus that ``wanted`` (F, bool) marks; what a stem gives is computed once."""

    def __init__(self, corpus: Corpus, wanted: np.ndarray) -> None:
        self.corpus = corpus
        self.wanted = wanted
        alive = np.append(wanted, False)[corpus.chunk_file]  # -1, a chunk that is gone, reads the last
        self._alive = alive
        self._chunks, self._files = max(1, int(alive.sum())), max(1, int(wanted.sum()))
        self._chunk_norm = _norm(corpus.chunk_length, alive)
        self._file_norm = _norm(corpus.file_length, wanted)
        self._terms: dict[str, _Term] = {}
        self._rarity: dict[str, float] = {}

    def score(self, query: Query) -> Scores:
        """How well all fit; a stem that is nowhere adds nothing."""
        chunks = np.zeros(len(self.corpus.chunk_file), np.float32)
        files = np.zeros(self.corpus.files, np.float32)
        for stem, weight in query.items():
            term = self._term(stem)
            chunks[term.chunks] += weight * term.chunk_part
            files[term.files] += weight * term.file_part
        return Scores(chunks, files)

    def rarity(self, stem: str) -> float:
        """IDF of a stem among the files; 0 where it does not occur."""
        known = self._rarity.get(stem)
        if known is None:
            found = len(self._term(stem).files)
            known = self._rarity[stem] = _idf(self._files, found) if found else 0.0
        return known

    def _term(self, stem: str) -> _Term:
        term = self._terms.get(stem)
        if term is None:
            term = self._terms[stem] = self._compute(stem)
        return term

    def _compute(self, stem: str) -> _Term:
        chunks, times = self.corpus.of_stem(stem)
        kept = self._alive[chunks]
        chunks, times = chunks[kept], times[kept]
        per_file = np.bincount(self.corpus.chunk_file[chunks], weights=times, minlength=self.corpus.files)
        files = np.flatnonzero(per_file).astype(np.int32)
        in_file = per_file[files].astype(np.float32)
        return _Term(
            chunks,
            _parts(_idf(self._chunks, len(chunks)), times, self._chunk_norm[chunks]),
            files,
            _parts(_idf(self._files, len(files)), in_file, self._file_norm[files]),
        )


class Documents:
    """Documents (D) that grow piece by piece, of which one can count for less than another.

    Args:
        count: D.
        b: how much a document's length counts against it, 0 to 1.
    """

    def __init__(self, count: int, b: float = B) -> None:
        self._b = b
        self._length = np.zeros(count, np.float32)
        self._there = np.zeros(count, bool)
        self._where: defaultdict[str, list[int]] = defaultdict(list)
        self._parts: defaultdict[str, list[float]] = defaultdict(list)

    def add(self, stems: Collection[str], documents: Collection[int], part: float = 1.0) -> None:
        """A piece of several documents, each of which it makes longer by ``part`` of its stems."""
        self._there[list(documents)] = True
        self._length[list(documents)] += part * len(stems)
        for stem in stems:
            self._where[stem] += documents
            self._parts[stem] += [part] * len(documents)

    def score(self, query: Query) -> Floats:
        """How well each document (D) fits; 0 where no stem is shared."""
        out = np.zeros(len(self._length), np.float32)
        norm, total = _norm(self._length, self._there, self._b), int(self._there.sum())
        for stem, weight in query.items():
            if stem in self._where:
                times = np.bincount(self._where[stem], self._parts[stem], len(out)).astype(np.float32)
                out += weight * _parts(_idf(total, int(np.count_nonzero(times))), times, norm)
        return out


def _parts(idf: float, times: Floats, norm: Floats) -> Floats:
    return np.float32(idf) * times * (K1 + 1) / (times + norm)


def _idf(total: int, found: int) -> float:
    return math.log1p((total - found + 0.5) / (found + 0.5))


def _norm(length: Floats, counted: np.ndarray, b: float = B) -> Floats:
    """What ``times`` is held against; the mean length is that of the documents that are ``counted``."""
    mean = float(length[counted].mean()) if counted.any() else 1.0
    return (K1 * (1 - b + b * length / max(mean, 1e-6))).astype(np.float32)


def query_of(stems: Iterable[str], *, times: float = 1.0) -> dict[str, float]:
    """Stem → how often it occurs, times ``times``."""
    query: dict[str, float] = {}
    for stem in stems:
        query[stem] = query.get(stem, 0.0) + times
    return query


def damped(*queries: Query) -> dict[str, float]:
    """The sum of queries, each weight as log(1 + weight): the tenth mention says little more than the second."""
    total: dict[str, float] = {}
    for query in queries:
        for stem, weight in query.items():
            total[stem] = total.get(stem, 0.0) + weight
    return {stem: float(np.log1p(weight)) for stem, weight in total.items()}
