"""The demo's scene: an embedded GitHub with one repository and an issue, and the real service beside it."""

from __future__ import annotations

import shutil
import socket
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib.resources import as_file, files
from pathlib import Path

from agent.errors import BugError, OperatorError
from agent.model import scripted
from agent.types import ModelEndpoint, RunResult
from app.devhub.devhub import AppKeys, DevHub
from app.devhub.repo import Repo
from app.devhub.seen import SeenPull
from app.devhub.serving import serving
from app.jobs.store import JobStore
from app.jobs.tables import sqlite_url
from app.jobs.types import Job
from sandbox import process
from sandbox.text import clean
from sandbox.types import Limits

OWNER, NAME = "acme", "ledger"
LABEL = "agent"
_START_S = 60.0


@dataclass(frozen=True)
class Scene:
    """Everything is up: act as a person on ``repo``, and see what comes of it."""

    hub: DevHub
    repo: Repo
    service_dir: Path
    store: JobStore = field(repr=False)

    def open_issue(self) -> int:
        """The issue of the demo, without the label."""
        title, _, body = files(__package__).joinpath("issue.md").read_text(encoding="utf-8").partition("\n")
        return self.repo.open_issue(title, body.strip())

    def job(self) -> Job | None:
        """The newest job of the service, as its own table has it."""
        found = self.store.recent(1)
        return found[0] if found else None

    def result(self, job: Job) -> RunResult | None:
        """What the job's last run measured."""
        runs = sorted((self.service_dir / "jobs" / job.id).glob("run-*/result.json"))
        return RunResult.model_validate_json(runs[-1].read_bytes()) if runs else None

    def pull(self, job: Job) -> SeenPull | None:
        number = job.artefacts.pull_number
        return None if number is None else self.repo.pull(number)


@contextmanager
def scene(folder: Path, *, model: ModelEndpoint | None = None) -> Iterator[Scene]:
    """Set the scene up, and take it down again. Installed environments of earlier scenes are kept.

    Args:
        folder: holds everything; emptied but for caches.
        model: a real endpoint; the shipped script when ``None``.

    Raises:
        OperatorError: the service does not start; says what it printed.
    """
    _clear(folder)
    with ExitStack() as stack:
        hub = DevHub(folder / "hub")
        stack.callback(hub.close)
        stack.enter_context(serving(hub))
        endpoint = model or ModelEndpoint(base_url=stack.enter_context(_script()), api_key="demo-key", model="scripted")
        port = _free_port()
        with as_file(files(__package__).joinpath("repository")) as source:  # its owner is who the pages act as
            repo = hub.create_repository(f"{OWNER}/{NAME}", source, private=False)
        keys = hub.create_app(webhook_url=f"http://127.0.0.1:{port}/webhooks")
        hub.install(keys.id, OWNER)
        stack.enter_context(_service(folder / "service", port, hub, keys, endpoint))
        store = JobStore(sqlite_url(folder / "service" / "database" / "jobs.sqlite"))
        stack.callback(store.close)
        yield Scene(hub, repo, folder / "service", store)


def _clear(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(folder / "hub", ignore_errors=True)
    for entry in (folder / "service").glob("*"):
        if entry.name != "cache":
            shutil.rmtree(entry, ignore_errors=True)


@contextmanager
def _script() -> Iterator[str]:
    with as_file(files(__package__).joinpath("script.json")) as path, scripted.serve(path) as server:
        yield server.base_url


def service_settings(state_dir: Path, port: int, hub: DevHub, keys: AppKeys, model: ModelEndpoint) -> dict[str, str]:
    """The environment of a service that works for ``hub``: the names that any installation uses."""
    return {
        "APP_ID": str(keys.id),
        "PRIVATE_KEY": keys.private_key,
        "WEBHOOK_SECRET": keys.webhook_secret,
        "GITHUB_API_URL": hub.api_url,
        "OPENAI_BASE_URL": model.base_url,
        "OPENAI_API_KEY": model.api_key,
        "OPENAI_MODEL": model.model,
        "GRAFTSMITH_STATE_DIR": str(state_dir),
        "GRAFTSMITH_PORT": str(port),
    }


@contextmanager
def _service(state_dir: Path, port: int, hub: DevHub, keys: AppKeys, model: ModelEndpoint) -> Iterator[None]:
    """``graftsmith serve`` as a process of its own, as in production."""
    from app.settings import environment

    stop, ended = threading.Event(), threading.Event()
    printed: list[bytes] = []
    inherited = {
        name: value for name, value in environment().items() if not name.startswith(("GRAFTSMITH_", "OPENAI_"))
    }

    def serve() -> None:
        finished = process.run(
            [sys.executable, "-P", "-m", "app.cli", "serve"],
            cwd=state_dir.parent,  # no .env of the user's is read here
            env={**inherited, **service_settings(state_dir, port, hub, keys, model), "PYTHONSAFEPATH": "1"},
            limits=Limits(wall_s=float("inf")),
            cancelled=stop.is_set,
            log=state_dir.parent / "service.log",
        )
        printed.append(finished.output)
        ended.set()

    thread = threading.Thread(target=serve, name="service")
    thread.start()
    try:
        _await(f"http://127.0.0.1:{port}/readyz", ended, state_dir.parent / "service.log")
        yield
    finally:
        stop.set()
        thread.join()
        if printed and not ended.is_set():
            raise BugError("The service did not stop", why=clean(printed[0], 2_000))


def _await(url: str, ended: threading.Event, log: Path) -> None:
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline and not ended.is_set():
        try:
            with urllib.request.urlopen(url, timeout=2.0):  # noqa: S310  # our own address
                return
        except OSError:
            time.sleep(0.05)
    said = log.read_bytes()[-2_000:] if log.exists() else b""
    raise OperatorError("The service did not start", why=f"it said at last: {clean(said)}", todo=f"See {log}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
