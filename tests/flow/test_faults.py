"""GitHub fails at every single request of a job, in every way: all the same there is one of each thing at the end.

The parts are the service's own; only DBOS is left out, and the pauses.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.types import ASGIApp, Receive, Scope, Send

from agent.budget import load_prices
from agent.model.scripted import serve
from agent.types import ModelEndpoint, Outcome
from app.demo.scene import service_settings
from app.devhub.devhub import AppKeys, DevHub
from app.devhub.faults import Faults, faulty
from app.devhub.hub import API
from app.devhub.repo import Repo
from app.devhub.serving import serving
from app.github import GitHubApp
from app.jobs.arrivals import Arrival
from app.jobs.store import JobStore
from app.jobs.tables import sqlite_url
from app.jobs.types import Delivery, Job
from app.jobs.workflow import Patience, Verdict, Work, perform
from app.llm.endpoint import Gateway, GatewayConfig
from app.llm.endpoint import routes as llm_routes
from app.llm.ledger import RunMeters
from app.machine import this_machine
from app.runners.local import LocalRunner
from app.settings import Settings
from app.steps import Files, GitHubSteps, Runs, Site
from app.webhooks.events import excerpt
from app.webhooks.policy import Ignored, Rules, decide
from tests.flow.scripts import SCRIPT
from tests.flow.world import BUG, FILES, OWNER, free_port

pytestmark = pytest.mark.xdist_group("faults")  # they share one real run, with the environment for it

_SECRET = "s" * 64
_LIMIT = "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."


_FINAL: Mapping[object, tuple[str, ...]] = {401: ("git-upload-pack",), 403: (".git/",)}
"""Where an answer means that somebody has to act: git is told of no limit with a 403, and a token that has just been
made is good."""


class EachRequestFails:
    """The first ``times`` requests of each method and path go wrong as ``what`` says; see ``Fault``."""

    def __init__(self) -> None:
        self.what: dict[str, object] | None = None
        self.times = 0
        self.spared: tuple[str, ...] = ()
        self.meanwhile: tuple[str, Callable[[], None]] | None = None
        """What somebody does as soon as a request with that word comes."""
        self.failed: Counter[str] = Counter()

    def wrap(self, app: ASGIApp) -> ASGIApp:
        async def failing(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "http" and self.meanwhile and self.meanwhile[0] in f"{scope['method']} {scope['path']}":
                (_, done), self.meanwhile = self.meanwhile, None
                await asyncio.to_thread(done)
            if scope["type"] != "http" or self.what is None:
                return await app(scope, receive, send)
            key, faults = f"{scope['method']} {scope['path']}", Faults()
            if self.failed[key] < self.times and not any(part in key for part in self.spared):
                self.failed[key] += 1
                faults.add("*", **self.what)
            return await faulty(app, faults, API)(scope, receive, send)

        return failing


@dataclass
class Scene:
    hub: DevHub
    repo: Repo
    failing: EachRequestFails
    store: JobStore
    settings: Settings
    endpoint: str
    meters: RunMeters
    folder: Path
    done: list[str] = field(default_factory=list)
    """Jobs that have ended; the first one's run is real, and later ones find its result as after a crash."""

    def job(
        self,
        what: dict[str, object] | None = None,
        times: int = 0,
        spared: tuple[str, ...] = (),
        silence_s: float = 30.0,
        meanwhile: Callable[[int], tuple[str, Callable[[], None]]] | None = None,
    ) -> tuple[Job, int]:
        """A label's job from its start to its end, while GitHub fails; and the number of the issue."""
        number = self.repo.open_issue(BUG, by="maria")
        self.repo.add_label(number, "agent", by="maria")
        payload = json.loads(self.hub.deliveries("issues", "labeled")[-1].payload)
        command = decide("issues", payload, Rules())
        assert not isinstance(command, Ignored)
        job_id = f"job-{number}"
        delivery = Delivery(id=f"delivery-{number}", event="issues", excerpt=excerpt(payload))
        self.store.accept([Arrival.of(job_id, delivery, command)])
        files = Files(self.folder / "state")
        if self.done:
            shutil.copytree(files.run(self.done[0], 1).resolve(), files.job(job_id) / "run-1")
        self.failing.meanwhile = meanwhile(number) if meanwhile else None
        self.failing.what, self.failing.times, self.failing.spared = what, times, spared
        self.failing.failed.clear()
        try:
            asyncio.run(self._performed(job_id, files, silence_s))
        finally:
            self.failing.what = None
        self.done.append(job_id)
        job = self.store.get(job_id)
        assert job is not None
        return job, number

    async def _performed(self, job_id: str, files: Files, silence_s: float) -> None:
        github = GitHubApp(
            self.settings.app_id,
            self.settings.private_key.get_secret_value(),
            self.settings.github_api_url,
            backoff_s=(0.0, 0.0),
            silence_s=silence_s,
        )
        site = Site(self.settings, github, self.store, files)
        runner = LocalRunner(self.endpoint)
        runs = Runs(
            site,
            machine=this_machine(self.settings),
            questions=runner,
            runner=runner,
            meters=self.meters,
            token_secret=_SECRET,
        )
        lease, job = self.store.claim(job_id, "here", 3600.0), self.store.get(job_id)
        assert lease is not None and job is not None
        patience = Patience(tries=300, first_s=0.0, most_s=0.0)
        await perform(Work(self.store, job, lease), GitHubSteps(site, runs), _unrecorded, patience)
        await github.aclose()


async def _unrecorded(name: str, attempt: Callable[[], Awaitable[Verdict]]) -> Verdict:
    return await attempt()


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory, app_key: str) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("faults")
    for place in (folder, *folder.parents):
        if "pytest" in str(place):
            place.chmod(0o755)  # the sandbox's own user passes through
    (folder / "state").mkdir(mode=0o711)
    hub, failing = DevHub(folder / "hub"), EachRequestFails()
    store = JobStore(sqlite_url(folder / "jobs.sqlite"))
    with serving(hub, middleware=failing.wrap), serve(SCRIPT) as model:
        repo = hub.create_repository(f"{OWNER}/faulty", FILES)
        repo.permit("maria", "write")
        keys: AppKeys = hub.create_app(webhook_url="http://127.0.0.1:9/", private_key=app_key)
        hub.install(keys.id, OWNER)
        port = free_port()
        endpoint = ModelEndpoint(base_url=model.base_url, api_key="provider-key-3f9a", model="scripted")
        settings = Settings(**service_settings(folder / "state", port, hub, keys, endpoint), GRAFTSMITH_REVIEW="no")
        meters = RunMeters(load_prices(None))
        config = GatewayConfig(model.base_url, "provider-key-3f9a", ("scripted",), _SECRET)
        server = uvicorn.Server(
            uvicorn.Config(Starlette(routes=llm_routes(Gateway(config, meters, meters))), port=port, log_config=None)
        )
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        yield Scene(hub, repo, failing, store, settings, f"http://127.0.0.1:{port}/llm/v1", meters, folder)
        server.should_exit = True
        thread.join()
    store.close()
    hub.close()


@pytest.mark.parametrize(
    ("what", "times"),
    [
        ({"status": 502}, 1),
        ({"status": 500, "when": "after"}, 3),
        ({"drop": True}, 3),
        ({"drop": True, "when": "after"}, 3),
        ({"delay_s": 0.5, "drop": True, "when": "after"}, 1),
        ({"status": 403, "message": _LIMIT, "headers": {"retry-after": "0"}}, 3),
        ({"status": 429, "headers": {"retry-after": "0"}}, 3),
        ({"status": 401, "message": "Bad credentials"}, 1),
    ],
)
def test_whatever_request_fails_a_job_makes_one_of_each(scene: Scene, what: dict[str, object], times: int) -> None:
    spared = (".git/",) if "delay_s" in what else _FINAL.get(what.get("status"), ())  # git waits a minute
    job, number = scene.job(what, times, spared, 0.25 if "delay_s" in what else 30.0)
    assert job.ending is not None and job.ending.outcome is Outcome.PROPOSED, job.ending
    assert len(scene.failing.failed) > 15, scene.failing.failed
    (pull,) = [pull for pull in scene.repo.pulls() if f"Fixes #{number}" in (pull.body or "")]
    assert pull.commits == (job.artefacts.commit_sha,)
    assert [name for name in scene.repo.branches() if f"issue-{number}-" in name] == [pull.head_ref]
    (told,) = scene.repo.comments(number)
    assert f"#{pull.number}" in told.body and "Proven" in told.body
    assert [check.conclusion for check in scene.repo.checks(pull.head_sha)] == ["success"]


def test_a_conversation_that_is_locked_meanwhile_keeps_nobody_from_the_pull_request(scene: Scene) -> None:
    job, number = scene.job(meanwhile=lambda number: ("/git/trees", lambda: scene.repo.lock(number)))
    assert job.ending is not None and job.ending.outcome is Outcome.PROPOSED
    assert [pull.number for pull in scene.repo.pulls() if f"Fixes #{number}" in (pull.body or "")] == [
        job.artefacts.pull_number
    ]


def test_a_repository_that_is_archived_meanwhile_is_named(scene: Scene) -> None:
    job, _ = scene.job(
        meanwhile=lambda _: ("POST /api/v3/repos/acme/faulty/git/trees", partial(scene.repo.change, archived=True))
    )
    try:
        assert job.ending is not None and job.ending.outcome is Outcome.BLOCKED
        assert "archived" in job.ending.reason and "archived" in job.ending.untold
        assert job.ending.next_step == "Unarchive it, then ask again"
    finally:
        scene.repo.change(archived=False)
