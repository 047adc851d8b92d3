"""How long indexing and asking take, on trees of your choice.

    .venv/bin/python -m bench.index_speed DIRECTORY... [--query TEXT]

For each directory: a cold index (empty store), an opening from the store, one changed file in a warm process, a query.
CPU seconds are printed beside wall-clock seconds, because the machine may be shared.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from agent.index.index import Index, Indexer
from agent.index.source import DirectorySource

QUERY = (
    "Ordering by a related field returns wrong results\n\nWhen a query is ordered by a field of a related model, `get`"
)


class Speed(NamedTuple):
    """Seconds, except where said."""

    files: int
    megabytes: float
    cold: float
    cold_cpu: float
    reopened: float
    one_file: float
    query_ms: float
    peak_mb: float
    worker_mb: float


def measure(tree: Path, query: str) -> Speed:
    with tempfile.TemporaryDirectory() as scratch:
        store = Path(scratch) / "store.sqlite"
        copy = Path(scratch) / "tree"
        shutil.copytree(tree, copy, symlinks=True)
        source = DirectorySource(copy)
        with Indexer(store) as indexer:
            before, began = _cpu(), time.perf_counter()
            index = indexer.index(source)
            cold = time.perf_counter() - began
        cold_cpu = _cpu() - before  # the workers are counted once they ended
        began = time.perf_counter()
        Index.open(store, source)
        reopened = time.perf_counter() - began
        with Indexer(store) as indexer:
            changed = max(index.files, key=lambda file: file.size if file.size < 150_000 else 0).path
            times = []
            for number in range(6):
                with (copy / changed).open("a") as file:
                    file.write(f"\n# touched {number}\n")
                began = time.perf_counter()
                index = indexer.index(source, base=index)
                times.append(time.perf_counter() - began)
        asked = []
        for _ in range(12):
            began = time.perf_counter()
            index.search(query)
            asked.append(time.perf_counter() - began)
        return Speed(
            files=len(index.paths),
            megabytes=sum(file.size for file in index.files) / 1e6,
            cold=cold,
            cold_cpu=cold_cpu,
            reopened=reopened,
            one_file=sorted(times[1:])[len(times) // 2 - 1],
            query_ms=1000 * sorted(asked)[len(asked) // 2],
            peak_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000,
            worker_mb=resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1000,
        )


def _cpu() -> float:
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directories", nargs="+", type=Path)
    parser.add_argument("--query", default=QUERY)
    arguments = parser.parse_args()
    print("| tree | files | MB | cold s (CPU s) | from store s | one file ms | query ms | peak MB (a worker) |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for tree in arguments.directories:
        speed = measure(tree, arguments.query)
        print(
            f"| {tree.name} | {speed.files} | {speed.megabytes:.1f} | {speed.cold:.2f} ({speed.cold_cpu:.2f}) |"
            f" {speed.reopened:.2f} | {1000 * speed.one_file:.0f} | {speed.query_ms:.0f} |"
            f" {speed.peak_mb:.0f} ({speed.worker_mb:.0f}) |"
        )


if __name__ == "__main__":
    main()
