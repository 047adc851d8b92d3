"""A world for flow tests: the stand-in for GitHub, a scripted model, the real service as a process to be killed."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from agent.model.scripted import ScriptedServer, serve
from agent.types import ModelEndpoint, Outcome, RunResult
from app.addresses import by_api
from app.demo.scene import service_settings
from app.devhub.devhub import AppKeys, DevHub
from app.devhub.repo import Repo
from app.devhub.seen import SeenPull
from app.jobs.store import JobStore
from app.jobs.tables import sqlite_url
from app.jobs.types import Job, JobState
from app.steps.files import Brief
from tests.support import loopback

OWNER = "acme"
PATIENCE_S = 240.0

FILES: Mapping[str, str] = {
    "README.md": "# widget\n",
    "widget.py": "def total(items):\n    return sum(items[1:])\n\n\ndef double(number):\n    return number * 2\n",
    "test_widget.py": "from widget import double\n\n\ndef test_double():\n    assert double(2) == 4\n",
    "requirements-dev.txt": "pytest\n",
}
BUG = "total leaves the first item out"
"""Title of the issue that ``FIX`` answers."""

NEW_TEST = "from widget import total\n\n\ndef test_total_counts_every_item():\n    assert total([1, 2, 3]) == 6\n"


def plan(**more: Any) -> dict[str, Any]:
    """The reply that plans the fix of ``FILES``."""
    steps = [{"id": "1", "objective": "Count every item", "files": ["widget.py"], "new_files": ["test_total.py"]}]
    return {"content": json.dumps({"intent": "bug_fix", "summary": "It skips the first.", "steps": steps, **more})}


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


EDIT = call("edit", path="widget.py", edits=[{"search": "sum(items[1:])", "replace": "sum(items)"}])
WRITE = call("write", path="test_total.py", content=NEW_TEST)
FINISH = call("finish", summary="Every item counts now.", files={"widget.py": "no slice"})


def fixing(name: str, *when: str, extra: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    """A session that plans, fixes with a test, and finishes. ``extra`` calls come before ``finish``."""
    return {"name": name, "when": list(when), "steps": [plan(), {"tool_calls": [EDIT, WRITE, *extra, FINISH]}]}


@dataclass
class Service:
    """``graftsmith serve`` as a process."""

    settings: Mapping[str, str]
    folder: Path
    port: int
    process: subprocess.Popen[bytes] | None = None
    log: Path = field(init=False)

    def __post_init__(self) -> None:
        self.log = self.folder / "service.log"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self, *, ready: bool = True) -> None:
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("GRAFTSMITH_", "OPENAI_"))}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", "app.cli", "serve"],
                cwd=self.folder,
                env={**inherited, **self.settings},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=_die_with_parent,
            )
        if ready:
            self.wait_ready()

    def wait_ready(self, timeout_s: float = 60.0) -> None:
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            assert self.process is not None
            assert self.process.poll() is None, self.log.read_text()[-2000:]
            try:
                if loopback.get(f"{self.url}/readyz", timeout=5).status_code == 200:
                    return
            except httpx.TransportError:
                time.sleep(0.05)
        raise AssertionError("the service is not ready")

    def kill(self) -> None:
        """As a power cut would: nothing of the process gets to run."""
        if self.process is not None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(30)
            self.process = None


@dataclass
class World:
    """Everything of a flow test."""

    hub: DevHub
    keys: AppKeys
    service: Service
    model: ScriptedServer
    installation: int
    _store: JobStore | None = None
    _changes: sqlite3.Connection | None = None
    _seen: tuple[int, list[Job]] = (-1, [])
    """The jobs, as of a version of their database."""
    _usual: tuple[Repo, str] | None = None
    """The repository with ``FILES`` that tests get one after the other, and its first commit."""
    _since: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Repository → its jobs and its pull requests of earlier tests."""

    def repository(
        self, name: str, files: Mapping[str, str] | Path = FILES, *, alone: bool = False, **more: Any
    ) -> Repo:
        """A repository with ``files`` on ``main`` and no other branch.

        An environment is installed once for a repository, which takes longer than most tests: where nothing special
        is asked for it is one that earlier tests have used.

        Args:
            name: of one that is made for this test; the shared one keeps that of the first who asked.
            alone: nobody has used it, and nobody else gets it.
        """
        usual = files is FILES and not alone and not more
        if usual and self._usual is not None:
            repo = self._cleared(*self._usual)
        else:
            repo = self.hub.create_repository(f"{OWNER}/{name}", files, **more)
            self._usual = (repo, repo.branches()["main"]) if usual else self._usual
        repo.permit("maria", "write")
        repo.permit("rita", "read")
        return repo

    def _cleared(self, repo: Repo, start: str) -> Repo:
        """What earlier tests did there has come to its end, and is seen by no test any more."""
        for branch in repo.branches().keys() - {"main"}:
            repo.delete_branch(branch)
        if repo.branches()["main"] != start:
            repo.set_branch("main", start)
        self.hub.settle()
        wait_until(lambda: all(job.state is JobState.DONE for job in self._all_of(repo)), "earlier tests", self.service)
        self._since[repo.id] = len(self._all_of(repo)), len(repo.pulls())
        return repo

    def jobs(self) -> list[Job]:
        """Every job of the service, oldest first."""
        if self._store is None or self._changes is None:
            path = Path(self.service.settings["GRAFTSMITH_STATE_DIR"]) / "database" / "jobs.sqlite"
            if not path.exists():
                return []
            self._store = JobStore(sqlite_url(path))  # kept: opening one takes the write lock
            self._changes = sqlite3.connect(path)
        (version,) = self._changes.execute("PRAGMA data_version").fetchone()
        if version != self._seen[0]:  # who waits looks twenty times a second, and mostly nothing has happened
            self._seen = version, list(reversed(self._store.recent(1000)))
        return self._seen[1]

    def close(self) -> None:
        if self._store is not None and self._changes is not None:
            self._store.close()
            self._changes.close()

    def jobs_of(self, repo: Repo) -> list[Job]:
        """Those of this test, oldest first."""
        return self._all_of(repo)[self._since.get(repo.id, (0, 0))[0] :]

    def _all_of(self, repo: Repo) -> list[Job]:
        return [job for job in self.jobs() if job.command.repository_id == repo.id]

    def job(self, repo: Repo, position: int = 0) -> Job | None:
        own = self.jobs_of(repo)
        return own[position] if len(own) > position else None

    def asked(self, repo: Repo, title: str, body: str | None = None, *, by: str = "maria") -> int:
        """The number of a new issue by ``by`` that maria, who may, has labelled."""
        number = repo.open_issue(title, body, by=by)
        repo.add_label(number, "agent", by="maria")
        return number

    def ended(self, repo: Repo, position: int = 0, timeout_s: float = PATIENCE_S) -> Job:
        """The job of ``repo``, once it is done."""

        def done() -> bool:
            job = self.job(repo, position)
            return job is not None and job.state is JobState.DONE

        wait_until(done, f"the job of {repo.full_name} to end", self.service, timeout_s)
        job = self.job(repo, position)
        assert job is not None
        return job

    def result(self, job: Job) -> RunResult:
        state = Path(self.service.settings["GRAFTSMITH_STATE_DIR"])
        return RunResult.model_validate_json((state / "jobs" / job.id / "run-1" / "result.json").read_bytes())

    def events(self, job: Job) -> list[dict[str, Any]]:
        state = Path(self.service.settings["GRAFTSMITH_STATE_DIR"])
        log = state / "jobs" / job.id / "run-1" / "events.jsonl"
        lines = log.read_bytes().split(b"\n")[:-1] if log.exists() else []  # the last may be written right now
        return [json.loads(line) for line in lines]

    def brief(self, job: Job) -> Brief:
        state = Path(self.service.settings["GRAFTSMITH_STATE_DIR"])
        return Brief.model_validate_json((state / "jobs" / job.id / "brief.json").read_bytes())

    def told(self, repo: Repo, number: int) -> list[str]:
        """What the bot wrote on an issue."""
        return [comment.body for comment in repo.comments(number) if comment.author.endswith("[bot]")]

    def pulls(self, repo: Repo) -> list[SeenPull]:
        """The bot's pull requests of this test."""
        return [pull for pull in self.pulls_of_all(repo) if pull.author.endswith("[bot]")]

    def pulls_of_all(self, repo: Repo) -> list[SeenPull]:
        """Everybody's pull requests of this test."""
        return repo.pulls()[self._since.get(repo.id, (0, 0))[1] :]


def by_hand(flow: World, repo: Repo, number: int, *, draft: bool) -> None:
    """Maria presses the button on the pull request's page."""
    headers = {"authorization": f"Bearer {flow.hub.token('maria')}"}
    seen = loopback.get(f"{flow.hub.api_url}/repos/{repo.full_name}/pulls/{number}", headers=headers).json()
    name = "convertPullRequestToDraft" if draft else "markPullRequestReadyForReview"
    mutation = f"mutation($id: ID!) {{ {name}(input: {{pullRequestId: $id}}) {{ pullRequest {{ isDraft }} }} }}"
    query = {"query": mutation, "variables": {"id": seen["node_id"]}}
    answer = loopback.post(by_api(flow.hub.api_url).graphql, json=query, headers=headers)
    assert answer.status_code == 200 and "errors" not in answer.json(), answer.text


def _die_with_parent() -> None:
    """A test run that is killed leaves no service behind (prctl(2), PR_SET_PDEATHSIG)."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def outcome(job: Job) -> Outcome | None:
    """How a job ended; ``None`` while it has not."""
    return job.ending.outcome if job.ending else None


def wait_until(
    condition: Callable[[], bool],
    what: str,
    service: Service,
    timeout_s: float = PATIENCE_S,
    *,
    every_s: float = 0.05,
) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() >= deadline:
            log = service.log.read_text()[-3000:] if service.log.exists() else ""
            raise AssertionError(f"waited {timeout_s} s for {what}\n{log}")
        time.sleep(every_s)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def world(folder: Path, hub: DevHub, script: Mapping[str, Any], key: str, **settings: str) -> Iterator[World]:
    """A started service that works for ``hub``."""
    with serve(script) as model:
        port = free_port()
        keys = hub.create_app(webhook_url=f"http://127.0.0.1:{port}/webhooks", private_key=key)
        endpoint = ModelEndpoint(base_url=model.base_url, api_key="provider-key-3f9a", model="scripted")
        env = service_settings(folder / "state", port, hub, keys, endpoint)
        env |= {"GRAFTSMITH_REVIEW": "no", "GRAFTSMITH_PUBLIC_URL": f"http://127.0.0.1:{port}"} | settings
        service = Service(env, folder, port)
        made = World(hub, keys, service, model, hub.install(keys.id, OWNER))
        service.start()
        try:
            yield made
        finally:
            service.stop()
            service.kill()
            made.close()
