"""Makes the index of a tree, and of its next state, which costs only the files that changed.

The files are read, what the store does not know is parsed in worker processes, and the records are put together.
"""

from __future__ import annotations

import contextlib
import gc
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from agent.git import blob_id
from agent.index import outline
from agent.index.corpus import Corpus, Vocabulary
from agent.index.index import Index, Report
from agent.index.languages import language_by_head, language_by_name
from agent.index.record import Record
from agent.index.source import File, Source
from agent.index.store import Row, Store
from agent.index.workers import Job, Workers
from sandbox.closing import Closing

_ROWS, _GROUP = 500, 256
"""Records that are stored, and keys that are looked up, at once."""

Progress = Callable[[int, int], None]
"""Called with (files done, files to do)."""


def indexed(
    source: Source,
    store: Path | None = None,
    *,
    base: Index | None = None,
    jobs: int = 2,
    progress: Progress | None = None,
) -> Index:
    """The index of one tree; see :class:`Indexer`."""
    with Indexer(store, jobs=jobs) as indexer:
        return indexer.index(source, base=base, progress=progress)


class Indexer(Closing):
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


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """Python's collector waits, in the whole process: of the many small values that are made here none is dropped, and
    looking for one again and again took a third of the time that an index from its store takes.

    Of two threads that do this at once the first to end turns it on again, and the other one is only slower.
    """
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
        # A directory and a commit share their records.
        key = self._keys[file.path] = f"{file.blob or blob_id(content or b'')}:{name}"
        return file, key, name, content

    def _read(self, file: File) -> bytes | None:
        try:
            return self._source.read(file.path)
        except OSError as error:
            self.notes.append(f"{file.path!r} can't be read: {error.strerror or error}")
            return None
