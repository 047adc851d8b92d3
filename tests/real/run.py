"""``make real``: the main job on three released packages, each with a bug that its next release fixed.

The package at the earlier version becomes a repository on the embedded GitHub, the bug an issue with the label. The
model is scripted and makes the change that the next release made, with that release's own test in a new file. Whatever
comes after is the product: webhook, job, set-up, the package's whole test suite before and after, proof, pull request.

Exit code 0 only when every pull request is proven.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

CHECKOUT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(CHECKOUT))

from agent.types import START, RunResult, TestRun  # noqa: E402
from app.devhub.devhub import DevHub, new_key  # noqa: E402
from app.devhub.seen import SeenPull  # noqa: E402
from app.devhub.serving import serving  # noqa: E402
from app.jobs.types import Job  # noqa: E402
from tests.flow.world import World, call, world  # noqa: E402
from tests.real.sdist import Release, python_lines, unpacked  # noqa: E402
from tests.real.upstream import hunks, only_tests  # noqa: E402

CACHE = CHECKOUT / ".cache" / "real"
DATA = Path(__file__).with_name("packages.toml")
PATIENCE_S = 1800.0
COPIED = "dependencies copied"


@dataclass(frozen=True)
class Package:
    """One entry of the data file, and its two releases on disk."""

    entry: Mapping[str, Any]
    before: Path
    after: Path

    @classmethod
    def of(cls, entry: Mapping[str, Any]) -> Package:
        releases = [Release(entry["name"], **entry[when]) for when in ("before", "after")]
        before, after = (unpacked(release, CACHE) for release in releases)
        return cls(entry, before, after)

    @property
    def title(self) -> str:
        return str(self.entry["title"])

    def session(self) -> dict[str, Any]:
        """The model's replies: a plan, a look at the files, the change with its test."""
        entry = self.entry
        files, test_file = list(entry["files"]), entry["test_file"]
        step = {"id": "1", "objective": entry["summary"], "files": files, "new_files": [test_file]}
        plan = {"intent": "bug_fix", "summary": entry["summary"], "steps": [step]}
        finish = call("finish", summary=entry["summary"], files=dict.fromkeys(files, entry["summary"]))
        return {
            "name": entry["name"],
            "when": self.title,
            "steps": [
                {"content": json.dumps(plan)},
                {"tool_calls": [call("read", path=path) for path in files]},
                {"tool_calls": [*map(self._edit, files), self._test(), finish]},
            ],
        }

    def _edit(self, path: str) -> dict[str, Any]:
        found = hunks(_text(self.before / path), _text(self.after / path), self.entry["files"][path])
        return call("edit", path=path, edits=[{"search": hunk.old, "replace": hunk.new} for hunk in found])

    def _test(self) -> dict[str, Any]:
        source = _text(self.after / self.entry["test_source"])
        return call("write", path=self.entry["test_file"], content=only_tests(source, self.entry["tests"]))


@dataclass(frozen=True)
class Seen:
    """What came of one package."""

    package: Package
    job: Job
    result: RunResult
    pull: SeenPull | None
    wall_s: float
    """From the label to the end of the job."""
    setup_s: float
    copies_s: float
    """Of dependencies that the commits of a repository share; part of the set-up."""
    tests_s: float
    model_s: float
    linters_s: float
    git_s: float

    @property
    def run_s(self) -> float:
        """With the start of its process."""
        return sum(self.result.seconds.values())

    @property
    def engine_s(self) -> float:
        """What the run took besides: its process and imports, context, tools, checkouts, reading reports, judging."""
        return self.run_s - self.setup_s - self.tests_s - self.model_s - self.linters_s - self.git_s

    @property
    def service_s(self) -> float:
        """Webhook, queue, fetching, publishing, comments, and the end of the run's process."""
        return self.wall_s - self.run_s

    @property
    def proven(self) -> bool:
        accepted = self.result.proven
        return accepted and self.pull is not None and not self.pull.draft


def main() -> int:
    asked = _arguments()
    console = Console(width=None if sys.stdout.isatty() else 160)
    entries = tomllib.loads(DATA.read_text(encoding="utf-8"))["package"]
    try:
        packages = [Package.of(entry) for entry in entries if not asked.names or entry["name"] in asked.names]
    except subprocess.CalledProcessError as error:
        console.print(
            f"pip could not download a package (exit code {error.returncode}); see above. Is a registry in reach?"
        )
        return 2
    folder = Path(tempfile.mkdtemp(prefix="graftsmith-real-"))
    folder.chmod(0o755)  # the sandbox's own user has to pass through to its checkouts
    seen = _all(console, packages, folder)
    console.print(_outcomes(seen), _times(seen))
    failed = [one for one in seen if not one.proven]
    for one in failed:
        _explain(console, one)
    if failed or asked.keep:
        console.print(f"What happened is in {folder}")
    else:
        shutil.rmtree(folder)
    return 1 if failed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", help="packages of the data file; all of them when none is named")
    parser.add_argument("--keep", action="store_true", help="keep the service's state, its log and the repositories")
    return parser.parse_args()


def _all(console: Console, packages: Sequence[Package], folder: Path) -> list[Seen]:
    seen = []
    script = {"sessions": [package.session() for package in packages]}
    with closing(DevHub(folder / "hub")) as hub, serving(hub), world(folder, hub, script, new_key()) as made:
        for package in packages:
            console.print(f"{package.entry['name']}: {package.title}", markup=False)
            seen.append(_carry_out(made, package))
            pull = seen[-1].pull
            if pull is not None:
                (folder / f"{package.entry['name']}.md").write_text(
                    f"# {pull.title}\n\n{pull.body}\n", encoding="utf-8"
                )
    return seen


def _carry_out(made: World, package: Package) -> Seen:
    repo = made.repository(package.entry["name"].lower(), package.before)
    number = repo.open_issue(package.title, package.entry["body"], by="rita")
    started = time.monotonic()
    repo.add_label(number, "agent", by="maria")
    job = made.ended(repo, timeout_s=PATIENCE_S)
    wall_s = time.monotonic() - started
    state = Path(made.service.settings["GRAFTSMITH_STATE_DIR"])
    if not (state / "jobs" / job.id / "run-1" / "result.json").exists():
        raise SystemExit(f"{package.entry['name']}: no run came to its end: {job.ending}. See {made.service.log}")
    events = [json.loads(line) for line in (state / "jobs" / job.id / "run-1" / "events.jsonl").open(encoding="utf-8")]
    return Seen(
        package,
        job,
        made.result(job),
        next(iter(made.pulls(repo)), None),
        wall_s,
        setup_s=sum(e["seconds"] for e in events if e.get("text") in ("set-up command", COPIED)),
        copies_s=sum(e["seconds"] for e in events if e.get("text") == COPIED),
        tests_s=sum(e["run"]["seconds"] for e in events if e["kind"] == "test_run" and not e.get("kept")),
        model_s=sum(e["seconds"] for e in events if e["kind"] == "model_call"),
        linters_s=sum(e["seconds"] for e in events if e.get("text") == "command"),
        git_s=sum(e["seconds"] for e in events if e.get("text") == "git"),
    )


# ── telling ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _outcomes(seen: Iterable[Seen]) -> Table:
    columns = ("package", "versions", "lines", "tests before", "after", "proof", "outcome", "draft")
    table = _empty("The bug of one release, fixed as the next one did", columns, right=("lines",))
    for one in seen:
        entry, evidence = one.package.entry, one.result.evidence
        table.add_row(
            entry["name"],
            f"{entry['before']['version']} → {entry['after']['version']}",
            f"{python_lines(one.package.before):,}",
            _counted(evidence.baseline),
            _counted(evidence.final),
            "\n".join(f"{p.test.split('::')[-1]}: {p.on_base} → {p.on_head}" for p in evidence.proof) or "none",
            one.result.outcome,
            "–" if one.pull is None else "yes" if one.pull.draft else "no",
        )
    return table


def _times(seen: Iterable[Seen]) -> Table:
    columns = (
        "package",
        "seconds",
        "set-up",
        "of it copies",
        "tests",
        "model",
        "linters",
        "git",
        "engine",
        "of it start",
        "service",
        "engine / run",
        "tokens in",
        "out",
    )
    table = _empty("Where the time went", columns, right=columns[1:])
    table.caption = (
        "tests, linters and set-up: the commands in the sandbox, its own start-up included; copies: of dependencies"
        "\nthat commits share · git: what was waited for"
        "\nengine: all that is left of the run, from the start of its process · service: the job without the run"
    )
    for one in seen:
        parts = (
            one.wall_s,
            one.setup_s,
            one.copies_s,
            one.tests_s,
            one.model_s,
            one.linters_s,
            one.git_s,
            one.engine_s,
        )
        parts += (one.result.seconds.get(START, 0.0), one.service_s)
        table.add_row(
            one.package.entry["name"],
            *(f"{part:.1f}" for part in parts),
            f"{one.engine_s / one.run_s:.1%}",
            f"{one.result.usage.input_tokens:,}",
            f"{one.result.usage.output_tokens:,}",
        )
    return table


def _empty(title: str, columns: Iterable[str], right: Sequence[str]) -> Table:
    table = Table(title=title)
    for name in columns:
        table.add_column(name, justify="right" if name in right else "left")
    return table


def _counted(run: TestRun | None) -> str:
    if run is None:
        return "–"
    failed = f", {len(run.failed)} failed" if run.failed else ""
    return f"{len(run.passed):,} passed{failed}"


def _explain(console: Console, one: Seen) -> None:
    console.print(f"\n{one.package.entry['name']} is not proven: {one.result.reason}", markup=False)
    for note in one.result.notes:
        console.print(f"  note: {note}", markup=False)
    for run in (one.result.evidence.baseline, one.result.evidence.final):
        if run is not None and run.failed:
            console.print(f"  failed: {', '.join(sorted(run.failed)[:10])}", markup=False)


def _text(path: Path) -> str:
    with path.open(encoding="utf-8", newline="") as file:
        return file.read()


if __name__ == "__main__":
    raise SystemExit(main())
