"""One request to GitHub, with our own rules for waiting and repeating.

githubkit sends it and signs it; its own retries are off, because they repeat writes blindly. What is repeated here:
reads and writes that may be repeated without harm, after a failure of the server or the line; anything after a rate
limit of a few seconds, since a limited request was not carried out. Longer waits belong to the job, which survives a
restart: they are raised as ``RetryLater``.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlsplit

import httpx
import jwt
from githubkit import GitHub, GitHubCore
from githubkit.auth import BaseAuthStrategy, TokenAuthStrategy
from githubkit.cache import MemCacheStrategy
from githubkit.exception import GitHubException, RequestError, RequestFailed

from agent.errors import GraftsmithError, OperatorError, RetryLater
from agent.outside import proxy_for, tls
from app.addresses import by_api
from app.github.errors import AnswerLost, Reply, is_limit, to_error, wait_s
from app.private_key import checked_key

_log = logging.getLogger(__name__)

INLINE_WAIT_S = 5.0
"""Longest rate limit that is waited out inside a call."""
_CONNECT_S = 10.0
_TRIES = 3
_PAGE, _MOST_PAGES = 100, 50


class AsApp(BaseAuthStrategy, httpx.Auth):
    """The App itself: each request is signed with its key. githubkit does that only for paths that it knows, and a
    repository by its number is none of them; and each time it reads the key anew, which is a hundred times the work."""

    def __init__(self, app_id: int, private_key: str) -> None:
        self._app_id = app_id
        self._key = checked_key(private_key)

    def get_auth_flow(self, github: GitHubCore[Any]) -> httpx.Auth:
        return self

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        now = int(time.time())
        claims = {"iss": str(self._app_id), "iat": now - 60, "exp": now + 540}
        request.headers["Authorization"] = f"Bearer {jwt.encode(claims, self._key, algorithm='RS256')}"
        yield request


class Client(GitHub[AsApp | TokenAuthStrategy]):
    """githubkit without its own reading of rate limits, which fails on a Retry-After that is a date."""

    def _check_rate_limit(self, response: object) -> None:
        """``errors.is_limit`` decides."""


class Connections(httpx.AsyncHTTPTransport):
    """A connection pool to ``url`` that outlives the short-lived clients that githubkit makes for each call."""

    def __init__(self, url: str) -> None:
        super().__init__(verify=tls(), proxy=proxy_for(url))

    async def aclose(self) -> None:
        """A client closes its transport; this one is kept."""

    async def close_all(self) -> None:
        await super().aclose()


def client(auth: AsApp | TokenAuthStrategy, api_url: str, connections: Connections, silence_s: float) -> Client:
    """A githubkit client without its retries, its global token cache and its HTTP cache.

    Args:
        silence_s: how long an answer is waited for.
    """
    return Client(
        auth,
        base_url=api_url,
        user_agent="graftsmith",
        timeout=httpx.Timeout(silence_s, connect=min(silence_s, _CONNECT_S)),
        ssl_verify=tls(),
        async_transport=connections,
        cache_strategy=MemCacheStrategy(),
        http_cache=False,
        auto_retry=False,
        follow_redirects=False,
    )


def path(template: str, **parts: str | int) -> str:
    """``template`` with each part encoded; slashes stay, as GitHub wants them in refs and file paths.

    ``path("/repos/{repo}/git/ref/{ref}", repo="o/r", ref="heads/a#1")`` gives ``/repos/o/r/git/ref/heads/a%231``.
    """
    # "." and ".." parts would be folded away by the URL library and lead to another resource.
    quoted = {name: _quoted(str(part)) for name, part in parts.items()}
    return template.format(**quoted)


def _quoted(part: str) -> str:
    steps = part.split("/")
    return "/".join(step.replace(".", "%2E") if step in (".", "..") else quote(step, safe="") for step in steps)


class Api:
    """Requests under one identity.

    Args:
        current: gives the client to use now; called with ``True`` after a 401, to get one with a new token.
        backoff_s: pauses before each repetition.
        redact: goes over every text for people that leaves, as the last guard against secrets in it.
        home: beginning of the only paths to which a redirect is followed: ``/repositories/700``, as GitHub sends who
            asks by a name that a repository had before.
        on_moved: called when one was followed: names are not what they were.
    """

    def __init__(
        self,
        current: Callable[[bool], Awaitable[Client]],
        backoff_s: Sequence[float],
        *,
        redact: Callable[[str], str] = str,
        home: str = "",
        on_moved: Callable[[], None] = lambda: None,
    ) -> None:
        self._home = home
        self._on_moved = on_moved
        self._current = current
        self._redact = redact
        self.backoff_s = tuple(backoff_s)

    async def get(self, url: str, what: str, **params: str | int) -> Any:
        return await self.send("GET", url, what, params=params or None)

    async def send(
        self,
        method: str,
        url: str,
        what: str,
        *,
        json: Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        harmless: bool | None = None,
    ) -> Any:
        """The decoded JSON answer, ``None`` where there is none.

        Args:
            what: what we want, for messages: ``write a comment``.
            harmless: whether repeating it can't double anything; by default true for all but POST.

        Raises:
            NotFound, Rejected, PermissionMissing, CredentialsRefused, UserError, OperatorError: see ``errors``.
            AnswerLost: a write that may have happened.
            RetryLater: a rate limit longer than a few seconds, or GitHub can't be reached.
        """
        harmless = method != "POST" if harmless is None else harmless
        json = _redacted(json, self._redact) if json is not None else None
        renew = False
        for tried in range(_TRIES):
            more = tried + 1 < _TRIES
            result = await _once(await self._current(renew), method, url, json, params)
            if isinstance(result, httpx.Response):
                return result.json() if result.content else None
            if isinstance(result, Reply) and more and (there := self._moved(result)):
                self._on_moved()
                url = there
                continue
            # Refused before anything happened: a token that ended early is worth one new one.
            renew = isinstance(result, Reply) and result.status == 401 and not renew and more
            if renew:
                continue
            error, pause = self._judged(result, method, what, harmless, tried)
            if pause is None or not more:
                raise error
            _log.info("github request repeated: %s %s after %.1f s: %s", method, url, pause, error)
            await asyncio.sleep(pause)
        raise AssertionError("the loop returns or raises")

    def _moved(self, reply: Reply) -> str | None:
        """Where ``reply`` leads, when that is the same repository by its number. No token goes anywhere else."""
        path = urlsplit(reply.headers.get("location", "")).path
        _, home, rest = path.partition(self._home) if self._home else ("", "", "")
        return f"{home}{rest}" if home and rest[:1] in ("", "/") else None

    def _judged(
        self, result: Reply | Exception, method: str, what: str, harmless: bool, tried: int
    ) -> tuple[GraftsmithError, float | None]:
        """What went wrong, and after how many seconds it is worth another try; ``None`` where it is not."""
        backoff = self.backoff_s[min(tried, len(self.backoff_s) - 1)]
        if isinstance(result, Exception):
            return _unreachable(result, method, what), backoff if harmless else None
        error = to_error(result, what)
        if is_limit(result):
            pause = wait_s(result, time.time())
            return error, pause if pause <= INLINE_WAIT_S else None
        return error, backoff if harmless and isinstance(error, RetryLater) else None

    async def graphql(self, query: str, variables: Mapping[str, str], what: str) -> Any:
        """The ``data`` of an answer, for what REST has no operation for. Repeating it must do no harm.

        Raises:
            as :meth:`send`; errors of GraphQL come with status 200, and are sorted like those of REST.
        """
        url = by_api(str((await self._current(False)).config.base_url).rstrip("/")).graphql
        answer = await self.send("POST", url, what, json={"query": query, "variables": variables}, harmless=True)
        errors = answer.get("errors") if isinstance(answer, Mapping) else None
        if errors:
            status = _STATUS.get(str(errors[0].get("type")), 422)
            raise to_error(Reply("POST", url, status, body={"message": str(errors[0].get("message"))}), what)
        return answer["data"]

    async def pages(self, url: str, what: str, *, key: str = "", **params: str | int) -> list[Any]:
        """All items of a list; ``key`` where they are under a key of an object."""
        items: list[Any] = []
        for page in range(1, _MOST_PAGES + 1):
            answer = await self.get(url, what, per_page=_PAGE, page=page, **params)
            found = answer[key] if key else answer
            items += found
            if len(found) < _PAGE:
                break
        return items


_STATUS = {"FORBIDDEN": 403, "NOT_FOUND": 404, "RATE_LIMITED": 429, "RATE_LIMIT": 429}
"""Type of a GraphQL error → what REST answers in its place."""


_FOR_PEOPLE = frozenset({"body", "title", "message", "summary", "text"})


def _redacted(value: Any, redact: Callable[[str], str], key: str = "") -> Any:
    """``value`` with the texts for people redacted; names, ids and file contents have their own checks."""
    if isinstance(value, Mapping):
        return {name: _redacted(item, redact, name) for name, item in value.items()}
    if isinstance(value, list):
        return [_redacted(item, redact, key) for item in value]
    return redact(value) if isinstance(value, str) and key in _FOR_PEOPLE else value


async def _once(
    client: Client, method: str, url: str, json: Mapping[str, Any] | None, params: Mapping[str, Any] | None
) -> httpx.Response | Reply | Exception:
    """The answer, an error answer, or what kept us from getting one."""
    try:
        answer = await client.arequest(method, url, json=json, params=dict(params) if params else None)
        response: httpx.Response = answer.raw_response
        return _reply(response, method, url) if response.is_redirect else response
    except RequestFailed as error:
        return _reply(error.response.raw_response, method, url)
    except RequestError as error:
        cause: Exception = error.exc
        return cause
    except GitHubException as error:
        return error


def _reply(response: httpx.Response, method: str, url: str) -> Reply:
    try:
        body = response.json()
    except ValueError:
        body = None  # an error page of a proxy
    headers = {name.lower(): value for name, value in response.headers.items()}
    return Reply(method, url, response.status_code, headers, body)


def _unreachable(error: Exception, method: str, what: str) -> GraftsmithError:
    # Names only: the text of an error can hold the request with its headers.
    reason = type(error).__name__
    if not isinstance(error, httpx.TransportError):
        return OperatorError(f"Could not {what}: the request to GitHub could not be made", why=reason)
    never_sent = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
    if method == "GET" or never_sent:
        return RetryLater("GitHub can't be reached", why=reason)
    return AnswerLost(f"The line broke while we wanted to {what}", why=reason)
