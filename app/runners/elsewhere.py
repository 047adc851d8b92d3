"""The other end of the door: fetches one run, carries it out on this machine, and brings back what came of it.

It holds the workflow's identity and the run's tokens; neither is in the environment of the run's own process, and code
under test sees neither of the two processes.
"""

from __future__ import annotations

import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any

import httpx
from pydantic import BaseModel, SecretStr, ValidationError

from agent.errors import OperatorError, RetryLater, UserError
from agent.outside import proxy_for, tls
from agent.types import RunResult, RunSpec
from app.machine import Machine
from app.runners.door import PREFIX, Claim, Claimed, News, Told
from app.runners.local import RunProcess
from sandbox import remove_tree

_PAUSE_S = 2.0
"""Between two batches of news; the answer says whether the run is to end."""
_BATCH = 500
"""Events at once."""
_PATIENCE_S = 300.0
"""How long the service may be out of reach, as it is while it is started anew."""
_TIMEOUT = httpx.Timeout(60.0, connect=10.0)


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
        """
        try:
            with _client(self.url) as http:
                headers = {"authorization": f"Bearer {self.key.get_secret_value()}"}
                url = httpx.URL(self.url).copy_merge_params({"audience": audience})
                answer = http.get(url, headers=headers)
                return str(answer.raise_for_status().json()["value"])
        except (httpx.HTTPError, ValueError, KeyError, TypeError) as error:
            raise OperatorError(
                "GitHub gives this job no identity token",
                why=type(error).__name__,
                todo="Give the workflow's job `permissions: id-token: write`",
            ) from error


class Service:
    """The door of the service at ``url``, as its runner uses it."""

    def __init__(self, url: str) -> None:
        self._url = f"{url.rstrip('/')}{PREFIX}"
        self._http = _client(url)
        self._token = ""

    def close(self) -> None:
        self._http.close()

    def claim(self, run: str, identity: str) -> RunSpec:
        """
        Raises:
            Gone: it is not there, or another workflow run has it.
            OperatorError: the service does not trust this workflow, or is of another version.
        """
        answer = self._asked("POST", "/claim", token=identity, content=_json(Claim(run=run)))
        try:
            claimed = Claimed.model_validate_json(answer)
        except ValidationError as error:
            raise OperatorError(
                "The service asks for something that this version does not know",
                why=f"{error.error_count()} fields differ",
                todo="Name in the workflow the version of Graftsmith that the service runs",
            ) from None
        self._token = claimed.token
        return claimed.spec

    def fetch_repository(self, folder: Path) -> None:
        """Bring the run's bare repository to ``folder``, which is made."""
        folder.mkdir(mode=0o700)
        archive = folder.with_suffix(".tar")
        with (
            self._http.stream("GET", f"{self._url}/repository", headers=self._headers(self._token)) as answer,
            archive.open("wb") as file,
        ):
            _checked(answer.status_code, "repository")
            for piece in answer.iter_bytes():
                file.write(piece)
        with tarfile.open(archive) as tar:
            tar.extractall(folder, filter="data")
        archive.unlink()

    def tell(self, news: News) -> Told:
        """Bring news, and hear whether the run is to end."""
        return Told.model_validate_json(self._asked("POST", "/events", token=self._token, content=_json(news)))

    def bring(self, result: RunResult) -> None:
        self._asked("PUT", "/result", token=self._token, content=_json(result))

    def _asked(self, method: str, place: str, *, token: str, content: bytes) -> bytes:
        """The answer; a service that can't be reached is waited for."""
        until = time.monotonic() + _PATIENCE_S
        while True:
            try:
                headers = {**self._headers(token), "content-type": "application/json"}
                answer = self._http.request(method, f"{self._url}{place}", content=content, headers=headers)
                _checked(answer.status_code, place, _reason(answer))
                return answer.content
            except (httpx.TransportError, RetryLater) as error:
                if time.monotonic() > until:
                    raise OperatorError(
                        f"The service at {self._url} can't be reached",
                        why=type(error).__name__,
                        todo="Check that GRAFTSMITH_PUBLIC_URL is where workflows reach it",
                    ) from error
                time.sleep(_PAUSE_S)

    @staticmethod
    def _headers(token: str) -> dict[str, str]:
        return {"authorization": f"Bearer {token}"}


@dataclass
class Reporter:
    """Brings the events of a run to the service while it goes on.

    Args:
        say: told of each event here, for the workflow's own log.
    """

    service: Service
    say: Callable[[Mapping[str, Any]], None]
    stop: Event = field(default_factory=Event)
    """The run is to end."""
    _waiting: list[dict[str, Any]] = field(default_factory=list)
    _brought: int = 0
    _lock: Lock = field(default_factory=Lock)
    _over: Event = field(default_factory=Event)

    def see(self, event: Mapping[str, Any]) -> None:
        with self._lock:
            self._waiting.append(dict(event))
        self.say(event)

    def follow(self) -> None:
        """Bring what is new every few seconds, until :meth:`finish`."""
        while not self._over.wait(_PAUSE_S):
            try:
                self._bring()
            except (Gone, OperatorError):  # whatever comes of the run, nobody waits for it
                self.stop.set()
                return

    def finish(self, follower: Thread) -> None:
        """Have ``follower`` end, and bring what is left."""
        self._over.set()
        follower.join()
        while self._bring():
            pass

    def _bring(self) -> bool:
        """Whether there was anything to bring."""
        with self._lock:
            batch = self._waiting[:_BATCH]
        told = self.service.tell(News(first=self._brought, events=tuple(batch)))
        with self._lock:
            del self._waiting[: len(batch)]
        self._brought += len(batch)
        if told.cancel:
            self.stop.set()
        return bool(batch)


def carry_out(
    url: str, run: str, identity: Identity, machine: Machine, state: Path, say: Callable[[Mapping[str, Any]], None]
) -> RunResult:
    """Carry out ``run`` of the service at ``url``; the result has been brought there when this returns.

    Args:
        state: a folder of this machine; caches stay in it, all else goes.

    Raises:
        Gone: there is nothing to do.
        OperatorError, RetryLater, BugError: as for any run.
    """
    with closing(Service(url)) as service, closing(RunProcess(sandbox=True)) as process, _folder(state) as folder:
        spec = service.claim(run, identity.token(url))
        service.fetch_repository(folder / "repository.git")
        reporter = Reporter(service, say)
        follower = Thread(target=reporter.follow, daemon=True)
        follower.start()
        result = process.run(
            _here(spec, machine, folder, state / "cache"), on_event=reporter.see, cancelled=reporter.stop.is_set
        )
        reporter.finish(follower)
        service.bring(result)
        return result


@contextmanager
def _folder(state: Path) -> Iterator[Path]:
    """For one run. The sandbox's own user passes through to its checkouts."""
    state.mkdir(parents=True, exist_ok=True, mode=0o711)
    folder = Path(tempfile.mkdtemp(prefix="run-", dir=state))
    folder.chmod(0o711)
    try:
        yield folder
    finally:
        remove_tree(folder)


def _here(spec: RunSpec, machine: Machine, folder: Path, cache: Path) -> RunSpec:
    """``spec`` with this machine's folders, programs and registries."""
    work = folder / "run"
    for made in (work, cache):
        made.mkdir(exist_ok=True, mode=0o711)
    return spec.model_copy(
        update={
            "git_dir": str(folder / "repository.git"),
            "work_dir": str(work),
            "cache_dir": str(cache),
            "search_path": machine.search_path,
            "registries": machine.registries,
        }
    )


def _client(url: str) -> httpx.Client:
    return httpx.Client(timeout=_TIMEOUT, verify=tls(), proxy=proxy_for(url), trust_env=False, follow_redirects=False)


def _json(value: BaseModel) -> bytes:
    return value.model_dump_json().encode()


def _reason(answer: httpx.Response) -> str:
    try:
        return str(answer.json()["error"])
    except (ValueError, KeyError, TypeError):
        return f"status {answer.status_code}"


def _checked(status: int, place: str, reason: str = "") -> None:
    """
    Raises:
        Gone, OperatorError, RetryLater: the answer is none.
    """
    if status < 300:
        return
    if status >= 500 or status == 429:
        raise RetryLater("The service has trouble", why=reason)
    if status in (401, 404, 409) and not (status == 401 and place == "/claim"):
        raise Gone("The service has nothing to carry out here", why=reason)
    raise OperatorError(
        f"The service refuses this workflow at {place}",
        why=reason,
        todo="Compare the workflow with the one in docs/operating.md, and its address with GRAFTSMITH_PUBLIC_URL",
    )
