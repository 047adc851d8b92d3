"""The way of a run to GitHub Actions and back: GitHub's stand-in, the real door, and the real other end of it."""

from __future__ import annotations

import asyncio
import json
import socket
import tarfile
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest
import uvicorn
from cryptography.hazmat.primitives.asymmetric import rsa
from pydantic import SecretStr
from starlette.applications import Starlette

from agent.errors import OperatorError, RetryLater
from agent.model.scripted import serve
from agent.types import ModelEndpoint, Outcome, RunResult, RunSpec, Task
from app.devhub.devhub import DevHub
from app.devhub.identity import Identities
from app.devhub.serving import serving
from app.github import Access, WorkflowTokens
from app.github.oidc import issuer
from app.machine import Machine
from app.runners.actions import ActionsRunner, Waits
from app.runners.door import PREFIX, Door, Expected, RemoteRun
from app.runners.elsewhere import Gone, Identity, carry_out
from app.runners.types import Errand
from tests.flow.world import FILES
from tests.support.repository import Repository
from tests.unit.github.scene import Scene, scene

FILE = ".github/workflows/graftsmith.yml"
WORKFLOW = {FILE: "on:\n  workflow_dispatch:\n    inputs:\n      run: {}\n", "README.md": "# widget\n"}
IMPATIENT = Waits(queued=0.4, silent=0.4, ask=0.2, stopped=0.4, look=0.02)
MACHINE = Machine("/usr/bin:/bin", {})


@dataclass
class Place:
    """A service's door with an open repository behind it, on the loop of the test."""

    scene: Scene
    spec: RunSpec
    url: str
    door: Door
    folder: Path
    events: list[dict[str, Any]] = field(default_factory=list)
    stopped: threading.Event = field(default_factory=threading.Event)

    def errand(self) -> Errand:
        return Errand(
            "job",
            self.scene.installation,
            self.scene.repo.id,
            self.spec,
            lambda event: self.events.append(dict(event)),
            self.stopped.is_set,
        )

    async def sent(self, waits: Waits | None = None) -> RunResult:
        """The run, given to GitHub Actions."""
        app = self.scene.app()
        runner = ActionsRunner(app, self.door, public_url=self.url, workflow="graftsmith.yml", waits=waits)
        try:
            return await runner.run(self.errand())
        finally:
            await app.aclose()

    async def started(self, number: int = 0) -> Identity:
        """The identity of a workflow's run, once GitHub has been asked for one."""
        while len(self.scene.repo.workflow_runs()) <= number:  # noqa: ASYNC110  # it comes from another thread
            await asyncio.sleep(0.02)
        run = self.scene.repo.workflow_runs()[number]
        variables = self.scene.repo.identity_of(run.id)
        return Identity(
            variables["ACTIONS_ID_TOKEN_REQUEST_URL"], SecretStr(variables["ACTIONS_ID_TOKEN_REQUEST_TOKEN"])
        )

    async def carried(self, identity: Identity) -> RunResult:
        """What a job of that workflow's run does."""
        state = self.folder / "elsewhere"
        return await asyncio.to_thread(
            carry_out, self.url, self.spec.run_id, identity, MACHINE, state, lambda event: None
        )


@pytest.fixture(scope="module")
def hub_scene(tmp_path_factory: pytest.TempPathFactory, app_key: str) -> Iterator[Scene]:
    hub = DevHub(tmp_path_factory.mktemp("hub"))
    with serving(hub):
        yield scene(hub, app_key, WORKFLOW)
    hub.close()


@pytest.fixture
def spec(tmp_path: Path) -> Iterator[RunSpec]:
    repository = Repository(tmp_path / "widget")
    sha = repository.commit(FILES)
    (tmp_path / "run").mkdir()
    with serve({"sessions": [{"name": "only", "steps": [{"content": "It skips one: widget.py:2"}]}]}) as model:
        yield RunSpec(
            run_id="job-1",
            task=Task(title="What is wrong?"),
            mode="ask",
            git_dir=str(repository.git_dir),
            base_sha=sha,
            work_dir=str(tmp_path / "run"),
            cache_dir=str(tmp_path),
            model=ModelEndpoint(base_url=model.base_url, api_key="a-run-token", model="scripted"),
            seed="5eed" * 8,
        )


Use = Callable[[Place], Awaitable[None]]


@pytest.fixture
def play(hub_scene: Scene, spec: RunSpec, tmp_path: Path) -> Callable[[Use], None]:
    """Runs a scene at an open door."""

    @asynccontextmanager
    async def open_door() -> AsyncIterator[Place]:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            url = f"http://127.0.0.1:{listening.getsockname()[1]}"
            door = Door(WorkflowTokens(issuer(hub_scene.devhub.url), url))
            server = uvicorn.Server(uvicorn.Config(Starlette(routes=door.routes()), log_config=None, lifespan="off"))
            serving_it = asyncio.create_task(server.serve(sockets=[listening]))
            try:
                yield Place(hub_scene, spec, url, door, tmp_path)
            finally:
                server.should_exit = True
                await serving_it

    def run(use: Use) -> None:
        async def main() -> None:
            async with open_door() as place:
                await use(place)

        asyncio.run(main())

    return run


def earlier(place: Place) -> int:
    return len(place.scene.repo.workflow_runs())


def test_a_run_goes_there_and_comes_back(play: Callable[[Use], None]) -> None:
    async def use(place: Place) -> None:
        before = earlier(place)
        waiting = asyncio.create_task(place.sent())
        brought = await place.carried(await place.started(before))
        result = await waiting
        assert result == brought
        assert (result.outcome, result.summary) == (Outcome.ANSWERED, "It skips one: widget.py:2")
        folder = Path(place.spec.work_dir)
        waits, *events = place.events
        assert waits == {"kind": "waits", "what": "a machine of GitHub Actions"}
        assert [json.loads(line) for line in (folder / "events.jsonl").open()] == events
        assert events[0]["kind"] == "stage" and "model_call" in {event["kind"] for event in events}
        assert RunResult.model_validate_json((folder / "result.json").read_bytes()) == result
        assert "a-run-token" not in (folder / "spec.json").read_text()
        assert await place.sent() == result, "a finished run is not begun anew"
        assert earlier(place) == before + 1
        assert [path.name for path in (place.folder / "elsewhere").iterdir()] == ["cache"], "nothing else is left there"

    play(use)


def test_only_the_first_workflow_run_gets_it(play: Callable[[Use], None]) -> None:
    async def use(place: Place) -> None:
        before = earlier(place)
        waiting = asyncio.create_task(place.sent())
        identity = await place.started(before)
        other = await another(place)
        with pytest.raises(OperatorError, match="not started by us for this run"):
            await place.carried(other)
        assert await place.carried(identity) == await waiting

    play(lambda place: asyncio.wait_for(use(place), 60))


def test_nothing_waits_for_ever(play: Callable[[Use], None]) -> None:
    async def use(place: Place) -> None:
        before = earlier(place)
        with pytest.raises(OperatorError, match=r"No runner of GitHub Actions has taken the run up"):
            await place.sent(IMPATIENT)
        run = place.scene.repo.workflow_runs()[before]
        assert (run.status, run.conclusion) == ("completed", "cancelled")
        with pytest.raises(Gone, match="no such run waits here"):
            await place.carried(await place.started(before))

    play(use)


def test_a_workflow_that_ends_without_a_result_is_told(play: Callable[[Use], None]) -> None:
    async def use(place: Place) -> None:
        before = earlier(place)
        waiting = asyncio.create_task(place.sent(Waits(ask=0.05, look=0.02)))
        await place.started(before)
        run = place.scene.repo.workflow_runs()[before]
        place.scene.repo.finish_workflow_run(run.id, "failure")
        with pytest.raises(OperatorError, match="ended as failure without a result") as failed:
            await waiting
        assert f"/actions/runs/{run.id}" in failed.value.todo

    play(use)


def test_a_run_that_is_stopped_ends_there_too(play: Callable[[Use], None]) -> None:
    async def use(place: Place) -> None:
        before = earlier(place)
        place.stopped.set()
        with pytest.raises(RetryLater, match="stopped"):
            await place.sent(IMPATIENT)
        assert place.scene.repo.workflow_runs()[before].conclusion == "cancelled"

    play(use)


def test_a_run_that_is_stopped_under_way_brings_what_it_has(play: Callable[[Use], None], spec: RunSpec) -> None:
    slow = {"sessions": [{"name": "only", "steps": [{"content": "Late.", "delay_s": 120}]}]}

    async def use(place: Place) -> None:
        with serve(slow) as model:
            place.spec = spec.model_copy(update={"model": spec.model.model_copy(update={"base_url": model.base_url})})
            before = earlier(place)
            waiting = asyncio.create_task(place.sent(Waits(stopped=60)))
            carrying = asyncio.create_task(place.carried(await place.started(before)))
            while len(place.events) < 2:  # noqa: ASYNC110  # it has begun
                await asyncio.sleep(0.05)
            place.stopped.set()
            result = await waiting
            assert result.outcome is Outcome.CANCELLED
            assert await carrying == result

    play(use)


def test_a_spec_of_another_version_is_not_guessed_at(play: Callable[[Use], None]) -> None:
    async def use(place: Place) -> None:
        run = opened(place)
        run.spec = place.spec.model_construct(**{**dict(place.spec), "mode": "dance"})
        with place.door.opened(run), pytest.raises(OperatorError, match="this version does not know"):
            await place.carried(await another(place))

    play(use)


def test_without_the_workflow_it_is_said_what_to_do(play: Callable[[Use], None]) -> None:
    async def use(place: Place) -> None:
        app = place.scene.app()
        runner = ActionsRunner(app, place.door, public_url=place.url, workflow="missing.yml")
        with pytest.raises(OperatorError, match=r"can't start .github/workflows/missing.yml on main") as failed:
            await runner.run(place.errand())
        assert "docs/operating.md" in failed.value.todo
        await app.aclose()

    play(use)


# ── the door ─────────────────────────────────────────────────────────────────────────────────────────────────────


def opened(place: Place, **expected: Any) -> RemoteRun:
    usual = {"repository_id": place.scene.repo.id, "workflow": FILE, "ref": "refs/heads/main"}
    return RemoteRun(place.spec, Expected(**{**usual, **expected}), place.events.append, place.stopped.is_set)


async def another(place: Place) -> Identity:
    """A run of the workflow that somebody else has started."""
    before, app = earlier(place), place.scene.app()
    repository = app.repository(place.scene.installation, place.scene.repo.id, Access.ACTIONS)
    await repository.start_workflow("graftsmith.yml", "main", {"run": "job-1"})
    await app.aclose()
    return await place.started(before)


async def identity(place: Place, audience: str | None = None) -> str:
    return await asyncio.to_thread((await another(place)).token, audience or place.url)


async def claim(place: Place, token: str, run: str = "job-1") -> httpx.Response:
    async with httpx.AsyncClient(trust_env=False) as http:
        return await http.post(
            f"{place.url}{PREFIX}/claim", json={"run": run}, headers={"authorization": f"Bearer {token}"}
        )


@pytest.mark.parametrize(
    "expected",
    [
        {"repository_id": 1},
        {"workflow": ".github/workflows/other.yml"},
        {"ref": "refs/heads/somebodys-branch"},
        {"run_id": 1},
    ],
)
def test_another_workflow_gets_nothing(play: Callable[[Use], None], expected: dict[str, Any]) -> None:
    async def use(place: Place) -> None:
        with place.door.opened(opened(place, **expected)):
            answer = await claim(place, await identity(place))
        assert answer.status_code == 403
        assert place.spec.seed not in answer.text

    play(use)


def _forged(token: str, algorithm: str, key: Any) -> str:
    claims = jwt.decode(token, options={"verify_signature": False})
    return jwt.encode(claims, key, algorithm, headers={"kid": jwt.get_unverified_header(token)["kid"]})


@pytest.mark.parametrize(
    "spoilt",
    [
        lambda token: "x",
        lambda token: "a.b.c",
        lambda token: token[:-4] + "AAAA",
        lambda token: _forged(token, "none", None),
        lambda token: _forged(token, "HS256", "k" * 40),
        lambda token: _forged(token, "RS256", rsa.generate_private_key(public_exponent=65537, key_size=2048)),
    ],
    ids=["word", "nonsense", "signature", "unsigned", "symmetric", "another-key"],
)
def test_a_token_that_github_has_not_made_opens_nothing(
    play: Callable[[Use], None], spoilt: Callable[[str], str]
) -> None:
    async def use(place: Place) -> None:
        with place.door.opened(opened(place)):
            token = await identity(place)
            assert (await claim(place, spoilt(token))).status_code == 401
            assert (await claim(place, await identity(place, "https://somebody.example"))).status_code == 401
            assert (await claim(place, token)).status_code == 200

    play(use)


def test_a_token_that_is_over_opens_nothing(play: Callable[[Use], None]) -> None:
    async def use(place: Place) -> None:
        hub = place.scene.devhub
        await another(place)
        run = place.scene.repo.workflow_runs()[-1]
        hub.move_clock(-3600)
        try:
            token = Identities(hub.hub).token(run.id, place.url)
        finally:
            hub.move_clock(0)
        with place.door.opened(opened(place)):
            assert (await claim(place, token)).status_code == 401

    play(use)


def test_what_is_brought_is_counted_and_checked(play: Callable[[Use], None]) -> None:
    async def use(place: Place) -> None:
        with place.door.opened(opened(place)) as run:
            claimed = (await claim(place, await identity(place))).json()
            again = await claim(place, await identity(place))
            assert again.status_code == 409
            async with httpx.AsyncClient(
                base_url=f"{place.url}{PREFIX}",
                headers={"authorization": f"Bearer {claimed['token']}"},
                trust_env=False,
            ) as http:

                async def news(first: int, *events: Any) -> httpx.Response:
                    return await http.post("/events", json={"first": first, "events": list(events)})

                a, b, c = ({"kind": "note", "text": text} for text in ("a", "b\n\u2028", "c"))
                assert (await news(0, a, b)).json() == {"cancel": False}
                assert (await news(0, a, b)).status_code == 200, "the answer was lost, and it is said again"
                assert (await news(1, b, c)).status_code == 200
                assert (await news(5, c)).status_code == 409
                assert (await news(3, "text")).status_code == 400
                assert place.events == [a, b, c]
                lines = (run.folder / "events.jsonl").read_bytes().split(b"\n")
                assert [json.loads(line) for line in lines[:-1]] == [a, b, c]
                place.stopped.set()
                assert (await news(3)).json() == {"cancel": True}

                archive = place.folder / "got.tar"
                archive.write_bytes((await http.get("/repository")).content)
                with tarfile.open(archive) as tar:
                    assert "./HEAD" in tar.getnames()
                assert not list(run.folder.glob("*.tar")), "nothing of it is left here"

                base = {"base_sha": place.spec.base_sha}
                result = {"run_id": "job-1", "outcome": "no_change", "reason": "x", "change_set": base}
                for wrong in ({"run_id": "job-2"}, {"change_set": {"base_sha": "0" * 40}}, {"outcome": "won"}):
                    assert (await http.put("/result", json={**result, **wrong})).status_code == 400
                assert (await http.post("/events", content=b" " * (17 * 1024 * 1024))).status_code == 413
                assert run.result is None
                assert (await http.put("/result", json=result)).status_code == 200
                assert (await http.put("/result", json={**result, "reason": "y"})).status_code == 200
                assert run.result is not None and run.result.reason == "x", "the first one counts"
                headers = {"authorization": "Bearer " + "x" * 43}
                assert (await http.get("/repository", headers=headers)).status_code == 401
            async with httpx.AsyncClient(base_url=f"{place.url}{PREFIX}", trust_env=False) as stranger:
                assert (await stranger.put("/result", json=result)).status_code == 401
        headers = {"authorization": f"Bearer {claimed['token']}"}
        async with httpx.AsyncClient(base_url=f"{place.url}{PREFIX}", headers=headers, trust_env=False) as late:
            assert (await late.put("/result", json=result)).status_code == 401

    play(use)


def test_an_answer_that_is_no_event_is_not_passed_on(play: Callable[[Use], None]) -> None:
    async def use(place: Place) -> None:
        def picky(event: dict[str, Any]) -> None:
            raise ValueError(event)

        run = opened(place)
        run.on_event = picky
        with place.door.opened(run):
            token = (await claim(place, await identity(place))).json()["token"]
            async with httpx.AsyncClient(trust_env=False) as http:
                answer = await http.post(
                    f"{place.url}{PREFIX}/events",
                    json={"first": 0, "events": [{"kind": "stage", "name": "nonsense"}]},
                    headers={"authorization": f"Bearer {token}"},
                )
        assert answer.status_code == 400

    play(use)
