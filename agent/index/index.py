"""One tree, ready to be asked for what it holds; ``agent.index.indexer`` makes it, ``agent.context`` ranks it."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar, cast

import numpy as np

from agent.index import outline
from agent.index.corpus import Corpus
from agent.index.graph import Certainty, Graph, Located, Reach, Reference, affected_tests
from agent.index.record import Chunk, Record, Symbol
from agent.index.source import File, Source

T = TypeVar("T")


@dataclass(frozen=True)
class Report:
    """What an indexing did, for the log."""

    files: int
    parsed: int
    skipped: Counter[str]
    """Reason → how many files or folders were left out for it."""
    notes: tuple[str, ...]
    """Damage, locks, files that a parser choked on: one sentence each."""
    seconds: float


class Index:
    """A tree at one moment."""

    def __init__(
        self, files: tuple[File, ...], records: tuple[Record, ...], corpus: Corpus, source: Source, report: Report
    ) -> None:
        self.files = files
        self.records = records
        self.corpus = corpus
        self.source = source
        self.report = report
        self.paths = tuple(file.path for file in files)
        self._cache: dict[str, Any] = {}

    def positions(self, files: Sequence[File]) -> list[int]:
        """Where each of ``files`` stands in this index's; -1 for one that is new or has changed."""
        known = self._numbers
        found = (known.get(file.path, -1) for file in files)
        return [at if at >= 0 and self.files[at] == file else -1 for file, at in zip(files, found, strict=True)]

    def record(self, path: str) -> Record | None:
        """What is known of one file; ``None`` where it is not indexed."""
        at = self._numbers.get(path)
        return None if at is None else self.records[at]

    @cached_property
    def _numbers(self) -> Mapping[str, int]:
        return {path: i for i, path in enumerate(self.paths)}

    @cached_property
    def graph(self) -> Graph:
        return Graph(self.paths, self.records, self.text)

    def cached(self, key: str, make: Callable[[], T]) -> T:
        """What ``make`` gives, made once for this index: for tables that only some questions need."""
        if key not in self._cache:
            self._cache[key] = make()
        return cast("T", self._cache[key])

    def forget(self, key: str) -> None:
        """Drop what :meth:`cached` keeps under ``key``."""
        self._cache.pop(key, None)

    def piece(self, chunk: int) -> tuple[int, Chunk]:
        """The file of a chunk of the corpus, and what the file's record says of the chunk."""
        file = int(self.corpus.chunk_file[chunk])
        return file, self.records[file].chunks[int(self.corpus.chunk_number[chunk])]

    def words_of(self, file: int, chunk: int) -> list[str]:
        """The different raw words of one chunk."""
        record = self.records[file]
        which, where, _ = np.frombuffer(record.counts, dtype="<u2").reshape(3, -1)
        begin, end = np.searchsorted(where, [chunk, chunk + 1])
        vocabulary = self.corpus.vocabulary
        return [vocabulary.words[i] for i in vocabulary.add(record.words)[which[begin:end]].tolist()]

    def text(self, path: str) -> str:
        """Text of a file as it is now; '' where it can't be read."""
        try:
            return outline.decode(self.source.read(path))
        except OSError:
            return ""

    def symbols(self, name: str) -> list[Located]:
        """Definitions called ``name``, plain or qualified."""
        return self.graph.definitions(name)

    def references(self, name: str, path: str = "", *, calls: bool = False) -> list[Reference]:
        """Uses of ``name`` outside its definitions, those first that an import leads from, then by file and line.

        Args:
            path: of the definition that is meant; a use that leads to another one is left out.
            calls: only uses that call it.
        """
        graph, short = self.graph, name.rpartition(".")[2]
        found = graph.definitions(name)
        homes = {graph.number[item.path] for item in found if path in ("", item.path)}
        # A member is reached through the class that holds it.
        handles = {short, *(item.symbol.name.partition(".")[0] for item in found)}
        defined: dict[str, list[Symbol]] = defaultdict(list)
        for item in found:
            defined[item.path].append(item.symbol)
        pattern = re.compile(rf"(?<!\w){re.escape(short)}(?!\w)" + (r"[ \t]*[(<]" if calls else ""))
        out: list[Reference] = []
        for file in np.unique(self.corpus.chunk_file[self.corpus.of_word(short)[0]]).tolist():
            if file < 0:
                continue
            meant = {f for handle in handles for f, _ in graph.behind(handle, file)}
            resolved = file in homes or not homes.isdisjoint(meant)
            if path and meant and not resolved and name == short:
                continue
            sure = Certainty.RESOLVED if resolved else Certainty.BY_NAME
            place, record = self.paths[file], self.records[file]
            for line, text in enumerate(self.text(place).split("\n"), start=1):
                if short in text and pattern.search(text) and not _defines(defined.get(place, ()), line, text):
                    out.append(Reference(place, line, record.enclosing(line), sure))
        return sorted(out, key=lambda item: (item.certainty != Certainty.RESOLVED, item.path, item.line))

    def callers(self, name: str) -> list[Reference]:
        """Uses of ``name`` that call it."""
        return self.references(name, calls=True)

    def tests_for(self, paths: Iterable[str]) -> list[Reach]:
        """Tests that a change of ``paths`` may affect, the surest first."""
        graph = self.graph
        numbers = [graph.number[path] for path in paths if path in graph.number]
        return [Reach(self.paths[i], certainty) for i, certainty in affected_tests(graph, numbers)]

    def importers(self, path: str) -> list[Reach]:
        """Files that import ``path``."""
        at = self._numbers.get(path)
        found = [] if at is None else self.graph.importers(at)
        return [Reach(self.paths[i], Certainty.RESOLVED) for i in found]


def _defines(symbols: Iterable[Symbol], line: int, text: str) -> bool:
    """Whether a line is where one of ``symbols`` gets its name: its first, or below its decorators."""
    start = text.strip()[:20]
    return any(
        symbol.start == line or (symbol.start < line <= symbol.end and start and symbol.signature.startswith(start))
        for symbol in symbols
    )
