"""What the engine itself costs on a repository of 3,000 files: each tool, and a whole run with its memory.

    .venv/bin/python -m bench.engine [--files 3000] [--folder /var/tmp]

The repository is made from the packages that are installed here. Processor time (ours and that of the processes that we
start) is printed beside wall-clock time, because the machine may be shared: the goal is judged on the wall clock of a
quiet one. The tools are called one after another on a draft with a few edits; tests and commands are not, since what
they take is the target's. The run is ``graftsmith run`` with a scripted model and two tests that take no time, so that
what is left is the engine. Tests count from the start of their command to its end, with what the sandbox itself takes;
whatever else is left is ours, the start and the end of our own process included.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from agent.git import Git
from agent.index.index import Index
from agent.index.indexer import indexed
from agent.index.source import TreeSource
from agent.model.scripted import serve
from agent.record import read_events
from agent.tools import REGISTRY, ToolContext, call
from agent.tree import BaseTree
from agent.types import Plan, PlanStep
from tests.support.repository import Repository

GOAL_MS, GOAL_MB = 50, 400
ROUNDS = 15
TEXT = frozenset({".py", ".pyi", ".md", ".rst", ".txt", ".json", ".toml"})
LARGEST = 300_000
DISK = "/var/tmp"  # noqa: S108  of this machine, and not in memory
GRAFTSMITH = str(Path(sys.executable).parent / "graftsmith")

WIDGET = "def total(items):\n    return sum(items[1:])\n\n\ndef double(number):\n    return number * 2\n"
CHECK = "import unittest\nfrom widget import {0}\n\n\nclass Test{1}(unittest.TestCase):\n"
CHECK += "    def test_it(self):\n        {2}\n"
DOUBLE = CHECK.format("double", "Double", "self.assertEqual(double(2), 4)")
TOTAL = CHECK.format("total", "Total", "self.assertEqual(total([1, 2]), 3)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=3_000)
    parser.add_argument("--folder", default=DISK, help="where everything is written: a run writes many files")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        Path(folder).chmod(0o755)
        repository = _repository(Path(folder) / "repository", given.files)
        _tools(repository, Path(folder))
        _run(repository, Path(folder))


def _repository(path: Path, wanted: int) -> Repository:
    """The first ``wanted`` text files of the installed packages, a small bug, and a test beside it."""
    repository = Repository(path)
    packages = Path(sys.prefix).joinpath("lib").glob("python3*/site-packages/**/*")
    sources = (f for f in sorted(packages) if f.suffix in TEXT and f.is_file() and f.stat().st_size < LARGEST)
    root = next(Path(sys.prefix).joinpath("lib").glob("python3*/site-packages"))
    files: dict[str, bytes | str] = {}
    for source in sources:
        files[f"packages/{source.relative_to(root)}"] = source.read_bytes()
        if len(files) >= wanted:
            break
    repository.commit({**files, "widget.py": WIDGET, "checks/__init__.py": "", "checks/test_double.py": DOUBLE})
    print(f"a repository of {len(files)} files, {sum(map(len, files.values())) / 1e6:.1f} MB\n")
    return repository


# ── the tools ──


@dataclass(frozen=True)
class Cost:
    """Milliseconds of one call."""

    wall: float
    cpu: float


def _tools(repository: Repository, folder: Path) -> None:
    with Git(repository.git_dir) as git:
        base = BaseTree.load(git, repository.git("rev-parse", "HEAD"))
        index = indexed(TreeSource(base), folder / "index.sqlite")
        print("| tool | first ms | median ms (CPU ms) | slowest ms |\n| --- | --: | --: | --: |")
        medians = []
        for name, calls in _calls(index).items():
            first, later = _measured(base, index, name, calls)
            medians.append(median(cost.wall for cost in later))
            cpu = median(cost.cpu for cost in later)
            print(f"| {name} | {first.wall:.1f} | {medians[-1]:.1f} ({cpu:.1f}) | {max(c.wall for c in later):.1f} |")
    print(
        f"\nmedian of all tools {median(medians):.1f} ms, slowest {max(medians):.1f} ms    goal ≤ {GOAL_MS} ms each\n"
    )


def _calls(index: Index) -> Mapping[str, tuple[Mapping[str, Any], ...]]:
    """Tool → calls of it, in turn. What is asked for is there in any set of packages."""
    path = next(file.path for file in index.files if file.path.endswith(".py") and 10_000 < file.size < 40_000)
    first = index.records[index.graph.number[path]].symbols[0]
    return {
        "search": ({"query": "connection pool time out is ignored"}, {"query": "parse configuration file"}),
        "grep": ({"text": "def connect"}, {"text": "nothing holds this"}, {"text": "Timeout", "ignore_case": True}),
        "grep (regex)": ({"text": r"class \w+Timeout", "regex": True}, {"text": "^import (os|re)$", "regex": True}),
        "find_symbol": ({"name": "connect"}, {"name": first.name}),
        "references": ({"name": "connect"}, {"name": first.short}),
        "read": ({"path": path, "end": 200},),
        "list": ({}, {"path": "packages"}),
        "outline": ({"path": path},),
        "edit": ({"path": "widget.py", "edits": [{"search": "items[1:]", "replace": "items"}]},),
        "insert": ({"path": "widget.py", "anchor": "def double(number):", "text": "# twice", "where": "before"},),
        "replace_symbol": ({"path": "widget.py", "name": "double", "text": "def double(n):\n    return 2 * n"},),
        "rename": ({"name": "double", "to": "twofold", "path": "widget.py"},),
        "write": ({"path": "checks/test_total.py", "content": TOTAL},),
        "move": ({"path": "widget.py", "to": "gadget.py"},),
        "delete": ({"path": "widget.py"},),
        "undo": ({},),
        "diff": ({},),
        "finish": ({"summary": "done"},),
    }


def _measured(base: BaseTree, index: Index, name: str, calls: tuple[Mapping[str, Any], ...]) -> tuple[Cost, list[Cost]]:
    """The first call on a fresh base, then the later ones; each on a draft that was edited just before."""
    fresh = BaseTree(base.git, base.sha, base.entries)
    costs = []
    for number in range(max(ROUNDS, len(calls)) + 1):
        draft = fresh.draft().with_file("notes.txt", b"%d\n" % number).with_file("more.py", b"n = %d\n" % number)
        context = ToolContext(draft, index, run_tests=_nothing, run_command=_nothing)
        context.plan = Plan(intent="bug_fix", summary="s", steps=(PlanStep(id="1", objective="o"),))
        arguments = json.dumps(calls[number % len(calls)])
        result, cost = _timed(partial(call, REGISTRY, context, name.split()[0], arguments))
        assert result.ok or name == "find_symbol", f"{name}: {result.text}"
        costs.append(cost)
    return costs[0], costs[1:]


def _nothing(draft: object, what: object) -> str:
    return ""


def _timed(work: Callable[[], Any]) -> tuple[Any, Cost]:
    before, began = _cpu(), time.perf_counter()
    result = work()
    return result, Cost(1000 * (time.perf_counter() - began), 1000 * (_cpu() - before))


def _cpu() -> float:
    """Processor seconds of this process, of what it has waited for, and of the children that are alive."""
    ended = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    total = sum(usage.ru_utime + usage.ru_stime for usage in ended)
    for task in Path("/proc/self/task").iterdir():
        total += sum(_ticks(int(pid)) for pid in (task / "children").read_text().split())
    return total


def _ticks(pid: int) -> float:
    """Processor seconds of one process (proc(5): the 14th and 15th field)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# ── a run ──


def _run(repository: Repository, folder: Path) -> None:
    for name in ("first run", "next run"):
        wall, peak_mb, cpu, events = _one_run(repository, folder)
        model = sum(event["seconds"] for event in events if event["kind"] == "model_call")
        tests = sum(event["run"]["seconds"] for event in events if event["kind"] == "test_run")
        git = sum(event["seconds"] for event in events if event.get("text") == "git")
        ending = next(event["outcome"] for event in reversed(events) if "outcome" in event)
        print(
            f"{name}: {wall:.1f} s = {tests:.1f} s tests + {model:.1f} s model + {git:.1f} s git "
            f"+ {wall - tests - model - git:.1f} s ours "
            f"({cpu:.1f} s CPU in our process), peak {peak_mb:.0f} MB ({ending})    goal ≤ {GOAL_MB} MB"
        )


def _one_run(repository: Repository, folder: Path) -> tuple[float, float, float, list[dict[str, Any]]]:
    state = folder / "state"
    with serve({"sessions": [{"name": "only", "steps": _steps()}]}) as model:
        environment = {
            "PATH": os.environ.get("PATH", ""),
            "GRAFTSMITH_STATE_DIR": str(state),
            "GRAFTSMITH_REVIEW": "no",
            "OPENAI_BASE_URL": model.base_url,
            "OPENAI_MODEL": "scripted",
        }
        command = [GRAFTSMITH, "run", "--repo", str(repository.path), "--task", "total leaves the first item out"]
        command += ["--no-apply", "--json", "--test-command", "python3 -m unittest discover -v -s checks -t ."]
        began = time.perf_counter()
        process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        peak, cpu = 0.0, 0.0
        while process.poll() is None:
            peak, cpu = max(peak, _peak_mb(process.pid)), _own_cpu(process.pid) or cpu
            time.sleep(0.02)
        wall = time.perf_counter() - began
    newest = max((state / "local").iterdir(), key=lambda run: run.stat().st_mtime_ns)
    return wall, peak, cpu, [event for _, event in read_events(newest / "events.jsonl")]


def _steps() -> list[dict[str, Any]]:
    step = {"id": "1", "objective": "Count every item", "files": ["widget.py"], "new_files": ["checks/test_total.py"]}
    plan = {"intent": "bug_fix", "summary": "It skips the first.", "steps": [step]}
    edit = {"path": "widget.py", "edits": [{"search": "items[1:]", "replace": "items"}]}
    calls = {
        "plan": plan,
        "grep": {"text": "def total"},
        "edit": edit,
        "write": {"path": "checks/test_total.py", "content": TOTAL},
        "finish": {"summary": "Every item counts."},
    }
    return [{"tool_calls": [{"name": name, "arguments": arguments} for name, arguments in calls.items()]}]


def _peak_mb(pid: int) -> float:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    return int(status.split("VmHWM:")[1].split()[0]) / 1024 if "VmHWM:" in status else 0.0


def _own_cpu(pid: int) -> float:
    try:
        return _ticks(pid)
    except OSError:
        return 0.0


if __name__ == "__main__":
    main()
