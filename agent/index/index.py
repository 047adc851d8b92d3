"""One tree, ready to be asked. This is the only search path of the engine.

``Index.open`` reads the files, parses what the store does not know in worker processes, and puts the records together.
An :class:`Indexer` does the same again for the next state of a tree, which costs only the changed files.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from agent.index import outline
from agent.index.corpus import Corpus, Vocabulary
from agent.index.graph import Certainty, Graph, Located, Reach, Reference, affected_tests
from agent.index.history import Commit
from agent.index.languages import language_by_head, language_by_name
from agent.index.record import Record, Symbol
from agent.index.source import File, Source
from agent.index.store import Row, Store
from agent.index.workers import Job, Workers

if TYPE_CHECKING:
    from agent.context.search import SearchResult
    from agent.context.semantic import Meaning

T = TypeVar("T")

Progress = Callable[[int, int], None]
"""Called with (files done, files to do)."""


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
        self.meaning: Meaning | None = None
        """One more signal for every search, where an endpoint for embeddings is configured."""
        self._cache: dict[str, Any] = {}

    @classmethod
    def open(
        cls,
        store: Path | None,
        source: Source,
        *,
        base: Index | None = None,
        jobs: int = 2,
        progress: Progress | None = None,
    ) -> Index:
        """Index ``source``.

        Args:
            store: SQLite file with the records of earlier trees; ``None`` keeps nothing.
            source: the files.
            base: an earlier state of the same tree; only what changed since is read.
            jobs: parse processes.
            progress: told as files are done.
        """
        with Indexer(store, jobs=jobs) as indexer:
            return indexer.index(source, base=base, progress=progress)

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

    def search(
        self,
        query: str,
        k: int = 20,
        history: Sequence[Commit] | None = None,
    ) -> SearchResult:
        """Files and functions that an issue is about, best first, each with the reasons.

        Args:
            query: the issue as a person wrote it; its first line is taken as the title.
            k: how many files; functions come from the best 20.
            history: earlier commits, newest first.
        """
        from agent.context.search import search  # ranking builds on the index, not the other way round

        return search(self, query, k, history)

    def symbols(self, name: str) -> list[Located]:
        """Definitions called ``name``, plain or qualified."""
        return self.graph.definitions(name)

    def references(self, name: str, path: str = "") -> list[Reference]:
        """Uses of ``name`` outside its definitions, by file and line.

        Args:
            path: only what may mean the definition in this file.
        """
        return references(self, name, path)

    def callers(self, name: str, path: str = "") -> list[Reference]:
        """Uses of ``name`` that call it."""
        return references(self, name, path, calls=True)

    def tests_for(self, paths: Iterable[str]) -> list[Reach]:
        """Tests that a change of ``paths`` may affect, the surest first."""
        graph = self.graph
        numbers = [graph.number[path] for path in paths if path in graph.number]
        return [Reach(self.paths[i], certainty) for i, certainty in affected_tests(graph, numbers)]

    def importers(self, path: str) -> list[Reach]:
        """Files that import ``path``."""
        number = self.graph.number.get(path)
        return (
            [] if number is None else [Reach(self.paths[i], Certainty.RESOLVED) for i in self.graph.importers(number)]
        )


def references(index: Index, name: str, path: str = "", *, calls: bool = False) -> list[Reference]:
    """Uses of a name, found through its postings and read in the files.

    Args:
        path: of the definition that is meant; a use that leads to another one is left out.
    """
    graph = index.graph
    short = name.rpartition(".")[2]
    found = graph.definitions(name)
    homes = {graph.number[item.path] for item in found if path in ("", item.path)}
    # A member is reached through the class that holds it.
    handles = {short, *(item.symbol.name.partition(".")[0] for item in found)}
    defined: dict[str, list[Symbol]] = {}
    for item in found:
        defined.setdefault(item.path, []).append(item.symbol)
    pattern = re.compile(rf"(?<!\w){re.escape(short)}(?!\w)" + (r"[ \t]*[(<]" if calls else ""))
    out: list[Reference] = []
    chunks, _ = index.corpus.of_word(short)
    for file in np.unique(index.corpus.chunk_file[chunks]).tolist():
        if file < 0:
            continue
        place, record = index.paths[file], index.records[file]
        meant = {f for handle in handles for f, _ in graph.behind(handle, file)}
        resolved = file in homes or not homes.isdisjoint(meant)
        if path and meant and not resolved and name == short:
            continue
        sure = Certainty.RESOLVED if resolved else Certainty.BY_NAME
        for line, text in enumerate(index.text(place).split("\n"), start=1):
            if short in text and pattern.search(text) and not _defines(defined.get(place, ()), line, text):
                out.append(Reference(place, line, enclosing(record, line), sure))
    return sorted(out, key=lambda item: (item.certainty != Certainty.RESOLVED, item.path, item.line))


def _defines(symbols: Iterable[Symbol], line: int, text: str) -> bool:
    """Whether a line is where one of ``symbols`` gets its name: its first, or below its decorators."""
    start = text.strip()[:20]
    return any(
        symbol.start == line or (symbol.start < line <= symbol.end and start and symbol.signature.startswith(start))
        for symbol in symbols
    )


def enclosing(record: Record, line: int) -> str:
    """Name of the innermost function or class around a line, '' at module level."""
    best = ""
    size = record.lines + 1
    for symbol in record.symbols:
        if symbol.start <= line <= symbol.end and symbol.end - symbol.start < size and symbol.kind != "variable":
            best, size = symbol.name, symbol.end - symbol.start
    return best


class Indexer:
    """Indexes one tree after another with the same store and the same parse processes; by one thread at a time.

    Args:
        store: SQLite file with the records of earlier trees; ``None`` keeps nothing.
        jobs: parse processes.
    """

    def __init__(self, store: Path | None, *, jobs: int = 2) -> None:
        self._store = Store(store, outline.VERSION)
        self._workers = Workers(jobs)

    def index(self, source: Source, *, base: Index | None = None, progress: Progress | None = None) -> Index:
        """Index ``source``; with ``base``, an earlier state of the same tree, only what changed is read."""
        with _uncollected():
            return self._index(source, base, progress)

    def _index(self, source: Source, base: Index | None, progress: Progress | None) -> Index:
        began = time.perf_counter()
        listing = source.listing()
        skipped = Counter(listing.skipped)
        vocabulary = base.corpus.vocabulary if base is not None else Vocabulary()
        old = base.positions(listing.files) if base is not None else [-1] * len(listing.files)
        gather = _Gather(source, self._store, self._workers, vocabulary, progress)
        new = gather.run([file for file, at in zip(listing.files, old, strict=True) if at < 0])
        for path, record in list(new.items()):
            if record.skipped and record.note:
                skipped[record.note] += 1
                del new[path]
        read = [(file, at) for file, at in zip(listing.files, old, strict=True) if at >= 0 or file.path in new]
        files = tuple(file for file, _ in read)
        if base is None:
            records = tuple(new[file.path] for file in files)
            corpus = Corpus.build(records, vocabulary)
        else:
            records = tuple(base.records[at] if at >= 0 else new[file.path] for file, at in read)
            corpus = base.corpus.replaced([at for _, at in read], records)
        report = Report(
            files=len(files),
            parsed=gather.parsed,
            skipped=skipped,
            notes=(*self._store.notes, *gather.notes),
            seconds=time.perf_counter() - began,
        )
        return Index(files, records, corpus, source, report)

    def stand_by(self) -> None:
        """Have one parse process loaded for the next state of the tree, and no more."""
        self._workers.keep(1)

    def close(self) -> None:
        self._workers.close()
        self._store.close()

    def __enter__(self) -> Indexer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """Python's collector waits: of the many small values that are made here none is dropped, and looking for one again
    and again took a seventh of this process's time."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class _Gather:
    """Records of files: from the store where they are there, else from the workers."""

    def __init__(
        self, source: Source, store: Store, workers: Workers, vocabulary: Vocabulary, progress: Progress | None
    ) -> None:
        self._source = source
        self._store = store
        self._workers = workers
        self._progress = progress or (lambda done, total: None)
        self._records: dict[str, Record] = {}
        self._keys: dict[str, str] = {}
        self._vocabulary = vocabulary
        self.parsed = 0
        self.notes: list[str] = []

    def run(self, files: Sequence[File]) -> dict[str, Record]:
        """Path → record, for every file that could be read."""
        # The largest first: no worker is left alone with it at the end.
        ordered = sorted(files, key=lambda file: -file.size)
        rows: list[Row] = []
        for job, packed in self._workers.parse(self._missing(ordered), sum(file.size for file in files)):
            record = self._records[job.key] = Record.unpack(*packed)
            self._vocabulary.add(record.words)  # here, because this process would only wait for the others
            self.parsed += 1
            rows.append((job.key, *packed))
            if len(rows) >= _ROWS:
                self._store.put(rows)
                rows = []
            self._progress(len(self._records), len(files))
        self._store.put(rows)
        self._progress(len(files), len(files))
        return {path: self._records[key] for path, key in self._keys.items()}

    def _missing(self, files: Sequence[File]) -> Iterator[Job]:
        asked: set[str] = set()
        for start in range(0, len(files), _GROUP):
            group = [self._keyed(file) for file in files[start : start + _GROUP]]
            self._records.update(self._store.get([key for _, key, _, _ in group if key]))
            for file, key, language, content in group:
                if not key or key in self._records or key in asked:
                    continue
                content = self._read(file) if content is None else content
                if content is None:
                    del self._keys[file.path]
                else:
                    asked.add(key)
                    yield Job(key, language, content)

    def _keyed(self, file: File) -> tuple[File, str, str, bytes | None]:
        """(file, key, language, content): read only where git has not said what it is; '' for a file that is gone."""
        content = None
        language = language_by_name(file.path)
        if file.blob is None or (language is None and "." not in file.path.rpartition("/")[2]):
            content = self._read(file)
            if content is None:
                return file, "", "", None
            language = language or language_by_head(content[:200])
        name = language.name if language is not None else "text"
        key = self._keys[file.path] = f"{file.blob or _blob_id(content or b'')}:{name}"
        return file, key, name, content

    def _read(self, file: File) -> bytes | None:
        try:
            return self._source.read(file.path)
        except OSError as error:
            self.notes.append(f"{file.path!r} can't be read: {error.strerror or error}")
            return None


_ROWS = 500
_GROUP = 256


def _blob_id(content: bytes) -> str:
    """As git names it, so that a directory and a commit share their records."""
    return hashlib.sha1(b"blob %d\0%b" % (len(content), content), usedforsecurity=False).hexdigest()
