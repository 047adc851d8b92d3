"""Where an issue points: paths in its text, in its links and in its tracebacks, and names of files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from agent.context.frames import Frame
from agent.context.issue import Issue
from agent.context.shares import give, zeros
from agent.index.corpus import Floats
from agent.index.graph import Graph
from agent.index.index import Index
from agent.index.words import words


def path_words(index: Index, query: Mapping[str, float]) -> Floats:
    """BM25-like match of the query with the words of each path."""
    postings = index.cached("path words", lambda: _path_postings(index))
    out: Floats = np.zeros(len(index.paths), np.float32)
    total = len(index.paths)
    for stem, weight in query.items():
        found = postings.get(stem)
        if found is not None:
            out[found] += weight * np.log1p(total / len(found))
    return out / index.cached("path lengths", lambda: _path_lengths(index))


def _path_postings(index: Index) -> dict[str, np.ndarray]:
    found: dict[str, set[int]] = defaultdict(set)
    stems = index.corpus.vocabulary.stems
    for number, path in enumerate(index.paths):
        for stem in stems.of(words(path.rpartition(".")[0])):
            found[stem].add(number)
    return {stem: np.array(sorted(numbers), dtype=np.int32) for stem, numbers in found.items()}


def _path_lengths(index: Index) -> Floats:
    return np.array([2.0 + path.count("/") for path in index.paths], dtype=np.float32)


_NAMESAKES = 2


def mentioned_paths(issue: Issue, graph: Graph) -> Floats:
    """Files whose path, or its end, stands in the text. A bare name that many files have may be the user's own."""
    out = zeros(graph)
    for path in issue.paths:
        found = reached(path, graph)
        if "/" in path or len(found) <= _NAMESAKES:
            for number in found:
                out[number] = max(out[number], (1.0 if "/" in path else 0.6) / len(found))
    return out


def reached(path: str, graph: Graph) -> list[int]:
    """Files that a path from another machine means: those that share its longest tail.

    The bare name of a file in some folder proves nothing: every project has a ``parallel.py``.
    """
    parts = [part for part in path.replace("\\", "/").split("/") if part not in ("", ".", "..")]
    for start in range(max(1, len(parts) - 1)):
        found = graph.files.ending("/".join(parts[start:]))
        if found:
            return [graph.number[item] for item in found]
    return [graph.number[parts[-1]]] if parts and parts[-1] in graph.number else []


def traced(frames: Sequence[Frame], graph: Graph) -> Floats:
    """Files of a traceback; the frame nearest to the error counts most."""
    out = zeros(graph)
    depth = 0
    for frame in reversed(frames):
        found = reached(frame.path, graph)
        depth += bool(found)
        give(out, found, 1.0 / max(1, depth))
    return out


def named_files(issue: Issue, graph: Graph) -> Floats:
    """Files whose bare name is a word of title or prose; a name that many files have says less."""
    said = {word.lower() for word in words(f"{issue.title} {issue.prose}")}
    homes: dict[str, list[int]] = defaultdict(list)
    for file, path in enumerate(graph.paths):
        if file not in graph.tests:
            homes[file_word(path)].append(file)
    out = zeros(graph)
    for word in said & homes.keys():
        if len(word) > 2:
            out[homes[word]] = 1.0 / len(homes[word])
    return out


def file_word(path: str) -> str:
    """The word that a file goes by: its name without suffix, or its folder's where it only stands for that."""
    folder, _, name = path.rpartition("/")
    stem = name.partition(".")[0] or name
    return (folder.rpartition("/")[2] if stem in ("__init__", "index", "mod") else stem).lower().strip("_")
