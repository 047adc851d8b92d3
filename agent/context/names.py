"""What an issue names, and the files that define or use it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from agent.context.issue import Issue
from agent.context.shares import give, zeros
from agent.index.corpus import Floats
from agent.index.graph import Graph
from agent.index.index import Index
from agent.index.words import words


def definitions(names: Iterable[str], graph: Graph) -> Floats:
    """Files that define what the issue names; a name that many define says less."""
    out = zeros(graph)
    for name in plain(names):
        give(out, {file for file, _ in graph.defined.get(name, ())} - graph.tests, 1.0, most=30)
    return out


def titled(issue: Issue, graph: Graph) -> Floats:
    """Files that define a function or class whose name is a word of the title, in the same case."""
    out = zeros(graph)
    elsewhere = set(words(f"{issue.prose} {issue.code}"))
    for word in dict.fromkeys(words(issue.title)):  # in their order, because sums of fractions depend on it
        if len(word) > 2 or word in elsewhere:
            found = graph.defined.get(word, ())
            homes = {f for f, at in found if graph.records[f].symbols[at].kind != "variable"}
            give(out, homes - graph.tests, 1.0, most=10)
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
    out = zeros(graph)
    for name in names:
        parts = _SEPARATOR.split(name)
        if len(parts) > 1:
            give(out, _qualified(parts, graph), 1.0)
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
    out = zeros(graph)
    title, prose = Counter(words(issue.title)), Counter(words(issue.prose))
    for module, names in _FROM.findall(f"{issue.code}\n{issue.prose}"):
        for name in names.replace(",", " ").split():
            said = 3.0 * (name in title) + min(3, title[name] + prose[name])
            homes = {f for f, _ in graph.defined.get(name, ())} - graph.tests if said else set()
            package = module.split(".")[0]
            give(out, [f for f in homes if f"/{package}/" in f"/{graph.paths[f]}"], said)
    return out
