"""Where runs are fetched that are carried out elsewhere, and where what came of them is brought.

A runner proves by the identity token of its workflow run that it is the one which was asked; then it gets the RunSpec
and the repository, and from there on speaks with a token for this run alone. What it brings is data: counted, bounded,
and checked before anything is made of it.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import os
import secrets
import tarfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from agent.errors import RetryLater, disk_full
from agent.files import replace_file
from agent.record import EVENTS, RESULT
from agent.types import RunResult, RunSpec, Usage, Value
from app.github import IdentityRefused, WorkflowRun, WorkflowTokens
from app.runners.incoming import Refused, body, parsed

PREFIX = "/runner/v1"
_MIB = 1024 * 1024
EVENTS_AT_ONCE = 500
_SMALL = 64 * 1024
EVENT_BYTES = 8 * _MIB
"""Of an event that is brought; a longer one is told as a note."""
_NEWS = EVENT_BYTES + _MIB
"""The longest event alone, or many short ones."""
_RESULT = 64 * _MIB
_LOG = 512 * _MIB
"""All events of a run."""
_PIECE = _MIB


class Claim(Value):
    """What a runner asks with: the run that its workflow was started for."""

    run: str


class Claimed(Value):
    """What it gets."""

    spec: RunSpec
    token: str


class News(Value):
    """Lines of a run's event log."""

    first: int = Field(ge=0)
    """Number of the first one, from 0, so that a repeat adds nothing."""
    now: float = Field(allow_inf_nan=False)
    """What the runner's clock says, by which the events are told apart in time; seconds since the epoch."""
    events: tuple[Mapping[str, Any], ...] = Field((), max_length=EVENTS_AT_ONCE)


class Told(Value):
    """The answer to news."""

    cancel: bool


@dataclass(frozen=True)
class Expected:
    """The only workflow that may fetch a run."""

    repository_id: int
    workflow: str
    ref: str
    run_id: int | None
    """``None`` where GitHub did not tell the number of the workflow's run."""

    def check(self, seen: WorkflowRun) -> None:
        """
        Raises:
            Refused: ``seen`` is not the one that is meant.
        """
        if seen.repository_id != self.repository_id:
            raise Refused(403, "the workflow run is another repository's")
        if (seen.workflow, seen.ref) != (self.workflow, self.ref):
            raise Refused(403, f"the workflow is not {self.workflow} at {self.ref}")
        if seen.event != "workflow_dispatch":
            raise Refused(403, "the workflow run was not started by us")
        if seen.attempt != 1:  # it has the workflow of the day on which it was first started
            raise Refused(403, "the workflow run is a repeated one")
        if self.run_id not in (None, seen.run_id):
            raise Refused(409, "another workflow run was started for it")


@dataclass(eq=False)
class RemoteRun:
    """A run that waits for its runner, or is under way there.

    Args:
        spec: its addresses of the model are those that a runner can reach; its folders are ours.
        on_event: gets each event once, in order.
        cancelled: whether it is to end.
        spent: what the model calls of the run took, by our own count.
    """

    spec: RunSpec
    on_event: Callable[[dict[str, Any]], None]
    cancelled: Callable[[], bool]
    spent: Callable[[], Usage]
    expected: Expected | None = None
    """``None`` until GitHub has said which workflow run it has started."""
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

    def claimed(self, by: WorkflowRun) -> Claimed:
        if self.expected is None:
            raise Refused(503, "GitHub has not said yet which workflow run is meant")
        self.expected.check(by)
        if self._holder not in (None, by):
            raise Refused(409, "another workflow run carries it out already")
        self._holder = by
        self.heard()
        return Claimed(spec=self.spec, token=self._token)

    def opened_by(self, token: str) -> bool:
        return self._holder is not None and hmac.compare_digest(token.encode(), self._token.encode())

    async def take(self, news: News) -> Told:
        """Write down what is new, and pass it on."""
        async with self._writing:
            if news.first > self._events:
                raise Refused(409, f"events from {self._events} on are missing")
            fresh = [dict(event) for event in news.events[self._events - news.first :]]
            lines = await asyncio.to_thread(_lines, fresh)
            if self._bytes + len(lines) > _LOG:
                raise Refused(413, "the event log is too long")
            await asyncio.to_thread(_write, Path(self.spec.work_dir) / EVENTS, lines, self._bytes)
            self._bytes += len(lines)
            self._events += len(fresh)
            for event in fresh:
                self._pass_on(event, news.now)
        self.heard()
        return Told(cancel=self.cancelled())

    def _pass_on(self, event: dict[str, Any], their_now: float) -> None:
        """With its time by our clock."""
        now = time.time()
        try:
            self.on_event({**event, "at": min(now, float(event["at"]) + now - their_now)})
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise Refused(400, "an event has not the form of one") from error

    async def end(self, result: RunResult) -> None:
        """Keep the result; the first one counts."""
        if (result.run_id, result.change_set.base_sha) != (self.spec.run_id, self.spec.base_sha):
            raise Refused(400, "the result is another run's")
        async with self._writing:
            if self.result is None:
                ours = result.model_copy(update={"usage": self.spent()})
                self.result = await asyncio.to_thread(_keep, Path(self.spec.work_dir) / RESULT, ours)
        self.heard()

    def heard(self) -> None:
        """The runner gave a sign of life."""
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
            if self._open.get(run.spec.run_id) is run:  # else it was begun anew meanwhile
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
        claim = Claim.model_validate_json(await body(request, _SMALL))
        run = self._open.get(claim.run)
        if run is None:
            raise Refused(410, "no such run waits here: it has ended, or the service was started anew")
        return _json(run.claimed(seen))

    async def _repository(self, request: Request) -> Response:
        run = self._run_of(request)
        return StreamingResponse(_packed(Path(run.spec.git_dir)), media_type="application/x-tar")

    async def _events(self, request: Request) -> Response:
        run = self._run_of(request)
        data = await body(request, _NEWS, run.heard)
        return _json(await run.take(await asyncio.to_thread(parsed, News, data)))

    async def _result(self, request: Request) -> Response:
        run = self._run_of(request)
        data = await body(request, _RESULT, run.heard)
        await run.end(await asyncio.to_thread(parsed, RunResult, data))
        return JSONResponse({"status": "kept"})

    def _run_of(self, request: Request) -> RemoteRun:
        token = _bearer(request)
        for run in self._open.values():
            if run.opened_by(token):
                return run
        raise Refused(410, "the token is no open run's")


def _answering(handler: Callable[[Request], Any]) -> Callable[[Request], Any]:
    async def answer(request: Request) -> Response:
        try:
            response: Response = await handler(request)
            return response
        except Refused as refusal:
            status, reason = refusal.status, refusal.reason
        except ValidationError as error:
            status, reason = 400, f"the request has not the form that is expected ({error.error_count()} errors)"
        except OSError as error:
            if not disk_full(error):
                raise
            status, reason = 503, "the disk of the service is full"
        return JSONResponse({"error": reason}, status)

    return answer


def _json(value: Value) -> Response:
    return Response(value.model_dump_json(), media_type="application/json")


def _bearer(request: Request) -> str:
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    if kind.lower() != "bearer":
        raise Refused(401, "no token was sent")
    return token.strip()


def _lines(events: Iterable[Mapping[str, Any]]) -> bytes:
    """
    Raises:
        Refused: a number is none that JSON has.
    """
    try:
        return b"".join(json.dumps(event, allow_nan=False).encode() + b"\n" for event in events)
    except ValueError as error:
        raise Refused(400, "an event has not the form of one") from error


def _write(path: Path, lines: bytes, at: int) -> None:
    """What an earlier try has left behind ``at`` goes. For its owner alone: it holds code and what tests print."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600), "wb") as log:
        log.truncate(at)
        log.seek(at)
        log.write(lines)


def _keep(path: Path, result: RunResult) -> RunResult:
    """
    Raises:
        ValidationError: it could not be read again, as with numbers that JSON does not have.
    """
    data = result.model_dump_json().encode()
    again = RunResult.model_validate_json(data)
    replace_file(path, data)
    return again


def _packed(folder: Path) -> Iterator[bytes]:
    """A tar archive of the folders and plain files in ``folder``, piece by piece."""
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not (path.is_dir() or path.is_file()):
            continue
        member = tarfile.TarInfo(str(path.relative_to(folder)))
        if path.is_dir():
            member.type = tarfile.DIRTYPE
            yield member.tobuf()
            continue
        with path.open("rb") as file:
            member.size = os.fstat(file.fileno()).st_size
            yield member.tobuf()
            while piece := file.read(_PIECE):
                yield piece
        yield bytes(-member.size % tarfile.BLOCKSIZE)
    yield bytes(2 * tarfile.BLOCKSIZE)
