"""How fast the index is: cold, reopened from its store, after one changed file, and asked; and what memory it takes.

    .venv/bin/python -m bench.index_speed DIRECTORY… [--together] [--query TEXT]

Every tree is measured in a process of its own, so that no number holds what another tree left behind. ``--together``
measures all directories as one tree as well, which is how growth is seen. Timings are comparable within one run only.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

from agent.context.search import search
from agent.index.index import Index
from agent.index.indexer import Indexer, indexed
from agent.index.source import DirectorySource

QUERY = (
    "Ordering by a related field returns wrong results\n\nWhen a query is ordered by a field of a related model, `get`"
)


class Speed(NamedTuple):
    """Seconds, except where said."""

    files: int
    megabytes: float
    lines: int
    cold: float
    cold_cpu: float
    peak_mb: float
    """Of the process that indexes and answers, up to the last query."""
    worker_mb: float
    query_ms: Sequence[float]
    """Sorted."""
    reopened: float
    one_file: float

    def row(self, name: str) -> str:
        asked = self.query_ms
        return (
            f"| {name} | {self.files} | {self.megabytes:.1f} | {self.lines:,} | {self.cold:.2f} ({self.cold_cpu:.2f}) |"
            f" {self.reopened:.2f} | {1000 * self.one_file:.0f} |"
            f" {asked[len(asked) // 2]:.0f} / {asked[int(len(asked) * 0.95)]:.0f} |"
            f" {self.peak_mb:.0f} ({self.worker_mb:.0f}) |"
        )


HEAD = (
    "| tree | files | MB | lines | cold s (CPU s) | from store s | one file ms | query ms, median / p95 |"
    " peak MB (a worker) |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- |"
)


def measure(trees: Sequence[Path], query: str) -> Speed:
    """Copies ``trees`` into one folder and indexes that."""
    with tempfile.TemporaryDirectory() as scratch:
        store, copy = Path(scratch) / "store.sqlite", Path(scratch) / "tree"
        for number, tree in enumerate(trees):
            shutil.copytree(tree, copy / f"{number}-{tree.name}" if len(trees) > 1 else copy, symlinks=True)
        source = DirectorySource(copy)
        before, began = _cpu(), time.perf_counter()
        with Indexer(store) as indexer:
            index = indexer.index(source)
            cold = time.perf_counter() - began
        cold_cpu = _cpu() - before  # the workers are counted once they ended
        asked = _asked(index, query)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
        worker = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1000
        began = time.perf_counter()
        indexed(source, store)
        reopened = time.perf_counter() - began
        return Speed(
            files=len(index.paths),
            megabytes=sum(file.size for file in index.files) / 1e6,
            lines=sum(record.lines for record in index.records),
            cold=cold,
            cold_cpu=cold_cpu,
            peak_mb=peak,
            worker_mb=worker,
            query_ms=asked,
            reopened=reopened,
            one_file=_one_file(index, store, source),
        )


def _asked(index: Index, query: str) -> list[float]:
    search(index, query)
    times = []
    for number in range(40):
        began = time.perf_counter()
        search(index, f"{query} {number}")
        times.append(1000 * (time.perf_counter() - began))
    return sorted(times)


def _one_file(index: Index, store: Path, source: DirectorySource) -> float:
    """Median, after the parse process is there."""
    changed = source.root / max(index.files, key=lambda file: file.size if file.size < 150_000 else 0).path
    times = []
    with Indexer(store) as indexer:
        for number in range(8):
            with changed.open("a") as file:
                file.write(f"\n# touched {number}\n")
            began = time.perf_counter()
            index = indexer.index(source, base=index)
            times.append(time.perf_counter() - began)
    return sorted(times[1:])[3]


def _cpu() -> float:
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directories", nargs="+", type=Path)
    parser.add_argument("--together", action="store_true", help="measure all directories as one tree too")
    parser.add_argument("--query", default=QUERY)
    arguments = parser.parse_args()
    groups = [[tree] for tree in arguments.directories] + ([arguments.directories] if arguments.together else [])
    print(HEAD)
    for trees in groups:
        with ProcessPoolExecutor(1, get_context("spawn")) as alone:
            speed = alone.submit(measure, trees, arguments.query).result()
        print(speed.row(" + ".join(tree.name for tree in trees)), flush=True)


if __name__ == "__main__":
    main()
