"""What speaks for a function, inside the files that the first stage found.

A candidate is a chunk with a function in it. Shapes: N candidates, D features.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from agent.context.names import plain
from agent.context.places import reached
from agent.context.signals import Evidence
from agent.index.corpus import Floats
from agent.index.record import Symbol
from agent.index.words import parts, words


class Candidate(NamedTuple):
    """A function in one of the files that were found."""

    file: int
    chunk: int
    """Number in the corpus."""
    symbol: Symbol


class Measures(NamedTuple):
    """What each candidate shows by itself."""

    owners: NDArray[np.intp]
    """N: file of each."""
    values: Mapping[str, Floats]
    """Name → N."""


class FunctionFeatures(NamedTuple):
    """Candidates held against each other."""

    at: NDArray[np.intp]
    """N: position of each among those that were measured."""
    names: Sequence[str]
    values: NDArray[np.float32]
    """N × D"""


def candidates(evidence: Evidence, files: Sequence[int]) -> list[Candidate]:
    """Every function of ``files``, in their order."""
    index = evidence.index
    corpus = index.corpus
    wanted = np.zeros(corpus.files, bool)
    wanted[list(files)] = True
    found: dict[int, list[Candidate]] = {file: [] for file in files}
    for chunk in np.flatnonzero(np.append(wanted, False)[corpus.chunk_file]).tolist():
        file, piece = index.piece(chunk)
        if piece.kind == "function":
            found[file].append(Candidate(file, chunk, index.records[file].symbols[piece.symbol]))
    return [candidate for file in files for candidate in found[file]]


_TEXTS = ("whole", "title", "prose")
"""BM25 scores; they count as a share of the best, by rank, and by rank in the file."""


def measure(evidence: Evidence, found: Sequence[Candidate]) -> Measures:
    """What is known of each of ``found``, before any of it is weighed."""
    chunks = np.array([candidate.chunk for candidate in found], np.intp)
    said = _said(evidence)
    own = np.array([_named(candidate, evidence, said) for candidate in found], np.float32).reshape(-1, len(_NAMED))
    texts = zip(_TEXTS, (evidence.whole, evidence.title, evidence.prose), strict=True)
    return Measures(
        np.array([candidate.file for candidate in found], np.intp),
        {
            **{name: scores.chunks[chunks] for name, scores in texts},
            **dict(zip(_NAMED, own.T, strict=True)),
            "traceback": _frames(evidence, found),
            "linked": _links(evidence, found),
            "uses names": _uses(evidence, chunks),
        },
    )


def features(measures: Measures, files: Sequence[int], file_scores: Floats) -> FunctionFeatures:
    """Features of the functions of ``files``, in their order; ``file_scores`` (F) are those of the first stage."""
    position = np.full(len(file_scores), len(files), np.intp)
    position[list(files)] = np.arange(len(files))
    at = np.argsort(position[measures.owners], kind="stable")
    at = at[position[measures.owners[at]] < len(files)]
    if not len(at):
        return FunctionFeatures(at, (), np.zeros((0, 0), np.float32))
    columns = {name: values[at] for name, values in measures.values.items()}
    owners = measures.owners[at]
    for name in _TEXTS:
        values = columns.pop(name)
        columns[f"{name}: score"] = _share(values)
        columns[f"{name}: rank"] = 1.0 / (1.0 + _ranks(values))
        columns[f"{name}: in file"] = 1.0 / (1.0 + _ranks_within(values, owners))
    columns["uses names"] = _share(columns["uses names"])
    columns["file: score"] = file_scores[owners] / max(1e-6, float(np.max(file_scores[list(files)])))
    columns["file: rank"] = 1.0 / (1.0 + position[owners])
    names = tuple(columns)
    return FunctionFeatures(at, names, np.stack([columns[n].astype(np.float32) for n in names], axis=1))


def _share(values: Floats) -> Floats:
    return values / max(1e-6, float(np.max(values)))


def _ranks(values: Floats) -> Floats:
    out = np.empty(len(values), np.float32)
    out[np.argsort(-values, kind="stable")] = np.arange(len(values), dtype=np.float32)
    out[values <= 0] = 1e4
    return out


def _ranks_within(values: Floats, owners: NDArray[np.intp]) -> Floats:
    out = np.empty(len(values), np.float32)
    for owner in np.unique(owners):
        inside = np.flatnonzero(owners == owner)
        out[inside] = _ranks(values[inside])
    return out


class _Said(NamedTuple):
    title: frozenset[str]
    words: frozenset[str]
    qualified: frozenset[str]


def _said(evidence: Evidence) -> _Said:
    issue = evidence.issue
    return _Said(
        frozenset(words(issue.title)),
        frozenset(words(issue.prose)),
        frozenset(name.replace("::", ".").replace("#", ".") for name in issue.names if "." in name or "::" in name),
    )


_NAMED = (
    "name in title",
    "name in prose",
    "class in title",
    "qualified",
    "name overlap",
    "class overlap",
    "length",
    "method",
    "private",
    "dunder",
    "short name",
)


def _named(candidate: Candidate, evidence: Evidence, said: _Said) -> tuple[float, ...]:
    symbol = candidate.symbol
    owner, _, short = symbol.name.rpartition(".")
    owner = owner.rpartition(".")[2]
    tail = f"{owner}.{short}"
    length = symbol.end - symbol.start + 1
    dunder = short.startswith("__") and short.endswith("__")
    return (
        float(short in said.title),
        float(short in said.words),
        float(bool(owner) and owner in said.title),
        float(bool(owner) and any(name == tail or name.endswith("." + tail) for name in said.qualified)),
        _overlap(short, evidence.stems, evidence),
        _overlap(owner, evidence.title_stems, evidence) if owner else 0.0,
        math.log1p(length) / 5,
        float(symbol.kind == "method"),
        float(short.startswith("_") and not dunder),
        float(dunder),
        float(len(parts(short)) == 1),
    )


def _overlap(text: str, query: Mapping[str, float], evidence: Evidence) -> float:
    """Share of the words of ``text``, weighed by rarity, that the query has."""
    total = shared = 0.0
    for word in words(text):
        for stem in evidence.index.corpus.vocabulary.stems(word):
            rarity = evidence.lexical.rarity(stem)
            total += rarity
            shared += rarity if stem in query else 0.0
    return shared / total if total else 0.0


def _frames(evidence: Evidence, found: Sequence[Candidate]) -> Floats:
    out = np.zeros(len(found), np.float32)
    graph = evidence.index.graph
    depth = 0
    for frame in reversed(evidence.issue.frames):
        files = set(reached(frame.path, graph))
        if not files:
            continue
        depth += 1
        for at, candidate in enumerate(found):
            if candidate.file in files:
                same = bool(frame.function) and candidate.symbol.short == frame.function
                near = not frame.function and candidate.symbol.start <= frame.line <= candidate.symbol.end
                if same or near:
                    out[at] = max(out[at], 1.0 / depth)
    return out


def _links(evidence: Evidence, found: Sequence[Candidate]) -> Floats:
    out = np.zeros(len(found), np.float32)
    for link in evidence.issue.links:
        files = set(reached(link.path, evidence.index.graph))
        for at, candidate in enumerate(found):
            if candidate.file in files and candidate.symbol.start - 5 <= link.line <= candidate.symbol.end + 5:
                out[at] = 1.0
    return out


def _uses(evidence: Evidence, chunks: NDArray[np.intp]) -> Floats:
    """How many rare identifiers of the issue stand in the function, exactly as spelled."""
    corpus = evidence.index.corpus
    total = len(corpus.chunk_file)
    all_ = np.zeros(total, np.float32)
    for name in plain(evidence.issue.names):
        where, _ = corpus.of_word(name)
        if 0 < len(where) < total / 10:
            all_[where] += np.log1p(total / len(where))
    return all_[chunks]
