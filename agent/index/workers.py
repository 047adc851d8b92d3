"""Parses files in processes that can be killed.

A grammar is C code that runs on hostile input: it may loop, eat memory or crash. Each of these costs the one file,
which is then read as plain text. What a worker sends back is framed bytes, never a pickle.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import resource
import selectors
import struct
import sys
import time
import types
from collections import deque
from collections.abc import Iterable, Iterator
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import NamedTuple

from agent.index import outline
from sandbox.closing import Closing

FILE_SECONDS = 10.0
"""Longest time for one file."""

_MEMORY = 3_000_000_000
_BATCH_FILES, _BATCH_BYTES = 64, 400_000
_LENGTHS = struct.Struct("<IIII")

Packed = tuple[str, str, bytes, int]


class Job(NamedTuple):
    """One file to parse; ``key`` is what its record is stored under."""

    key: str
    language: str
    content: bytes


class _Worker:
    """One process. It is given a batch only when it waits for one, so that neither side ever blocks in a send."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs,), daemon=True)
        with _bare_main():
            self.process.start()
        theirs.close()
        self.open: deque[Job] = deque()
        self.since = 0.0

    def send(self, batch: list[Job]) -> None:
        self.open.extend(batch)
        self.since = time.monotonic()
        with contextlib.suppress(OSError):  # it is dead: receiving says so
            self.pipe.send([(job.language, job.content) for job in batch])

    def receive(self) -> tuple[Job, Packed]:
        data = self.pipe.recv_bytes()
        self.since = time.monotonic()
        return self.open.popleft(), _unframe(data)

    def kill(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()


@contextlib.contextmanager
def _bare_main() -> Iterator[None]:
    """A new process imports the main module of its parent first; ours would load a whole program to run one parser."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


class Workers(Closing):
    """A few parse processes, started when first needed and kept until :meth:`close`.

    Args:
        count: how many at most.
        file_seconds: longest time for one file.
    """

    def __init__(self, count: int = 2, *, file_seconds: float = FILE_SECONDS) -> None:
        self._count = max(1, count)
        self.file_seconds = file_seconds
        self._workers: list[_Worker] = []
        self._busy = selectors.DefaultSelector()
        """The pipes of the workers that have open files; registered once a batch, since ``wait`` would do so for each
        record."""

    def parse(self, jobs: Iterable[Job], size: int) -> Iterator[tuple[Job, Packed]]:
        """Records of ``jobs``, as they are ready.

        Args:
            jobs: what to parse; taken a batch ahead of the workers.
            size: how many bytes there are about, to decide how many workers are worth their start.
        """
        self.start(self._count if size > 300_000 else 1)
        batches = _batches(jobs)
        ahead = next(batches, None)
        while True:
            for number, worker in enumerate(self._workers):
                if ahead and not worker.open:
                    self._send(self._worker(number), ahead)
                    ahead = None
            if ahead is None:
                ahead = next(batches, None)
                if ahead and not all(worker.open for worker in self._workers):
                    continue
            if not any(worker.open for worker in self._workers):
                return
            yield from self._collect()

    def start(self, count: int) -> None:
        """Start processes ahead of need; they load while the caller does something else."""
        while len(self._workers) < count:
            self._workers.append(_Worker())

    def keep(self, count: int) -> None:
        """Have so many processes loaded and end the others; between two calls of :meth:`parse`."""
        for worker in self._workers[count:]:
            self._end(worker)
        del self._workers[count:]
        self.start(count)

    @property
    def processes(self) -> list[BaseProcess]:
        """The processes that run now."""
        return [worker.process for worker in self._workers]

    def close(self) -> None:
        """End the processes, for good."""
        for worker in self._workers:
            self._end(worker)
        self._workers = []
        self._busy.close()

    def _worker(self, number: int) -> _Worker:
        """The worker at ``number``; a fresh one if it died while it waited."""
        if not self._workers[number].process.is_alive():
            self._workers[number].kill()
            self._workers[number] = _Worker()
        return self._workers[number]

    def _send(self, worker: _Worker, batch: list[Job]) -> None:
        worker.send(batch)
        self._busy.register(worker.pipe, selectors.EVENT_READ)

    def _collect(self) -> Iterator[tuple[Job, Packed]]:
        busy = [worker for worker in self._workers if worker.open]
        oldest = min(worker.since for worker in busy)
        left = max(0.0, oldest + self.file_seconds - time.monotonic())
        ready = {key.fileobj for key, _ in self._busy.select(left)}
        for worker in busy:
            if worker.pipe in ready:
                yield self._receive(worker)
            elif time.monotonic() - worker.since >= self.file_seconds:
                yield self._replace(worker, "the parser timed out")

    def _receive(self, worker: _Worker) -> tuple[Job, Packed]:
        try:
            done = worker.receive()
        except (EOFError, OSError):
            return self._replace(worker, "the parser crashed")
        if not worker.open:
            self._busy.unregister(worker.pipe)
        return done

    def _replace(self, worker: _Worker, note: str) -> tuple[Job, Packed]:
        """The first open file is to blame and becomes plain text; the others go to a fresh worker."""
        blamed, *others = worker.open
        self._end(worker)
        fresh = self._workers[self._workers.index(worker)] = _Worker()
        if others:
            self._send(fresh, others)
        return blamed, outline.record(blamed.content, blamed.language, note).pack()

    def _end(self, worker: _Worker) -> None:
        if worker.open:
            self._busy.unregister(worker.pipe)
        worker.kill()


def _batches(jobs: Iterable[Job]) -> Iterator[list[Job]]:
    batch: list[Job] = []
    size = 0
    for job in jobs:
        batch.append(job)
        size += len(job.content)
        if size > _BATCH_BYTES or len(batch) == _BATCH_FILES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _serve(pipe: Connection) -> None:
    """Main loop of a worker: a batch of files in, one record out for each, in order."""
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    with contextlib.suppress(EOFError, KeyboardInterrupt, OSError):
        while True:
            for language, content in pipe.recv():
                pipe.send_bytes(_frame(outline.record(content, language).pack()))


def _frame(packed: Packed) -> bytes:
    outline_, words, counts, checksum = packed
    first, second = outline_.encode("utf-8", "surrogatepass"), words.encode("utf-8", "surrogatepass")
    return b"".join((_LENGTHS.pack(len(first), len(second), len(counts), checksum), first, second, counts))


def _unframe(data: bytes) -> Packed:
    first, second, third, checksum = _LENGTHS.unpack_from(data)
    a = _LENGTHS.size
    b, c = a + first, a + first + second
    return (
        data[a:b].decode("utf-8", "surrogatepass"),
        data[b:c].decode("utf-8", "surrogatepass"),
        data[c : c + third],
        checksum,
    )
