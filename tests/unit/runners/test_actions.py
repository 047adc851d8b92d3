"""The way of a run to GitHub Actions and back: GitHub's stand-in, the real door, and the real other end of it."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import socket
import tarfile
import threading
import time
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
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from agent.errors import OperatorError, RetryLater, UserError
from agent.model.scripted import serve
from agent.types import Outcome, RunResult, RunSpec, Stage, Usage
from app.addresses import by_web
from app.devhub.devhub import DevHub
from app.devhub.identity import Identities
from app.devhub.serving import serving
from app.github import Access, WorkflowTokens
from app.machine import Machine
from app.progress import Watch
from app.runners.actions import ActionsRunner, Waits
from app.runners.client import Gone, Identity, unpack
from app.runners.door import PREFIX, Door, Expected, RemoteRun
from app.runners.elsewhere import carry_out
from app.runners.types import Errand
from tests.support import loopback
from tests.support.disk import small_disk
from tests.unit.github.scene import Scene, scene

FILE = ".github/workflows/graftsmith.yml"
WORKFLOW = {FILE: "on:\n  workflow_dispatch:\n    inputs:\n      run: {}\n", "README.md": "# widget\n"}
IMPATIENT = Waits(queued=0.4, silent=0.4, ask=0.2, stopped=0.4, look=0.02)
MACHINE = Machine("/usr/bin:/bin", {})
SPENT = Usage(calls=7, input_tokens=700, dollars=0.7)
"""What our own endpoint has counted, whatever a runner says."""


@dataclass
class Line:
    """What lies between a runner and the door.

    Args:
        faults: last part of a path → what happens to the next requests there: they are ``cut`` off in the middle of the
            answer, or something else answers with a status of its own.
    """

    app: ASGIApp
    faults: dict[str, list[str]]
    model_url: str

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if dict(scope["headers"]).get(b"host") == b"model.example":
            await self._ask_the_model(Request(scope, receive), send)
            return
        scope["path"] = scope["path"].removeprefix("/smith")
        waiting = self.faults.get(scope["path"].rpartition("/")[2], [])
        fault = waiting.pop(0) if waiting else ""
        if fault == "cut":
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"99999")]})
            await send({"type": "http.response.body", "body": b"./HEAD"})
        elif fault:
            await Response("<html>", int(fault))(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    async def _ask_the_model(self, request: Request, send: Send) -> None:
        async with loopback.AsyncClient(trust_env=False) as http:
            url = f"{self.model_url}/{request.url.path.partition('/v1/')[2]}"
            said = await http.post(url, content=await request.body())
        await Response(said.content, media_type=said.headers["content-type"])(request.scope, request.receive, send)


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
    proxy: str = ""
    """What leads to it, and to the model at ``model.example``."""
    faults: dict[str, list[str]] = field(default_factory=dict)
    """See ``Line``."""
    interrupted: threading.Event = field(default_factory=threading.Event)
    """The runner is told by its own machine to end."""

    def errand(self) -> Errand:
        return Errand(
            "job",
            self.scene.installation,
            self.scene.repo.id,
            self.spec,
            lambda event: self.events.append(dict(event)),
            self.stopped.is_set,
            lambda: SPENT,
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
            carry_out, self.url, self.spec.run_id, identity, MACHINE, state, lambda event: None, self.interrupted
        )


@pytest.fixture(scope="module")
def hub_scene(tmp_path_factory: pytest.TempPathFactory, app_key: str) -> Iterator[Scene]:
    hub = DevHub(tmp_path_factory.mktemp("hub"))
    with serving(hub):
        yield scene(hub, app_key, WORKFLOW)
    hub.close()


Use = Callable[[Place], Awaitable[None]]


@pytest.fixture
def play(hub_scene: Scene, spec: RunSpec, tmp_path: Path) -> Callable[..., None]:
    """Runs a scene at an open door, with an address of its own or one that only a proxy knows."""

    @asynccontextmanager
    async def open_door(public: str) -> AsyncIterator[Place]:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            here = f"http://127.0.0.1:{listening.getsockname()[1]}"
            url = public or here
            door = Door(WorkflowTokens(by_web(hub_scene.devhub.url).issuer, url))
            place = Place(hub_scene, spec, url, door, tmp_path, proxy=here)
            app = Line(Starlette(routes=door.routes()), place.faults, spec.model.base_url)
            server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off"))
            serving_it = asyncio.create_task(server.serve(sockets=[listening]))
            try:
                yield place
            finally:
                server.should_exit = True
                await serving_it

    def run(use: Use, public: str = "") -> None:
        async def main() -> None:
            async with open_door(public) as place:
                await use(place)

        asyncio.run(main())

    return run


def earlier(place: Place) -> int:
    return len(place.scene.repo.workflow_runs())


def test_a_run_goes_there_and_comes_back(play: Callable[[Use], None]) -> None:
    async def use(place: Place) -> None:
        before, there = earlier(place), place.folder / "elsewhere"
        for name in ("run-killed/run", "run-busy"):
            (there / name).mkdir(parents=True)
        busy = os.open(there / "run-busy", os.O_RDONLY)
        fcntl.flock(busy, fcntl.LOCK_EX)
        waiting = asyncio.create_task(place.sent())
        brought = await place.carried(await place.started(before))
        result = await waiting
        assert result == brought.model_copy(update={"usage": SPENT})
        assert (result.outcome, result.summary) == (Outcome.ANSWERED, "It skips one: widget.py:2")
        folder = Path(place.spec.work_dir)
        waits, *events = place.events
        assert waits == {"kind": "waits", "what": "a machine of GitHub Actions"}
        logged = [json.loads(line) for line in (folder / "events.jsonl").open()]
        assert [{**event, "at": 0} for event in logged] == [{**event, "at": 0} for event in events]
        assert events[0]["kind"] == "stage" and "model_call" in {event["kind"] for event in events}
        assert RunResult.model_validate_json((folder / "result.json").read_bytes()) == result
        assert "a-run-token" not in (folder / "spec.json").read_text()
        assert await place.sent() == result, "a finished run is not begun anew"
        assert earlier(place) == before + 1
        assert {path.name for path in there.iterdir()} == {"cache", "run-busy"}, "nothing else is left there"
        os.close(busy)

    play(use)


def test_a_runner_behind_a_proxy_finds_a_service_below_a_path(
    play: Callable[..., None], spec: RunSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def use(place: Place) -> None:
        monkeypatch.setenv("HTTP_PROXY", place.proxy)
        place.spec = spec.model_copy(
            update={"model": spec.model.model_copy(update={"base_url": "http://model.example/v1"})}
        )
        before = earlier(place)
        waiting = asyncio.create_task(place.sent())
        await place.carried(await place.started(before))
        assert (await waiting).summary == "It skips one: widget.py:2"

    play(use, "http://service.example/smith")


def test_a_poor_line_is_borne(play: Callable[[Use], None]) -> None:
    async def use(place: Place) -> None:
        before = earlier(place)
        place.faults.update(claim=["502"], repository=["cut"], events=["cut", "503"], result=["429", "cut"])
        waiting = asyncio.create_task(place.sent())
        await place.carried(await place.started(before))
        assert (await waiting).outcome is Outcome.ANSWERED
        assert not any(place.faults.values())

    play(use)


@pytest.mark.parametrize(
    ("place_name", "fault", "said"),
    [
        ("claim", "404", "refuses this workflow at /runner/v1/claim. status 404"),
        ("claim", "200", "this version does not know"),
        ("repository", "413", "too large. status 413. Let bodies of 64 MiB through the proxy"),
    ],
)
def test_what_is_no_answer_of_the_service_is_told(
    play: Callable[[Use], None], place_name: str, fault: str, said: str
) -> None:
    async def use(place: Place) -> None:
        place.faults[place_name] = [fault]
        with place.door.opened(opened(place)), pytest.raises(OperatorError, match=said):
            await place.carried(await another(place))

    play(use)


def test_only_the_first_workflow_run_gets_it(play: Callable[[Use], None]) -> None:
    async def use(place: Place) -> None:
        before = earlier(place)
        waiting = asyncio.create_task(place.sent())
        identity = await place.started(before)
        other = await another(place)
        with pytest.raises(Gone, match="another workflow run was started for it"):
            await place.carried(other)
        assert (await place.carried(identity)).summary == (await waiting).summary

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


@pytest.mark.parametrize(
    ("conclusion", "kind", "told"),
    [
        ("failure", OperatorError, r"ended as failure without a result.*/actions/runs/\d+"),
        ("cancelled", UserError, r"Somebody has cancelled .*`/agent retry`"),
    ],
)
def test_a_workflow_that_ends_without_a_result_is_told(
    play: Callable[[Use], None], conclusion: str, kind: type[Exception], told: str
) -> None:
    async def use(place: Place) -> None:
        before = earlier(place)
        waiting = asyncio.create_task(place.sent(Waits(ask=0.05, look=0.02)))
        await place.started(before)
        run = place.scene.repo.workflow_runs()[before]
        place.scene.repo.finish_workflow_run(run.id, conclusion)
        with pytest.raises(kind, match=told):
            await waiting

    play(use)


def test_a_run_that_is_stopped_ends_there_too(play: Callable[[Use], None]) -> None:
    async def use(place: Place) -> None:
        before = earlier(place)
        place.stopped.set()
        with pytest.raises(RetryLater, match="stopped"):
            await place.sent(IMPATIENT)
        assert place.scene.repo.workflow_runs()[before].conclusion == "cancelled"

    play(use)


@pytest.mark.parametrize("who", ["stopped", "interrupted"])
def test_a_run_that_is_stopped_under_way_brings_what_it_has(
    play: Callable[[Use], None], spec: RunSpec, who: str
) -> None:
    slow = {"sessions": [{"name": "only", "steps": [{"content": "Late.", "delay_s": 120}]}]}

    async def use(place: Place) -> None:
        with serve(slow) as model:
            place.spec = spec.model_copy(update={"model": spec.model.model_copy(update={"base_url": model.base_url})})
            before = earlier(place)
            waiting = asyncio.create_task(place.sent(Waits(stopped=60)))
            carrying = asyncio.create_task(place.carried(await place.started(before)))
            while len(place.events) < 2:  # noqa: ASYNC110  # it has begun
                await asyncio.sleep(0.05)
            getattr(place, who).set()
            result = await waiting
            assert result.outcome is Outcome.CANCELLED
            assert (await carrying).reason == result.reason

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
    usual = {"repository_id": place.scene.repo.id, "workflow": FILE, "ref": "refs/heads/main", "run_id": None}
    return RemoteRun(
        place.spec, place.events.append, place.stopped.is_set, lambda: SPENT, Expected(**{**usual, **expected})
    )


async def another(place: Place) -> Identity:
    """A run of the workflow that somebody else has started."""
    before, app = earlier(place), place.scene.app()
    repository = app.repository(place.scene.installation, place.scene.repo.id, Access.ACTIONS)
    await repository.workflows.start("graftsmith.yml", "main", {"run": "job-1"})
    await app.aclose()
    return await place.started(before)


async def identity(place: Place, audience: str | None = None) -> str:
    return await asyncio.to_thread((await another(place)).token, audience or place.url)


async def claim(place: Place, token: str, run: str = "job-1") -> httpx.Response:
    async with loopback.AsyncClient(trust_env=False) as http:
        return await http.post(
            f"{place.url}{PREFIX}/claim", json={"run": run}, headers={"authorization": f"Bearer {token}"}
        )


def test_another_workflow_gets_nothing(play: Callable[[Use], None]) -> None:
    async def use(place: Place) -> None:
        token = await identity(place)
        for expected, status in (
            ({"repository_id": 1}, 403),
            ({"workflow": ".github/workflows/other.yml"}, 403),
            ({"ref": "refs/heads/somebodys-branch"}, 403),
            ({"run_id": 1}, 409),
        ):
            with place.door.opened(opened(place, **expected)):
                answer = await claim(place, token)
            assert answer.status_code == status, expected
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


def test_nobody_gets_it_before_github_has_said_who_is_meant(play: Callable[[Use], None]) -> None:
    async def use(place: Place) -> None:
        run, token = opened(place), await identity(place)
        expected, run.expected = run.expected, None
        with place.door.opened(run):
            assert (await claim(place, token)).status_code == 503
            run.expected = expected
            assert (await claim(place, token)).status_code == 200

    play(use)


def test_a_run_that_was_begun_anew_stays_open_when_the_earlier_try_ends(play: Callable[[Use], None]) -> None:
    async def use(place: Place) -> None:
        token, earlier_try = await identity(place), place.door.opened(opened(place))
        with earlier_try as first:
            assert (await claim(place, token)).status_code == 200
            anew = place.door.opened(opened(place))
            second = anew.__enter__()
        assert (await claim(place, token)).status_code == 200
        anew.__exit__(None, None, None)
        assert first.heard_at is not None and second.heard_at is not None
        assert (await claim(place, token)).status_code == 410

    play(use)


Speaks = httpx.AsyncClient


@asynccontextmanager
async def speaking(place: Place) -> AsyncIterator[Speaks]:
    """What a runner has that was given the open run."""
    token = (await claim(place, await identity(place))).json()["token"]
    headers = {"authorization": f"Bearer {token}"}
    async with loopback.AsyncClient(base_url=f"{place.url}{PREFIX}", headers=headers, trust_env=False) as http:
        yield http


async def news(http: Speaks, first: int, *events: Any, now: float = 1000.0) -> httpx.Response:
    """``events`` in JSON, or words for it."""
    told = ",".join(event if isinstance(event, str) else json.dumps(event) for event in events)
    return await http.post("/events", content=f'{{"first": {first}, "now": {now}, "events": [{told}]}}')


def result_of(place: Place, **more: Any) -> dict[str, Any]:
    base = {"base_sha": place.spec.base_sha}
    return {"run_id": "job-1", "outcome": "no_change", "reason": "x", "change_set": base, **more}


def test_events_are_counted_and_told_once_with_the_time_by_our_clock(play: Callable[[Use], None]) -> None:
    async def use(place: Place) -> None:
        began = time.time()
        with place.door.opened(opened(place)) as run:
            async with speaking(place) as http:
                a, b, c = (
                    {"kind": "note", "at": at, "text": text} for at, text in ((990, "a"), (991, "b"), (9e9, "c"))
                )
                assert (await news(http, 0, a, b)).json() == {"cancel": False}
                assert (await news(http, 0, a, b)).status_code == 200, "the answer was lost, and it is said again"
                assert (await news(http, 1, b, c)).status_code == 200
                assert (await news(http, 5, c)).status_code == 409
                place.stopped.set()
                assert (await news(http, 3)).json() == {"cancel": True}
            log = Path(run.spec.work_dir) / "events.jsonl"
        assert [event["text"] for event in place.events] == ["a", "b", "c"]
        first, second, third = (event["at"] for event in place.events)
        assert began - 10 <= first < second < third <= time.time(), "none is from the future"
        assert [json.loads(line) for line in log.open()] == [a, b, c]
        assert not log.stat().st_mode & 0o077

    play(use)


NO_EVENTS = [
    '"text"',
    "{}",
    '{"at": NaN}',
    '{"at": 1e999}',
    '{"at": "noon"}',
    f'{{"at": {"9" * 400}}}',
    '{"at": 1, "text": "\\udcff"}',
    f'{{"at": 1, "deep": {"[" * 500}{"]" * 500}}}',
    ",".join(["{}"] * 501),
    '{"at": 1, "kind": "stage", "name": "nonsense"}',
    '{"at": 1, "kind": "check", "found": 7}',
    '{"at": 1, "kind": "test_run", "run": []}',
]


def test_what_is_no_event_is_not_passed_on(play: Callable[[Use], None]) -> None:
    async def use(place: Place) -> None:
        run, watch = opened(place), Watch(0)
        run.on_event = watch.see
        with place.door.opened(run):
            async with speaking(place) as http:
                for nonsense in NO_EVENTS:
                    assert (await news(http, run._events, nonsense)).status_code == 400, nonsense[:50]
                assert (await http.post("/events", content=b" " * (17 * 1024 * 1024))).status_code == 413
                stage = {"at": 1000, "kind": "stage", "name": "work"}
                assert (await news(http, run._events, stage)).status_code == 200
        (state,) = watch.progress.stages
        assert state.stage is Stage.WORK

    play(use)


def test_a_result_is_checked_and_holds_our_own_count(play: Callable[[Use], None]) -> None:
    async def use(place: Place) -> None:
        with place.door.opened(opened(place)) as run:
            async with speaking(place) as http:
                base = {"base_sha": place.spec.base_sha}
                for wrong in (
                    {"run_id": "job-2"},
                    {"change_set": {"base_sha": "0" * 40}},
                    {"outcome": "won"},
                    {"seconds": {"work": float("nan")}},
                    {
                        "change_set": {
                            "base_sha": place.spec.base_sha,
                            "changes": [{"path": "a", "content": "no base64"}],
                        }
                    },
                    {"change_set": {**base, "changes": [{"path": "a", "mode": "160000"}]}},
                    {"evidence": {"isolation": "", "proof": [{}] * 20_001}},
                ):
                    sent = await http.put("/result", content=json.dumps(result_of(place, **wrong)))
                    assert sent.status_code == 400, wrong
                assert run.result is None
                usage = {"calls": 1, "dollars": -1e9}
                for reason in ("x", "y"):
                    sent = await http.put("/result", json=result_of(place, reason=reason, usage=usage))
                    assert sent.status_code == 200
        assert run.result is not None and run.result.reason == "x", "the first one counts"
        assert run.result.usage == SPENT
        kept = Path(run.spec.work_dir) / "result.json"
        assert RunResult.model_validate_json(kept.read_bytes()) == run.result

    play(use)


def _files(folder: Path) -> dict[Path, bytes | None]:
    """What of it travels; ``None`` for folders."""
    found = {path.relative_to(folder): path for path in folder.rglob("*") if not path.is_symlink()}
    plain = {name: path for name, path in found.items() if path.is_dir() or path.is_file()}
    return {name: None if path.is_dir() else path.read_bytes() for name, path in plain.items()}


def test_the_repository_comes_as_folders_and_files(play: Callable[[Use], None]) -> None:
    async def use(place: Place) -> None:
        git_dir = Path(place.spec.git_dir)
        (git_dir / "link").symlink_to("/etc/passwd")
        os.mkfifo(git_dir / "pipe")
        (git_dir / "large").write_bytes(b"x" * 3_000_001)
        archive, got = place.folder / "got.tar", place.folder / "got"
        with place.door.opened(opened(place)):
            async with speaking(place) as http:
                archive.write_bytes((await http.get("/repository")).content)
        unpack(archive, got)
        sent = _files(git_dir)
        assert {Path("link"), Path("pipe")} & sent.keys() == set() and len(sent) > 5
        assert _files(got) == sent

    play(use)


@pytest.mark.parametrize(
    ("name", "kind"), [("../out", tarfile.REGTYPE), ("/tmp/out", tarfile.REGTYPE), ("a", tarfile.SYMTYPE)]
)
def test_a_repository_that_leads_out_is_not_unpacked(tmp_path: Path, name: str, kind: bytes) -> None:
    with tarfile.open(tmp_path / "bad.tar", "w") as tar:
        member = tarfile.TarInfo(name)
        member.type, member.linkname = kind, "/etc"
        tar.addfile(member)
    with pytest.raises(OperatorError, match="leads out"):
        unpack(tmp_path / "bad.tar", tmp_path / "got")
    assert not list((tmp_path / "got").iterdir())


def test_a_full_disk_is_a_reason_to_wait(play: Callable[[Use], None], tmp_path: Path) -> None:
    async def use(place: Place) -> None:
        with small_disk(tmp_path / "small", "size=64k"):
            place.spec = place.spec.model_copy(update={"work_dir": str(tmp_path / "small")})
            note, long = ({"at": 1, "kind": "note", "text": "x" * size} for size in (10, 100_000))
            with place.door.opened(opened(place)) as run:
                async with speaking(place) as http:
                    assert (await news(http, 0, note)).status_code == 200
                    assert (await news(http, 1, long)).status_code == 503
                    assert (await http.put("/result", json=result_of(place, reason="x" * 100_000))).status_code == 503
                    assert (await news(http, 1, note)).status_code == 200
                    assert (await http.put("/result", json=result_of(place))).status_code == 200
                assert [json.loads(line) for line in (tmp_path / "small" / "events.jsonl").open()] == [note, note]
                assert run.result is not None

    play(use)


def test_a_token_opens_its_run_alone_and_only_while_it_is_open(play: Callable[[Use], None]) -> None:
    async def use(place: Place) -> None:
        with place.door.opened(opened(place)):
            async with speaking(place) as http:
                assert (await claim(place, await identity(place))).status_code == 409
                headers = {"authorization": "Bearer " + "x" * 43}
                assert (await http.get("/repository", headers=headers)).status_code == 410
                own = http.headers.pop("authorization")
                assert (await http.put("/result", json=result_of(place))).status_code == 401
        async with loopback.AsyncClient(base_url=f"{place.url}{PREFIX}", trust_env=False) as late:
            headers = {"authorization": own}
            assert (await late.put("/result", json=result_of(place), headers=headers)).status_code == 410

    play(use)
