"""Fits ``agent/context/weights.json`` and says how well weights do on cases that they were not fitted on.

    .venv/bin/python -m bench.fit_weights --cases dev.jsonl more.jsonl --repos repos.json --features FOLDER [--write]
    .venv/bin/python -m bench.localization --cases dev.jsonl --repos repos.json --weights FOLDER/folds.json

Cases are those of ``bench.localization``. What the retriever knows of each case before any weight comes in is kept in
``FOLDER``, one file a case, so that a second fit costs a minute; empty the folder when a signal changes. The tables are
cross-validated: ten folds, five ways to split, and leaving out one repository at a time. ``folds.json`` holds the
weights of one split, so that the retriever itself can be run with weights that never saw the case.

The loss of a case is −log of the probability that a softmax over all candidates but the other right ones gives to a
right one, the mean over the right ones (ListNet's top-one loss; Cao et al., ICML 2007), plus λ times the squared length
of the weights. It is convex; Newton's method finds its minimum.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agent.context import rank
from agent.context.functions import FunctionFeatures, Measures, candidates, features, measure
from agent.context.issue import read_issue
from agent.context.rank import Ranked, Weights, best_first, by_rank, rank_files, rank_functions, second_look, weights
from agent.context.search import FILES_FOR_FUNCTIONS
from agent.context.signals import companions, gather, prior
from agent.git import Git
from agent.index.corpus import Floats
from agent.index.history import Commit
from agent.index.index import Index
from agent.index.indexer import Indexer
from agent.index.source import TreeSource
from bench.localization import FILE_KS, FUNCTION_KS, history, tree_at

PENALTY = 1.0
"""λ."""

SPLITS, FOLDS = 5, 10

_MEASURED = 40
"""Functions are measured inside so many of the files that the present weights like best."""
_FIRSTS = 8
"""So many of them may turn out to be the first file under other weights."""
_HARDEST = 200
"""So many wrong candidates, those with the largest sum of features, stand for all in the fit."""

_MISSED = 10**6

Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class Case:
    """What the retriever knows of one case before any weight: F files, N functions of the best of them."""

    id: str
    repo: str
    signals: Mapping[str, Floats]
    """Name → F."""
    prior: Floats
    """F"""
    near: Mapping[int, Mapping[str, Floats]]
    """A file that may come first → its companions: name → F."""
    measures: Measures
    right_files: tuple[int, ...]
    """-1 stands for a file that no signal knows."""
    right_functions: tuple[int, ...]
    """Positions in ``measures``; -1 stands for a function that was not measured."""

    def save(self, path: Path) -> None:
        head = {
            "id": self.id,
            "repo": self.repo,
            "signals": list(self.signals),
            "measures": list(self.measures.values),
            "near": [[first, list(found)] for first, found in self.near.items()],
            "right": [self.right_files, self.right_functions],
        }
        np.savez_compressed(
            path,
            head=np.array(json.dumps(head)),
            signals=np.stack(list(self.signals.values())),
            prior=self.prior,
            near=np.array([list(found.values()) for found in self.near.values()]),
            owners=self.measures.owners,
            measures=np.stack(list(self.measures.values.values())),
        )

    @classmethod
    def load(cls, path: Path) -> Case:
        with np.load(path) as data:
            head = json.loads(str(data["head"]))
            near = zip(head["near"], data["near"], strict=True)
            return cls(
                head["id"],
                head["repo"],
                dict(zip(head["signals"], data["signals"], strict=True)),
                data["prior"],
                {first: dict(zip(names, values, strict=True)) for (first, names), values in near},
                Measures(data["owners"], dict(zip(head["measures"], data["measures"], strict=True))),
                tuple(head["right"][0]),
                tuple(head["right"][1]),
            )


# ── what the retriever knows ─────────────────────────────────────────────────────────────────────────────────────


def gathered(items: Sequence[Mapping[str, Any]], repos: Mapping[str, str], folder: Path, past: int) -> Iterator[Case]:
    """The cases, from ``folder`` where they are there already."""
    folder.mkdir(parents=True, exist_ok=True)
    with Indexer(folder / "index.sqlite") as indexer:
        for number, item in enumerate(items, start=1):
            kept = folder / f"{item['instance_id']}.npz"
            if not kept.exists():
                with Git(Path(repos[item["repo"]])) as git:
                    index = indexer.index(TreeSource(tree_at(git, item["base_commit"], (".py",))))
                    case_of(item, index, history(git, item["base_commit"], past)).save(kept)
                print(f"{number}/{len(items)} {item['instance_id']}", file=sys.stderr, flush=True)
            yield Case.load(kept)


def case_of(item: Mapping[str, Any], index: Index, past: Sequence[Commit]) -> Case:
    evidence = gather(index, read_issue(item["problem_statement"]), past)
    factor = prior(index)
    best = best_first(rank_files(evidence.files, factor, weights()).scores)[:_MEASURED].tolist()
    found = candidates(evidence, best)
    known = np.flatnonzero((factor > 0) & np.any([values > 0 for values in evidence.files.values()], axis=0))
    row = {file: at for at, file in enumerate(known.tolist())}
    measures = measure(evidence, found)
    named = {f"{index.paths[c.file]}::{c.symbol.name}": at for at, c in enumerate(found)}
    return Case(
        item["instance_id"],
        item["repo"],
        {name: values[known] for name, values in evidence.files.items()},
        factor[known],
        {row[first]: {n: v[known] for n, v in companions(index, first).items()} for first in best[:_FIRSTS]},
        measures._replace(owners=np.array([row[file] for file in measures.owners.tolist()], np.intp)),
        tuple(row.get(index.graph.number.get(path, -1), -1) for path in item["gold_files"]),
        tuple(named.get(name, -1) for name in item["gold_functions"]),
    )


# ── the fit ──────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Choice:
    """Candidates (N × D) of which ``right`` are the right ones."""

    values: Matrix
    right: NDArray[np.bool_]


def choice(values: NDArray[np.float32], right: Sequence[int]) -> Choice | None:
    """``None`` where no candidate is right."""
    good = [at for at in right if at >= 0]
    wrong = np.setdiff1d(np.argsort(-values.sum(axis=1), kind="stable")[: _HARDEST + len(good)], good)
    rows = np.concatenate([np.array(good, np.intp), wrong])
    return Choice(values[rows].astype(np.float64), np.arange(len(rows)) < len(good)) if good else None


def fit(choices: Sequence[Choice], penalty: float = PENALTY) -> Matrix:
    """Weights (D) with the least loss over all ``choices``."""
    row = np.zeros(choices[0].values.shape[1])
    value, slope, bend = loss(row, choices, penalty)
    while True:
        step = np.linalg.solve(bend, -slope)
        size = 1.0
        while (new := loss(row + size * step, choices, penalty))[0] > value + 1e-4 * size * float(slope @ step):
            size /= 2
        row, gain = row + size * step, value - new[0]
        value, slope, bend = new
        if gain <= 1e-6 * value:
            return row


def loss(row: Matrix, choices: Sequence[Choice], penalty: float) -> tuple[float, Matrix, Matrix]:
    """Loss, gradient and Hessian."""
    total, slope, bend = penalty * float(row @ row), 2 * penalty * row, 2 * penalty * np.eye(len(row))
    for found in choices:
        values, right = found.values, found.right
        scores, count = values @ row, int(right.sum())
        for at in np.flatnonzero(right):
            inside = ~right
            inside[at] = True
            share = np.where(inside, np.exp(scores - np.max(scores[inside])), 0.0)
            share /= share.sum()
            mean = share @ values
            total -= float(np.log(share[at] + 1e-300)) / count
            slope = slope + (mean - values[at]) / count
            bend = bend + ((values * share[:, None]).T @ values - np.outer(mean, mean)) / count
    return total, slope, bend


def file_values(case: Case, names: Sequence[str]) -> NDArray[np.float32]:
    """Each signal as ``rank_files`` adds it up: its share of the best, then its rank (F × 2·S)."""
    shares = [case.signals[name] / max(1e-6, float(np.max(case.signals[name]))) for name in names]
    ranks = [by_rank(case.signals[name]) for name in names]
    return np.stack([values * case.prior for values in (*shares, *ranks)], axis=1)


def fitted(cases: Sequence[Case], files: Sequence[Choice], names: Sequence[str]) -> Weights:
    """Weights from some cases: of the signals ``names``, then, on the files that those bring up, of the functions.

    Args:
        files: the choice of files in each case.
    """
    row = fit(files).tolist()
    pairs = zip(row[: len(names)], row[len(names) :], strict=True)
    first = Weights({name: (round(a, 3), round(b, 3)) for name, (a, b) in zip(names, pairs, strict=True)}, {})
    tables = [(table, _among(table, case.right_functions)) for case in cases for table in [functions(case, first)]]
    chosen = [found for table, right in tables if len(table.at) and (found := choice(table.values, right))]
    second = fit(chosen).tolist()
    columns = next(table.names for table, _ in tables if table.names)
    return first._replace(functions={name: round(weight, 3) for name, weight in zip(columns, second, strict=True)})


def ranked(case: Case, learned: Weights) -> Ranked:
    """Files as ``agent.context.search`` ranks them."""
    found = rank_files(case.signals, case.prior, learned)
    first = best_first(found.scores)[:1].tolist()
    near = case.near.get(first[0]) if first else None
    return second_look(found, near, case.prior) if near is not None else found


def functions(case: Case, learned: Weights) -> FunctionFeatures:
    """Functions of the best files."""
    scores = ranked(case, learned).scores
    return features(case.measures, best_first(scores)[:FILES_FOR_FUNCTIONS].tolist(), scores)


def _among(table: FunctionFeatures, right: Sequence[int]) -> list[int]:
    row = {at: number for number, at in enumerate(table.at.tolist())}
    return [row.get(at, -1) for at in right]


# ── how well they do ─────────────────────────────────────────────────────────────────────────────────────────────


def worst_ranks(case: Case, learned: Weights) -> tuple[int, int]:
    """Rank of the last right file and of the last right function, from 0; -1 for a case that has no right function."""
    scores = ranked(case, learned).scores
    table = functions(case, learned)
    values = rank_functions(table.names, table.values, learned)
    right = _among(table, case.right_functions)
    return _worst(best_first(scores), case.right_files), _worst(np.argsort(-values, kind="stable"), right)


def _worst(order: NDArray[np.intp], right: Sequence[int]) -> int:
    place = {item: rank for rank, item in enumerate(order.tolist())}
    return max((place.get(item, _MISSED) for item in right), default=-1)


def ten_folds(cases: Sequence[Case], split: int) -> list[list[int]]:
    order = np.random.default_rng(split).permutation(len(cases))
    return [order[start::FOLDS].tolist() for start in range(FOLDS)]


def by_repository(cases: Sequence[Case]) -> list[list[int]]:
    return [[i for i, case in enumerate(cases) if case.repo == repo] for repo in sorted({case.repo for case in cases})]


def apart(
    cases: Sequence[Case], folds: Sequence[Sequence[int]], fit_on: Callable[[Sequence[Case]], Weights]
) -> list[Weights]:
    """For each fold, weights that were fitted without it."""
    return [fit_on([case for i, case in enumerate(cases) if i not in set(fold)]) for fold in folds]


def tables(cases: Sequence[Case], groups: Mapping[str, Sequence[str]]) -> tuple[str, list[dict[str, Any]]]:
    """The metrics as Markdown, and the folds of the first split with their weights.

    Args:
        groups: name → ids of cases, for rows of their own.
    """
    fit_on = fitter(cases)
    splits = [ten_folds(cases, split) for split in range(SPLITS)]
    learned = [apart(cases, folds, fit_on) for folds in splits]
    runs = {
        "ten folds": [_ranks(cases, folds, found) for folds, found in zip(splits, learned, strict=True)],
        "other projects' weights": [_ranks(cases, f := by_repository(cases), apart(cases, f, fit_on))],
        "weights that ship, fitted on some of these cases": [[worst_ranks(case, weights()) for case in cases]],
    }
    lines = [f"| | files {_slashed(FILE_KS)} | functions {_slashed(FUNCTION_KS)} |", "| --- | --- | --- |"]
    for name, ids in (*groups.items(), ("all", [case.id for case in cases])):
        inside = [i for i, case in enumerate(cases) if case.id in set(ids)]
        for how, found in runs.items():
            lines.append(_row(f"{name} ({len(inside)}), {how}", [[ranks[i] for i in inside] for ranks in found]))
    folds = [
        {"ids": [cases[i].id for i in fold], "weights": as_json(row)}
        for fold, row in zip(splits[0], learned[0], strict=True)
    ]
    return "\n".join(lines), folds


def fitter(cases: Sequence[Case]) -> Callable[[Sequence[Case]], Weights]:
    """Some of ``cases`` → weights of all their signals."""
    names = list(dict.fromkeys(name for case in cases for name in case.signals))
    made = {case.id: choice(file_values(case, names), case.right_files) for case in cases}
    return lambda chosen: fitted(chosen, [found for case in chosen if (found := made[case.id])], names)


def _ranks(cases: Sequence[Case], folds: Sequence[Sequence[int]], learned: Sequence[Weights]) -> list[tuple[int, int]]:
    fold = {i: row for inside, row in zip(folds, learned, strict=True) for i in inside}
    return [worst_ranks(case, fold[i]) for i, case in enumerate(cases)]


def _row(label: str, runs: Sequence[Sequence[tuple[int, int]]]) -> str:
    files = [[file for file, _ in ranks] for ranks in runs]
    inner = [[function for _, function in ranks if function >= 0] for ranks in runs]
    shares = [
        _slashed(round(100 * float(np.mean(np.array(found) < k)), 1) for k in ks)
        for found, ks in ((files, FILE_KS), (inner, FUNCTION_KS))
    ]
    return f"| {label} | {shares[0]} | {shares[1]} |"


def _slashed(values: Iterable[float]) -> str:
    return " / ".join(map(str, values))


def as_json(learned: Weights) -> dict[str, Any]:
    """The form of ``weights.json``. What was not fitted stays: the weight of a signal that only an endpoint gives."""
    return {"files": {**weights().files, **learned.files}, "functions": learned.functions}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="+", type=Path, required=True)
    parser.add_argument("--repos", type=Path, required=True)
    parser.add_argument("--features", type=Path, required=True, help="folder; filled where it is empty")
    parser.add_argument("--history", type=int, default=8000)
    parser.add_argument("--write", action="store_true", help="write the weights of all cases into agent/context")
    arguments = parser.parse_args()
    groups = {path.stem: [json.loads(line) for line in path.read_text().splitlines()] for path in arguments.cases}
    items = {item["instance_id"]: item for group in groups.values() for item in group}
    repos = json.loads(arguments.repos.read_text())
    cases = list(gathered(list(items.values()), repos, arguments.features, arguments.history))
    if len(cases) < FOLDS or len({case.repo for case in cases}) < 2:
        raise SystemExit(f"Weights are tried on cases apart: give at least {FOLDS} cases of two repositories.")
    table, folds = tables(cases, {name: [item["instance_id"] for item in group] for name, group in groups.items()})
    print(table)
    (arguments.features / "folds.json").write_text(json.dumps(folds))
    if arguments.write:
        text = json.dumps(as_json(fitter(cases)(cases)), indent=1)
        Path(rank.__file__).with_name("weights.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
