"""The door of a service as a runner uses it. What goes wrong on the way is tried again for some minutes."""

from __future__ import annotations

import tarfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from shutil import copyfileobj
from threading import Event
from typing import TypeVar

import httpx
from pydantic import BaseModel, SecretStr, ValidationError

from agent.errors import OperatorError, RetryLater, UserError
from agent.outside import proxy_for, tls
from agent.types import RunResult, RunSpec
from app.runners.door import PREFIX, Claim, Claimed, Told

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)

PAUSE_S = 1.0
"""Between two tries, and between two batches of news."""
_PATIENCE_S = 300.0
"""How long the service may be out of reach, as it is while it is started anew."""
_HURRIED_S = 10.0
"""The same once the run is to end: who has stopped it does not wait for long."""
_TIMEOUT = httpx.Timeout(60.0, connect=10.0)
_GONE = (409, 410)


class Gone(UserError):
    """The service does not know, or does not want, this run any more."""


@dataclass(frozen=True)
class Identity:
    """Where a job of GitHub Actions gets a token that says which one it is."""

    url: str
    key: SecretStr

    def token(self, audience: str) -> str:
        """
        Raises:
            OperatorError: GitHub gives none.
            RetryLater: GitHub does not answer.
        """
        headers = {"authorization": f"Bearer {self.key.get_secret_value()}"}
        try:
            with _reaching("GitHub's identity tokens"), _client(self.url) as http:
                answer = http.get(httpx.URL(self.url).copy_merge_params({"audience": audience}), headers=headers)
                _in_order(answer)
                return str(answer.raise_for_status().json()["value"])
        except (httpx.HTTPStatusError, ValueError, KeyError, TypeError) as error:
            raise OperatorError(
                "GitHub gives this job no identity token",
                why=type(error).__name__,
                todo="Give the workflow's job `permissions: id-token: write`",
            ) from error


class Service:
    """The service at ``url``. Safe for two threads at once.

    Args:
        stop: set when the run is to end.
    """

    def __init__(self, url: str, stop: Event) -> None:
        self._audience = url
        self._url = f"{url}{PREFIX}"
        self._http = _client(url)
        self._stop = stop
        self._token = ""

    def close(self) -> None:
        self._http.close()

    def claim(self, run: str, identity: Identity) -> RunSpec:
        """
        Raises:
            Gone: it is not there, or another workflow run has it.
            OperatorError: the service does not trust this workflow, or is of another version.
        """
        body = Claim(run=run).model_dump_json().encode()

        def ask() -> bytes:  # with a new token each time: one lives for minutes only
            return self._sent("POST", "/claim", body, token=identity.token(self._audience))

        claimed = _read(Claimed, self._patiently(ask))
        self._token = claimed.token
        return claimed.spec

    def fetch_repository(self, folder: Path) -> None:
        """Bring the run's bare repository to ``folder``, which is made."""
        archive = folder.with_suffix(".tar")

        def ask() -> None:
            with (
                _reaching(self._url),
                self._http.stream("GET", f"{self._url}/repository", headers=_headers(self._token)) as answer,
                archive.open("wb") as file,
            ):
                if not answer.is_success:
                    answer.read()
                _accepted(answer)
                for piece in answer.iter_bytes():
                    file.write(piece)

        self._patiently(ask)
        unpack(archive, folder)
        archive.unlink()

    def tell(self, first: int, events: Sequence[bytes]) -> Told:
        """Bring news, each in JSON, and hear whether the run is to end. See ``News``."""
        body = b'{"first":%d,"now":%r,"events":[%b]}' % (first, time.time(), b",".join(events))
        return _read(Told, self._patiently(lambda: self._sent("POST", "/events", body, token=self._token)))

    def bring(self, result: RunResult) -> None:
        body = result.model_dump_json().encode()
        self._patiently(lambda: self._sent("PUT", "/result", body, token=self._token))

    def _sent(self, method: str, place: str, content: bytes, *, token: str) -> bytes:
        headers = {**_headers(token), "content-type": "application/json"}
        with _reaching(self._url):
            answer = self._http.request(method, f"{self._url}{place}", content=content, headers=headers)
        _accepted(answer)
        return answer.content

    def _patiently(self, ask: Callable[[], T]) -> T:
        began = time.monotonic()
        while True:
            try:
                return ask()
            except RetryLater as error:
                if time.monotonic() - began > (_HURRIED_S if self._stop.is_set() else _PATIENCE_S):
                    todo = "Check that GRAFTSMITH_PUBLIC_URL is where workflows reach the service"
                    raise OperatorError(error.what, why=error.why, todo=todo) from error
                time.sleep(PAUSE_S)


@contextmanager
def _reaching(what: str) -> Iterator[None]:
    try:
        yield
    except httpx.RequestError as error:
        raise RetryLater(f"{what} can't be reached", why=type(error).__name__) from error


def _client(url: str) -> httpx.Client:
    return httpx.Client(timeout=_TIMEOUT, verify=tls(), proxy=proxy_for(url), trust_env=False, follow_redirects=False)


def _headers(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def _in_order(answer: httpx.Response) -> None:
    if answer.status_code >= 500 or answer.status_code in (408, 429):
        raise RetryLater(f"{answer.url.host} has trouble", why=_said(answer))


def _accepted(answer: httpx.Response) -> None:
    """
    Raises:
        Gone, OperatorError, RetryLater: the answer is none.
    """
    _in_order(answer)
    if answer.status_code in _GONE:
        raise Gone("The service has nothing to carry out here", why=_said(answer))
    if answer.status_code == 413:
        raise OperatorError(
            "What this run has to bring is too large",
            why=_said(answer),
            todo="Let bodies of 64 MiB through the proxy in front of the service",
        )
    if not answer.is_success:
        raise OperatorError(
            f"The service refuses this workflow at {answer.url.path}",
            why=_said(answer),
            todo="Compare the workflow with the one in docs/operating.md, and its address with GRAFTSMITH_PUBLIC_URL",
        )


def _said(answer: httpx.Response) -> str:
    """Why, where it is our own door that answers."""
    try:
        return str(answer.json()["error"])
    except (ValueError, KeyError, TypeError):
        return f"status {answer.status_code}"


def _read(kind: type[M], answer: bytes) -> M:
    try:
        return kind.model_validate_json(answer)
    except ValidationError as error:
        raise OperatorError(
            "The service says something that this version does not know",
            why=f"{error.error_count()} fields differ",
            todo="Name in the workflow the version of Graftsmith that the service runs",
        ) from None


def unpack(archive: Path, folder: Path) -> None:
    """Make ``folder`` of an archive of folders and plain files: a bare repository has nothing else.

    Raises:
        OperatorError: it holds something else, or leads out.
    """
    folder.mkdir(mode=0o700)
    with tarfile.open(archive) as tar:
        for member in tar:
            name, data = PurePosixPath(member.name), tar.extractfile(member) if member.isreg() else None
            if name.is_absolute() or ".." in name.parts or not (data or member.isdir()):
                raise OperatorError(f"The service sends a repository that holds {member.name!r}", why="it leads out")
            if data is None:
                (folder / name).mkdir(exist_ok=True)
                continue
            with data, (folder / name).open("xb") as file:
                copyfileobj(data, file)
