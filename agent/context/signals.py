"""What speaks for a file: each signal is an array over all files, 0 where it says nothing.

Signals are computed alone and know nothing of each other's weight; ``agent.context.rank`` joins them.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from agent.context.frames import Frame
from agent.context.issue import Issue
from agent.context.lexical import Lexical, Query, Scores, damped, query_of
from agent.context.past import Past
from agent.index.corpus import Floats
from agent.index.graph import Graph
from agent.index.history import Commit
from agent.index.index import Index
from agent.index.languages.base import parent
from agent.index.words import Stems, words

Signals = dict[str, Floats]
"""Name → values (F)."""

_TOP = (1.0, 0.5, 0.33)

_WANTED = frozenset(
    {
        "whole: best functions", "title: best functions", "title: file", "prose: best function",
        "prose: best functions", "prose: file", "said: best function", "traces: file",
    }
)  # fmt: skip
"""Of the BM25 scores, those that help once the others are there; see ``docs/retrieval.md``."""


@dataclass(frozen=True)
class Evidence:
    """An issue held against an index, with the BM25 scores of all of it, of its title, and of title and prose."""

    index: Index
    issue: Issue
    lexical: Lexical
    whole: Scores
    title: Scores
    prose: Scores
    stems: Query
    """Of the whole issue."""
    title_stems: Query
    files: Signals


def gather(
    index: Index, issue: Issue, history: Sequence[Commit] | None = None, meaning: Floats | None = None
) -> Evidence:
    """All signals of an issue.

    Args:
        history: earlier commits, newest first.
        meaning: similarity (C) of each chunk.
    """
    wanted = np.ones(len(index.paths), bool)
    wanted[list(index.graph.tests)] = False
    lexical = index.cached("lexical", lambda: Lexical(index.corpus, wanted))
    queries = _queries(issue, index.corpus.vocabulary.stems)
    scores = {name: lexical.score(query) for name, query in queries.items()}
    files = {
        **_by_text(index, scores),
        **_by_place(index, issue, queries),
        **_by_name(index, issue, wanted),
        "tests": through_tests(index, queries["title"]),
        "imports": imports_of(scores["whole"].files, index.graph),
    }
    if history:
        files |= _by_history(index, issue, queries["title"], history, wanted)
    if meaning is not None:
        files["meaning: best functions"] = best_chunks(meaning, index)[1]
    keep = wanted.astype(np.float32)
    files = {name: (values * keep).astype(np.float32) for name, values in files.items()}
    whole, title, prose = scores["whole"], scores["title"], scores["prose"]
    return Evidence(index, issue, lexical, whole, title, prose, queries["whole"], queries["title"], files)


def _queries(issue: Issue, stems: Stems) -> dict[str, Query]:
    """The issue as several questions: what only the title asks must not drown in what the body says."""
    traces = " ".join(f"{frame.function} {frame.path.rpartition('/')[2]}" for frame in issue.frames)

    def said(text: str) -> Query:
        return query_of(stems.of(words(text)))

    title, prose = said(issue.title), said(issue.prose)
    shown = said(f"{traces} {' '.join(issue.messages)}")
    return {
        "whole": damped({stem: 3 * weight for stem, weight in title.items()}, prose, said(issue.code), shown),
        "title": damped(title),
        "prose": damped(title, prose),
        "said": damped(said(" ".join(issue.said))),
        "traces": damped(shown),
    }


def _by_text(index: Index, scores: Mapping[str, Scores]) -> Signals:
    found: dict[str, Floats] = {}
    for name, score in scores.items():
        found[f"{name}: best function"], found[f"{name}: best functions"] = best_chunks(score.chunks, index)
        found[f"{name}: file"] = score.files
    return {name: values for name, values in found.items() if name in _WANTED}


def _by_place(index: Index, issue: Issue, queries: Mapping[str, Query]) -> Signals:
    graph = index.graph
    return {
        "path": path_words(index, queries["whole"]),
        "path title": path_words(index, queries["title"]),
        "path names": path_words(index, queries["said"]),
        "path mentioned": mentioned_paths(issue, graph),
        "file named": named_files(issue, graph),
        "links": traced(issue.links, graph),
        "traceback": traced(issue.frames, graph),
    }


def _by_name(index: Index, issue: Issue, wanted: np.ndarray) -> Signals:
    graph = index.graph
    return {
        "definitions": definitions(issue.names, graph),
        "definitions titled": titled(issue, graph),
        "usage": usage(issue.names, index, wanted),
        "qualified": qualified(issue.said, graph),
        "imported": imported(issue, graph),
    }


def _by_history(index: Index, issue: Issue, title: Query, history: Sequence[Commit], wanted: np.ndarray) -> Signals:
    stems = index.corpus.vocabulary.stems
    past = index.cached(f"past {history[0].sha} {len(history)}", lambda: Past(history, stems, index.paths, wanted))
    return {"history": past.signal(title), "subjects": past.subjects(title), "commits named": past.named(issue)}


_SIDE = frozenset(
    {
        "docs", "doc", "examples", "example", "samples", "benchmarks", "benchmark", "asv_bench", "demo", "demos",
        "galleries", "gallery", "tutorials", "tutorial",
    }
)  # fmt: skip
"""Folders beside the product."""


def prior(index: Index) -> Floats:
    """Factor of each file: tests are not wanted, text and what stands beside the product only when they stand out."""

    def make() -> Floats:
        out = np.ones(len(index.paths), np.float32)
        for file, (path, record) in enumerate(zip(index.paths, index.records, strict=True)):
            if file in index.graph.tests:
                out[file] = 0.0
            elif record.language == "text" or not _SIDE.isdisjoint(path.split("/")[:-1]):
                out[file] = 0.5
        return out

    return index.cached("prior", make)


def best_chunks(chunks: Floats, index: Index) -> tuple[Floats, Floats]:
    """(best, 1 · best + ½ · second + ⅓ · third) of the chunk scores of each file."""
    best, total = np.zeros(index.corpus.files, np.float32), np.zeros(index.corpus.files, np.float32)
    found = np.flatnonzero((chunks > 0) & (index.corpus.chunk_file >= 0))
    left = found[np.argsort(-chunks[found], kind="stable")]
    for share in _TOP:
        owner, first = np.unique(index.corpus.chunk_file[left], return_index=True)
        total[owner] += share * chunks[left[first]]
        best = best if share < 1 else total.copy()
        left = np.delete(left, first)
    return best, total


def _none(graph: Graph) -> Floats:
    return np.zeros(len(graph.paths), np.float32)


def _share(out: Floats, files: Collection[int], amount: float, *, most: int | None = None) -> None:
    """Each of ``files`` gets an equal part of ``amount``; none does where they are more than ``most``."""
    if files and (most is None or len(files) <= most):
        out[list(files)] += amount / len(files)


# ── paths ────────────────────────────────────────────────────────────────────────────────────────────────────────


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
    out = _none(graph)
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
    out = _none(graph)
    depth = 0
    for frame in reversed(frames):
        found = reached(frame.path, graph)
        depth += bool(found)
        _share(out, found, 1.0 / max(1, depth))
    return out


# ── names ────────────────────────────────────────────────────────────────────────────────────────────────────────


def definitions(names: Iterable[str], graph: Graph) -> Floats:
    """Files that define what the issue names; a name that many define says less."""
    out = _none(graph)
    for name in plain(names):
        _share(out, {file for file, _ in graph.defined.get(name, ())} - graph.tests, 1.0, most=30)
    return out


def titled(issue: Issue, graph: Graph) -> Floats:
    """Files that define a function or class whose name is a word of the title, in the same case."""
    out = _none(graph)
    elsewhere = set(words(f"{issue.prose} {issue.code}"))
    for word in dict.fromkeys(words(issue.title)):  # in their order, because sums of fractions depend on it
        if len(word) > 2 or word in elsewhere:
            found = graph.defined.get(word, ())
            homes = {f for f, at in found if graph.records[f].symbols[at].kind != "variable"}
            _share(out, homes - graph.tests, 1.0, most=10)
    return out


_SEPARATOR = re.compile(r"\.|::|#|->")


def plain(names: Iterable[str]) -> list[str]:
    """The identifiers inside plain and qualified names, each once, in order."""
    return list(dict.fromkeys(part for name in names for part in _SEPARATOR.split(name) if len(part) > 2))


def usage(names: Iterable[str], index: Index, wanted: np.ndarray) -> Floats:
    """Files that use the issue's identifiers exactly as spelled, damped by their length."""
    out = np.zeros(len(index.paths), np.float32)
    total = max(1, int(wanted.sum()))
    for name in plain(names):
        chunks, times = index.corpus.of_word(name)
        files = index.corpus.chunk_file[chunks]
        alive = files >= 0
        per_file = np.bincount(files[alive], weights=times[alive], minlength=len(out)) * wanted
        count = int(np.count_nonzero(per_file))
        if 0 < count < total / 2:
            out += (np.log1p(total / count) * per_file / (per_file + 1.0)).astype(np.float32)
    damped_by: Floats = np.log(20.0 + index.corpus.file_length).astype(np.float32)
    return out / damped_by


def qualified(names: Iterable[str], graph: Graph) -> Floats:
    """Files that define ``Class.method`` or ``module.function`` as the issue writes it."""
    out = _none(graph)
    for name in names:
        parts = _SEPARATOR.split(name)
        if len(parts) > 1:
            _share(out, _qualified(parts, graph), 1.0)
    return out


def _qualified(parts: list[str], graph: Graph) -> set[int]:
    owner, member = parts[-2], parts[-1]
    tail = f"{owner}.{member}"
    homes = graph.defined.get(member, ())
    exact = {f for f, at in homes if ("." + graph.records[f].symbols[at].name).endswith("." + tail)}
    exact -= graph.tests
    if exact:
        return exact if len(exact) <= 10 else set()
    in_module = {f for f, _ in homes if _module_ends(graph.paths[f], parts[:-1])} - graph.tests
    if in_module:
        return in_module if len(in_module) <= 10 else set()
    # ``package.module.Class.missing``: whatever the front part names
    module = {graph.number[p] for p in graph.files.ending("/".join(parts) + ".py")}
    return (module or {f for f, _ in graph.defined.get(owner, ()) if owner[:1].isupper()}) - graph.tests


def _module_ends(path: str, parts: Sequence[str]) -> bool:
    stem = path.rpartition(".")[0].removesuffix("/__init__").removesuffix("/index").split("/")
    # The issue may name a package that re-exports what a module inside defines.
    return stem[-len(parts) :] == list(parts) or (len(parts) > 1 and stem[: len(parts)] == list(parts))


_FROM = re.compile(r"^\s*(?:>>> |\.\.\. |In \[\d+\]: )?from\s+([\w.]+)\s+import\s+\(?([\w, *]+)", re.M)


def imported(issue: Issue, graph: Graph) -> Floats:
    """Files that define what a snippet imports, through re-exports, as far as title and prose talk about it."""
    out = _none(graph)
    title, prose = Counter(words(issue.title)), Counter(words(issue.prose))
    for module, names in _FROM.findall(f"{issue.code}\n{issue.prose}"):
        for name in names.replace(",", " ").split():
            said = 3.0 * (name in title) + min(3, title[name] + prose[name])
            homes = {f for f, _ in graph.defined.get(name, ())} - graph.tests if said else set()
            package = module.split(".")[0]
            _share(out, [f for f in homes if f"/{package}/" in f"/{graph.paths[f]}"], said)
    return out


def named_files(issue: Issue, graph: Graph) -> Floats:
    """Files whose bare name is a word of title or prose; a name that many files have says less."""
    said = {word.lower() for word in words(f"{issue.title} {issue.prose}")}
    homes: dict[str, list[int]] = defaultdict(list)
    for file, path in enumerate(graph.paths):
        if file not in graph.tests:
            homes[file_word(path)].append(file)
    out = _none(graph)
    for word in said & homes.keys():
        if len(word) > 2:
            out[homes[word]] = 1.0 / len(homes[word])
    return out


def file_word(path: str) -> str:
    """The word that a file goes by: its name without suffix, or its folder's where it only stands for that."""
    folder, _, name = path.rpartition("/")
    stem = name.partition(".")[0] or name
    return (folder.rpartition("/")[2] if stem in ("__init__", "index", "mod") else stem).lower().strip("_")


# ── structure ────────────────────────────────────────────────────────────────────────────────────────────────────


_BEST_TESTS, _BEST_FILES = 8, 10
"""So many of the best tell what they import."""


def through_tests(index: Index, query: Mapping[str, float]) -> Floats:
    """Files that the best matching tests import or are named after."""
    graph = index.graph
    out = np.zeros(len(index.paths), np.float32)
    if not graph.tests:
        return out

    def make() -> Lexical:
        tests = np.zeros(len(index.paths), bool)
        tests[list(graph.tests)] = True
        return Lexical(index.corpus, tests)

    scores = index.cached("tests", make).score(query).chunks
    order = np.argsort(-scores, kind="stable")[:_BEST_TESTS]
    for chunk in order.tolist():
        file = int(index.corpus.chunk_file[chunk])
        if scores[chunk] <= 0 or file < 0:
            continue
        number = int(index.corpus.chunk_number[chunk])
        targets = set(graph.imports(file)) - graph.tests
        for name in index.words_of(file, number):
            _share(out, {f for f, _ in graph.defined.get(name, ())} & targets, scores[chunk] / 4)
        _share(out, targets, scores[chunk])
    return out


def companions(index: Index, first: int) -> Signals:
    """What belongs to one file, 0 to 1: the files that it imports, and those in its folder.

    An import that leads to many files, as one of a Go package does, says less of each. So does a folder, the larger its
    share of all files: in a flat project everything is beside everything.
    """
    graph = index.graph
    imports, beside = np.zeros((2, len(index.paths)), np.float32)
    for item in index.records[first].imports:
        targets = [graph.number[path] for path in graph.resolve(item, first)]
        imports[targets] = np.maximum(imports[targets], 1.0 / max(1, len(targets)))
    folder = parent(index.paths[first])
    inside = [file for file, path in enumerate(index.paths) if parent(path) == folder and file not in graph.tests]
    beside[inside] = 1.0 - len(inside) / max(1, len(index.paths) - len(graph.tests))
    return {"imported by the first": imports, "beside the first": beside}


def imports_of(files: Floats, graph: Graph) -> Floats:
    """Files that the best files import: the fix is often one step down."""
    out = np.zeros(len(files), np.float32)
    order = np.argsort(-files, kind="stable")[:_BEST_FILES]
    for file in order.tolist():
        targets = graph.imports(file)
        if files[file] > 0 and targets:
            out[list(targets)] += files[file] / np.sqrt(len(targets))
    return out
