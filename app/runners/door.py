"""Where runs are fetched that are carried out elsewhere, and where what came of them is brought.

A runner proves by the identity token of its workflow run that it is the one which was asked; then it gets the RunSpec
and the repository, and from there on speaks with a token for this run alone. What it brings is data: counted, bounded,
and checked before anything is made of it.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import secrets
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route

from agent.errors import RetryLater
from agent.files import replace_file
from agent.record import EVENTS, RESULT
from agent.types import RunResult, RunSpec, Value
from app.github import IdentityRefused, WorkflowRun, WorkflowTokens

PREFIX = "/runner/v1"
_MIB = 1024 * 1024
_SMALL = 64 * 1024
_EVENTS_AT_ONCE = 16 * _MIB
_RESULT = 256 * _MIB
_LOG = 512 * _MIB
"""All events of a run."""


class Claim(Value):
    """What a runner asks with: the run that its workflow was started for."""

    run: str


class Claimed(Value):
    """What it gets."""

    spec: RunSpec
    token: str


class News(Value):
    """Lines of a run's event log; ``first`` is the number of the first one, from 0, so that a repeat adds nothing."""

    first: int
    events: tuple[Mapping[str, Any], ...] = ()


class Told(Value):
    """The answer to news."""

    cancel: bool


class Refused(Exception):
    """The request is turned away."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


@dataclass(frozen=True)
class Expected:
    """The only workflow that may fetch a run; ``None`` where GitHub did not tell the number of its run."""

    repository_id: int
    workflow: str
    ref: str
    run_id: int | None = None

    def unlike(self, seen: WorkflowRun) -> str:
        """What about ``seen`` is wrong; empty for the one that is meant."""
        if seen.repository_id != self.repository_id:
            return "it is another repository's"
        if (seen.workflow, seen.ref) != (self.workflow, self.ref):
            return f"it is not {self.workflow} at {self.ref}"
        if seen.event != "workflow_dispatch" or self.run_id not in (None, seen.run_id):
            return "it was not started by us for this run"
        return ""


@dataclass(eq=False)
class RemoteRun:
    """A run that waits for its runner, or is under way there.

    Args:
        spec: its addresses of the model are those that a runner can reach; its folders are ours.
        on_event: gets each event once, in order.
        cancelled: whether it is to end.
    """

    spec: RunSpec
    expected: Expected
    on_event: Callable[[dict[str, Any]], None]
    cancelled: Callable[[], bool]
    result: RunResult | None = None
    heard_at: float | None = None
    """When the runner spoke last (``time.monotonic``); ``None`` before it has come."""
    _stopped_at: float | None = None
    _holder: WorkflowRun | None = None
    _token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    _events: int = 0
    _bytes: int = 0
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _writing: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def folder(self) -> Path:
        return Path(self.spec.work_dir)

    async def news(self, seconds: float) -> None:
        """Wait until something has come, for ``seconds`` at most."""
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            return
        self._news.clear()

    def stopped_s(self) -> float | None:
        """For how many seconds it has been one that is to end; ``None`` for one that may go on."""
        if not self.cancelled():
            return None
        self._stopped_at = self._stopped_at or time.monotonic()
        return time.monotonic() - self._stopped_at

    def known_as(self, run_id: int | None) -> None:
        """From now on only this run of the workflow counts, where GitHub has told its number."""
        self.expected = replace(self.expected, run_id=run_id)

    def claimed(self, by: WorkflowRun) -> Claimed:
        if why := self.expected.unlike(by):
            raise Refused(403, f"this workflow run can't carry it out: {why}")
        if self._holder not in (None, by):
            raise Refused(409, "another workflow run carries it out already")
        self._holder = by
        self._heard()
        return Claimed(spec=self.spec, token=self._token)

    def opened_by(self, token: str) -> bool:
        return self._holder is not None and hmac.compare_digest(token.encode(), self._token.encode())

    async def take(self, news: News) -> Told:
        """Write down what is new, and pass it on."""
        async with self._writing:
            if news.first > self._events:
                raise Refused(409, f"events from {self._events} on are missing")
            fresh = [dict(event) for event in news.events[self._events - news.first :]]
            lines = "".join(f"{json.dumps(event, ensure_ascii=False)}\n" for event in fresh).encode("utf-8", "replace")
            if self._bytes + len(lines) > _LOG:
                raise Refused(413, "the event log is too long")
            await asyncio.to_thread(_append, self.folder / EVENTS, lines)
            self._bytes += len(lines)
            self._events += len(fresh)
            for event in fresh:
                self._pass_on(event)
        self._heard()
        return Told(cancel=self.cancelled())

    def _pass_on(self, event: dict[str, Any]) -> None:
        try:
            self.on_event(event)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise Refused(400, "an event has not the form of one") from error

    async def end(self, result: RunResult) -> None:
        """Keep the result; the first one counts."""
        if (result.run_id, result.change_set.base_sha) != (self.spec.run_id, self.spec.base_sha):
            raise Refused(400, "the result is another run's")
        async with self._writing:
            if self.result is None:
                await asyncio.to_thread(replace_file, self.folder / RESULT, result.model_dump_json().encode())
                self.result = result
        self._heard()

    def _heard(self) -> None:
        self.heard_at = time.monotonic()
        self._news.set()


class Door:
    """The runs that are open in this process, and the routes by which their runners reach them.

    Args:
        tokens: tells who a workflow run is.
    """

    def __init__(self, tokens: WorkflowTokens) -> None:
        self._tokens = tokens
        self._open: dict[str, RemoteRun] = {}

    @contextmanager
    def opened(self, run: RemoteRun) -> Iterator[RemoteRun]:
        """``run`` can be fetched and brought back meanwhile; afterwards its token opens nothing."""
        self._open[run.spec.run_id] = run
        try:
            yield run
        finally:
            del self._open[run.spec.run_id]

    def routes(self) -> Sequence[Route]:
        """To mount at the root of the server."""
        return (
            Route(f"{PREFIX}/claim", _answering(self._claim), methods=["POST"]),
            Route(f"{PREFIX}/repository", _answering(self._repository), methods=["GET"]),
            Route(f"{PREFIX}/events", _answering(self._events), methods=["POST"]),
            Route(f"{PREFIX}/result", _answering(self._result), methods=["PUT"]),
        )

    async def _claim(self, request: Request) -> Response:
        try:
            seen = await self._tokens.verify(_bearer(request))
        except IdentityRefused as error:
            raise Refused(401, str(error)) from error
        except RetryLater as error:
            raise Refused(503, str(error)) from error
        claim = Claim.model_validate_json(await _body(request, _SMALL))
        run = self._open.get(claim.run)
        if run is None:
            raise Refused(404, "no such run waits here: it has ended, or the service was started anew")
        return _json(run.claimed(seen))

    async def _repository(self, request: Request) -> Response:
        run = self._run_of(request)
        archive = run.folder / f"repository-{secrets.token_hex(4)}.tar"
        await asyncio.to_thread(_pack, Path(run.spec.git_dir), archive)
        return FileResponse(archive, media_type="application/x-tar", background=BackgroundTask(archive.unlink))

    async def _events(self, request: Request) -> Response:
        run = self._run_of(request)
        return _json(await run.take(News.model_validate_json(await _body(request, _EVENTS_AT_ONCE))))

    async def _result(self, request: Request) -> Response:
        run = self._run_of(request)
        data = await _body(request, _RESULT)
        await run.end(await asyncio.to_thread(RunResult.model_validate_json, data))
        return JSONResponse({"status": "kept"})

    def _run_of(self, request: Request) -> RemoteRun:
        token = _bearer(request)
        for run in self._open.values():
            if run.opened_by(token):
                return run
        raise Refused(401, "the token is no open run's")


def _answering(handler: Callable[[Request], Any]) -> Callable[[Request], Any]:
    async def answer(request: Request) -> Response:
        try:
            response: Response = await handler(request)
            return response
        except Refused as refusal:
            status, reason = refusal.status, refusal.reason
        except ValidationError as error:
            status, reason = 400, f"the request has not the form that is expected ({error.error_count()} errors)"
        return JSONResponse({"error": reason}, status)

    return answer


def _json(value: Value) -> Response:
    return Response(value.model_dump_json(), media_type="application/json")


def _bearer(request: Request) -> str:
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    if kind.lower() != "bearer":
        raise Refused(401, "no token was sent")
    return token.strip()


async def _body(request: Request, most: int) -> bytes:
    data = bytearray()
    async for piece in request.stream():
        data += piece
        if len(data) > most:
            raise Refused(413, f"more than {most} bytes")
    return bytes(data)


def _append(path: Path, lines: bytes) -> None:
    with path.open("ab") as log:
        log.write(lines)


def _pack(git_dir: Path, archive: Path) -> None:
    with tarfile.open(archive, "x") as tar:
        tar.add(git_dir, arcname=".")
