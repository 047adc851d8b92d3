"""How well the index finds what an issue's fix touches: files, functions, and what fits into a prompt.

    .venv/bin/python -m bench.localization --cases dev.jsonl --repos repos.json [--by-repo] [--out FILE]
    .venv/bin/python -m bench.localization --cases dev.jsonl --repos repos.json --weights folds.json
    .venv/bin/python -m bench.localization --cases dev.jsonl --repos repos.json --embeddings http://127.0.0.1:8091/v1
    .venv/bin/python -m bench.localization --own

A case is a JSON line {"instance_id", "repo", "base_commit", "problem_statement", "gold_files", "gold_functions"};
``repos.json`` maps ``repo`` to a bare git folder. The retriever sees the tree at the base commit and the commits before
it, nothing later. A case that fails counts as a miss.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent.context.build import render
from agent.context.rank import Weights, read_weights
from agent.context.search import FunctionHit, search
from agent.context.semantic import Semantic
from agent.git import Git
from agent.index.history import Commit, log_arguments, parse_log
from agent.index.indexer import Indexer
from agent.index.source import TreeSource
from agent.model.embeddings import OpenAIEmbedder
from agent.tree import BaseTree
from agent.types import ModelEndpoint, Task
from bench.localization_cases import cases as history_cases

FILE_KS = (1, 3, 5, 10, 20)
FUNCTION_KS = (1, 5, 10, 20)


def tree_at(git: Git, commit: str, suffixes: tuple[str, ...]) -> BaseTree:
    """The files of a commit whose names end in one of ``suffixes``; empty for all."""
    entries = git.tree(commit)
    return BaseTree(git, commit, {p: entry for p, entry in entries.items() if not suffixes or p.endswith(suffixes)})


def history(git: Git, commit: str, count: int) -> tuple[Commit, ...]:
    """The last commits before and at ``commit``."""
    return parse_log(git.run(log_arguments(commit, count)))


@dataclass(frozen=True)
class Options:
    repos: Mapping[str, str]
    store: Path
    history: int
    suffixes: tuple[str, ...]
    budgets: tuple[int, ...]
    embeddings: str = ""
    """Address of an OpenAI-compatible endpoint; '' leaves meaning out."""
    weights: Mapping[str, Weights] = field(default_factory=dict)
    """Case → weights that never saw it; those that ship for the others."""
    k: int = 20


def run(cases: Sequence[Mapping[str, Any]], options: Options) -> Iterator[dict[str, Any]]:
    """One row a case: what was found, and how long it took."""
    meaning = _meaning(options)
    with Indexer(options.store, jobs=2) as indexer:
        for number, case in enumerate(cases, start=1):
            row = {key: case[key] for key in ("instance_id", "repo", "gold_files", "gold_functions")}
            try:
                row.update(_one(case, indexer, meaning, options))
            except Exception as error:  # a failed case is a miss, never left out
                shown: dict[str, list[Any]] = {str(budget): [] for budget in options.budgets}
                row.update(files=[], functions=[], shown=shown, seconds=0.0, query_ms=0.0, error=repr(error))
            yield row
            if number % 20 == 0:
                print(f"{number}/{len(cases)}", file=sys.stderr, flush=True)


def _meaning(options: Options) -> Semantic | None:
    if not options.embeddings:
        return None
    endpoint = ModelEndpoint(base_url=options.embeddings, api_key="none", model="bench")
    return Semantic(OpenAIEmbedder(endpoint), options.store.with_suffix(".vectors"))


def _one(case: Mapping[str, Any], indexer: Indexer, meaning: Semantic | None, options: Options) -> dict[str, Any]:
    issue, learned = case["problem_statement"], options.weights.get(case["instance_id"])
    with Git(Path(options.repos[case["repo"]])) as git:
        began = time.perf_counter()
        index = indexer.index(TreeSource(tree_at(git, case["base_commit"], options.suffixes)))
        past = history(git, case["base_commit"], options.history) if options.history else None
        result = search(index, issue, k=options.k, history=past, meaning=meaning, learned=learned)
        seconds = time.perf_counter() - began
        search(index, "warm up", k=options.k, meaning=meaning)
        began = time.perf_counter()
        search(index, issue, k=options.k, meaning=meaning)
        query_ms = 1000 * (time.perf_counter() - began)
        title, _, body = issue.partition("\n")
        shown = {}
        for budget in options.budgets:
            text = render(index, Task(title=title, body=body), result, budget, "bench")
            shown[str(budget)] = shown_functions(text, result.functions)
        return {
            "files": [hit.path for hit in result.files],
            "functions": [f"{hit.path}::{hit.name}" for hit in result.functions],
            "shown": shown,
            "seconds": round(seconds, 3),
            "query_ms": round(query_ms, 1),
        }


_NUMBERED = re.compile(r"^ *(\d+) ", re.M)


def shown_functions(text: str, ranked: Sequence[FunctionHit]) -> list[str]:
    """Which ranked functions stand whole in a context: under their file's headings, with every one of their lines."""
    lines: dict[str, set[int]] = {}
    for section in text.split("\n== ")[1:]:
        path, _, body = section.partition("\n")
        # An example of the house style may come from a file that stands above already.
        lines.setdefault(path, set()).update(map(int, _NUMBERED.findall(body.partition("\n\n")[0])))
    return [
        f"{hit.path}::{hit.name}" for hit in ranked if set(range(hit.start, hit.end + 1)) <= lines.get(hit.path, set())
    ]


def _weights(folds: Path | None) -> dict[str, Weights]:
    """Case → weights of the fold without it."""
    data = json.loads(folds.read_text()) if folds else []
    return {case: read_weights(fold["weights"]) for fold in data for case in fold["ids"]}


# ── scores ───────────────────────────────────────────────────────────────────────────────────────────────────────


def hits(rows: Sequence[Mapping[str, Any]], kind: str, k: int | None) -> list[bool]:
    """For each row with gold of this kind: whether all of it is among the first ``k``."""
    gold, found = ("gold_files", "files") if kind == "file" else ("gold_functions", kind)
    return [set(row[gold]) <= set(row[found][:k]) for row in rows if row[gold]]


def interval(hit: Sequence[bool]) -> tuple[float, float]:
    """95 % bootstrap interval of a share, in percent."""
    draw = random.Random(0)  # noqa: S311 - reproducible, not secret
    shares = sorted(sum(draw.choices(hit, k=len(hit))) / len(hit) for _ in range(1000))
    return 100 * shares[25], 100 * shares[974]


def table(rows: Sequence[Mapping[str, Any]], *, budgets: Sequence[int]) -> str:
    """The metrics as Markdown."""
    lines = ["| metric | value | 95 % interval |", "| --- | --- | --- |"]
    found = [(f"file Acc@{k}", hits(rows, "file", k)) for k in FILE_KS]
    found += [(f"function Acc@{k}", hits(rows, "functions", k)) for k in FUNCTION_KS]
    for budget in budgets:
        inside = [{**row, "shown": row["shown"][str(budget)]} for row in rows]
        found.append((f"all gold functions inside {budget} tokens", hits(inside, "shown", None)))
    for label, hit in found:
        if hit:
            low, high = interval(hit)
            lines.append(f"| {label} | {100 * sum(hit) / len(hit):.1f} | {low:.1f}–{high:.1f} |")
    times = sorted(row["query_ms"] for row in rows)
    lines.append(
        f"| query, warm, median / p95 | {times[len(times) // 2]:.0f} / {times[int(len(times) * 0.95)]:.0f} ms | |"
    )
    lines.append(f"| cases (failed) | {len(rows)} ({sum('error' in row for row in rows)}) | |")
    return "\n".join(lines)


def main() -> None:
    arguments = _arguments()
    learned = _weights(arguments.weights)
    cases, repos = _cases(arguments)
    cases = [case for case in cases if not learned or case["instance_id"] in learned]
    options = Options(
        repos,
        arguments.store,
        history=arguments.history,
        suffixes=() if arguments.own else tuple(arguments.suffix),
        budgets=() if arguments.own else tuple(arguments.budget),
        embeddings=arguments.embeddings,
        weights=learned,
    )
    rows = list(run(cases[:: arguments.every], options))
    if not rows:
        raise SystemExit("There is no case to run: a shallow clone has no history, and --only may match nothing.")
    if arguments.out:
        arguments.out.write_text("".join(json.dumps(row) + "\n" for row in rows))
    print(table(rows, budgets=options.budgets))
    if arguments.by_repo:
        for repo in sorted({row["repo"] for row in rows}):
            own = [row for row in rows if row["repo"] == repo]
            shares = (f"@{k} {100 * sum(h := hits(own, 'file', k)) / len(h):.0f}" for k in FILE_KS)
            print(f"{repo:28s} n={len(own):3d}  " + "  ".join(shares))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--cases", nargs="+", type=Path)
    what.add_argument("--own", action="store_true", help="cases from this checkout's history, over all its files")
    parser.add_argument("--repos", type=Path, help="needed with --cases")
    parser.add_argument("--store", type=Path, default=Path("/tmp/graftsmith-bench.sqlite"))  # noqa: S108
    parser.add_argument("--history", type=int, default=8000)
    parser.add_argument("--suffix", nargs="*", default=[".py"])
    parser.add_argument("--budget", type=int, nargs="*", default=[8000], help="tokens of the context; several, or none")
    parser.add_argument("--embeddings", default="", help="OpenAI-compatible address; see bench.embedding_endpoint")
    parser.add_argument("--weights", type=Path, help="folds of bench.fit_weights; their cases only")
    parser.add_argument("--only", default="", help="part of an instance id or repository")
    parser.add_argument("--every", type=int, default=1, help="take every n-th case")
    parser.add_argument("--by-repo", action="store_true")
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


def _cases(arguments: argparse.Namespace) -> tuple[list[Mapping[str, Any]], Mapping[str, str]]:
    """The cases that are asked for, and the git folder of each repository."""
    if arguments.own:
        repos = {"own": str(Path(__file__).parents[1] / ".git")}
        found: list[Mapping[str, Any]] = list(history_cases("own", repos["own"], 40, apart={"bash", "make"}))
    else:
        repos = json.loads(arguments.repos.read_text())
        found = [json.loads(line) for path in arguments.cases for line in path.read_text().splitlines()]
    return [c for c in found if arguments.only in c["instance_id"] or arguments.only in c["repo"]], repos


if __name__ == "__main__":
    main()
