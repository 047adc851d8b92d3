"""Runs that GitHub Actions carries out: a real workflow, executed by act, fetches the run and brings it back."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent.model.script import Script
from agent.types import Outcome
from app.devhub.devhub import DevHub
from app.devhub.records import WorkflowRun
from app.devhub.repo import Repo
from app.devhub.serving import serving
from tests.flow.scripts import SCRIPT
from tests.flow.test_hostile import HOSTILE, SPY
from tests.flow.world import BUG, FILES, World, outcome, plan, wait_until, world
from tests.support.openapi import Checked

pytestmark = pytest.mark.xdist_group("actions")

ROOT = Path(__file__).parents[2]
ACTION = "example/graftsmith"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
FILE = ".github/workflows/graftsmith.yml"
NEEDS = {"actions": "write"}


@pytest.fixture(scope="module")
def actions(tmp_path_factory: pytest.TempPathFactory, shared_checks: Checked, app_key: str) -> Iterator[World]:
    """A world whose service has its runs carried out by workflows."""
    folder = tmp_path_factory.mktemp("actions")
    for place in (folder, *folder.parents):
        if "pytest" in str(place):
            place.chmod(0o755)
    hub = DevHub(folder / "hub")
    with (
        serving(hub, middleware=shared_checks.wrap),
        world(folder, hub, SCRIPT, app_key, GRAFTSMITH_RUNNER="actions") as made,
    ):
        yield made
    hub.close()


def workflow(service_url: str) -> str:
    """The workflow that people copy, filled in."""
    text = (ROOT / ".github/runner/graftsmith.yml").read_text()
    filled = {"OWNER/graftsmith": ACTION, "COMMIT": COMMIT, "https://SERVICE": service_url}
    for name, value in filled.items():
        assert name in text
        text = text.replace(name, value)
    return text


@contextmanager
def machines(repo: Repo, folder: Path) -> Iterator[dict[int, str]]:
    """GitHub's machines: each workflow that is started meanwhile is executed; yields the logs of those that ended, by
    the number of their run."""
    over, logs, seen = threading.Event(), dict[int, str](), {run.id for run in repo.workflow_runs()}

    def work(run: WorkflowRun) -> None:
        log = execute(repo, run, folder / str(run.id))
        if next(known for known in repo.workflow_runs() if known.id == run.id).status != "completed":
            repo.finish_workflow_run(run.id, "success" if "Job succeeded" in log else "failure")
        logs[run.id] = log

    def watch() -> None:
        with ThreadPoolExecutor() as pool:
            under_way = []
            while not over.wait(0.1):
                for run in repo.workflow_runs():
                    if run.id not in seen:
                        seen.add(run.id)
                        under_way.append(pool.submit(work, run))
        for ended in under_way:
            ended.result()

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield logs
    finally:
        over.set()
        watcher.join()


def execute(repo: Repo, run: WorkflowRun, folder: Path) -> str:
    """Run the workflow as it is in the repository; its log."""
    checkout = folder / "checkout"
    (checkout / FILE).parent.mkdir(parents=True)
    (checkout / FILE).write_bytes(repo.read(FILE))
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@example.org", "-C", str(checkout)]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "x"]):
        subprocess.run([*git, *words], check=True)
    action = folder / "action"
    shutil.copytree(ROOT / ".github", action / ".github")
    variables = repo.identity_of(run.id)
    found = subprocess.run(
        [
            *(str(Path(sys.executable).with_name("act")), "workflow_dispatch", "-W", FILE),
            *("-P", "ubuntu-24.04=-self-hosted", "--local-repository", f"{ACTION}@{COMMIT}={action}"),
            *(word for name, value in run.inputs.items() for word in ("--input", f"{name}={value}")),
            *(word for name, value in variables.items() for word in ("--env", f"{name}={value}")),
        ],
        cwd=checkout,
        env={
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(folder.parent),
            **{name: value for name, value in os.environ.items() if name.startswith(("PIP_", "npm_config"))},
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=240,
    )
    return found.stdout.decode(errors="replace")


@pytest.fixture(scope="module")
def repo(actions: World) -> Repo:
    """With the workflow in it, and code that looks around; one for all tests, so that its environment is installed
    once."""
    spy = {"spy.py": SPY, ".graftsmith.toml": HOSTILE[".graftsmith.toml"]}
    return actions.repository("by-actions", {**FILES, **spy, FILE: workflow(actions.service.url)}, alone=True)


@pytest.fixture(scope="module")
def home(actions: World) -> Path:
    """Of the machine that all workflows run on; installed environments stay there."""
    made = actions.service.folder / "machine"
    made.mkdir(mode=0o755)
    return made


def test_a_label_becomes_a_pull_request_by_way_of_a_workflow(actions: World, repo: Repo, home: Path) -> None:
    with machines(repo, home) as logs:
        actions.asked(repo, BUG)
        job = actions.ended(repo)
    assert outcome(job) is Outcome.PROPOSED, logs
    (pull,) = actions.pulls(repo)
    assert not pull.draft
    assert "sum(items)\n" in repo.read("widget.py", pull.head_ref).decode()
    result = actions.result(job)
    assert result.evidence.proven
    assert [event["kind"] for event in actions.events(job)].count("model_call") == result.usage.calls
    (run,) = repo.workflow_runs()
    assert "stage: prove" in logs[run.id]
    assert "sum(items" not in logs[run.id], "no text of the run is in the workflow's log"
    folder = actions.service.folder / "state" / "jobs" / job.id
    texts = "\n".join(path.read_text(errors="replace") for path in folder.rglob("*") if path.is_file())
    assert "SEEN" in texts, "the set-up looked around"
    for secret in ("ACTIONS_ID_TOKEN", *repo.identity_of(run.id).values(), "GITHUB_"):
        assert secret not in texts


def test_a_service_that_is_killed_begins_the_run_anew_and_once(actions: World, repo: Repo, home: Path) -> None:
    jobs, pulls = len(actions.jobs_of(repo)), len(actions.pulls(repo))
    actions.model.script = Script.load({"sessions": [_HELD]})
    with machines(repo, home) as logs:
        actions.asked(repo, BUG)

        def under_way() -> bool:
            job = actions.job(repo, jobs)
            return job is not None and any(event["kind"] == "decision" for event in actions.events(job))

        wait_until(under_way, "the first run", actions.service)
        actions.service.kill()
        actions.model.script = Script.load(SCRIPT)
        actions.service.start()
        job = actions.ended(repo, jobs)
        wait_until(lambda: len(logs) == 2, "both workflows to end", actions.service)
    first, second = (logs[number] for number in sorted(logs))
    assert outcome(job) is Outcome.PROPOSED, logs
    assert len(actions.pulls(repo)) == pulls + 1
    assert "The service has nothing to carry out here" in first
    assert "The run has ended as proposed" in second


_HELD = {"name": "held", "when": BUG, "steps": [plan(), {"delay_s": 600, "content": "too late"}]}
"""The run is in the middle of its work for as long as somebody wants it to be."""
