"""From an HTTP request to an operation and back: routing, who asks, pages of lists, rate limit, request ids."""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from email.utils import formatdate
from typing import Any
from urllib.parse import unquote, urlencode

from anyio.to_thread import run_sync
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from app.devhub import auth, git_http, graphql, identity, issues, manifests
from app.devhub.errors import DOCS, Moved, Refused, forbidden, known, not_found
from app.devhub.hub import API, Hub
from app.devhub.limits import RateLimit
from app.devhub.pages import pages
from app.devhub.records import Repository
from app.devhub.rest import JSON, Answer, Body, Call, Operation, Page
from app.devhub.routes import OPERATIONS
from app.devhub.webhooks import Sender

BY_ID = re.compile(r"/repositories/([0-9]{1,18})(?=/|$)")
"""GitHub's undocumented but lasting way to name a repository that may be renamed."""


@dataclass(frozen=True)
class _Route:
    operation: Operation
    pattern: re.Pattern[str]


def _compile(operation: Operation) -> _Route:
    pattern = re.sub(r"\{(\w+):path\}", r"(?P<\1>.+)", operation.path)
    return _Route(operation, re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", pattern)))


ROUTES = tuple(_compile(operation) for operation in OPERATIONS)


class RestApi:
    """The REST API of a hub as an ASGI application, below ``API``."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._limit = RateLimit(hub)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        # The raw path, because a slash that was sent as %2F is none.
        path = scope["raw_path"].decode("ascii", "replace").partition("?")[0].removeprefix(API)
        body = await request.body()
        response = await run_sync(self._respond, request, path, body)
        await response(scope, receive, send)

    def _respond(self, request: Request, path: str, body: bytes) -> Response:
        headers = {
            "x-github-request-id": uuid.uuid4().hex[:20].upper(),
            "x-github-media-type": "github.v3; format=json",
            "date": formatdate(self._hub.clock.now(), usegmt=True),
        }
        try:
            with self._hub.store.transaction():
                actor = auth.identify(self._hub.store, request.headers.get("authorization"), self._hub.clock.now())
                headers |= self._limit.spend(actor, free=path == "/rate_limit")
                answer = self._dispatch(request, path, body, actor, headers)
        except Moved as moved:
            answer = _moved(request.method, self._hub.api(moved.path))
        except Refused as refused:
            headers |= refused.headers
            answer = Answer(refused.body(), refused.status)
        return _fresh(request, _response(answer, headers))

    def _dispatch(
        self, request: Request, path: str, body: bytes, actor: auth.Actor | None, headers: dict[str, str]
    ) -> Answer:
        if path == "/rate_limit":
            return Answer(self._limit.overview(actor))
        operation, values = self._find(request.method, self._named(path).rstrip("/"))
        if operation.needs:
            headers["x-accepted-github-permissions"] = "; ".join(need.replace(":", "=") for need in operation.needs)
        call = Call(
            hub=self._hub,
            actor=actor,
            path=values,
            query=dict(request.query_params),
            body=_json(body),
            accept=request.headers.get("accept", ""),
            found=self._repository(values, path, actor),
        )
        self._authorise(operation, call)
        result = operation.handler(call)
        return result if isinstance(result, Answer) else _page(request, self._hub.api(path), result)

    def _named(self, path: str) -> str:
        """The path with the repository's name where it had the id."""
        found = BY_ID.match(path)
        if not found:
            return path
        repository = known(self._hub.store.first(Repository, id=int(found[1])))
        return f"/repos/{self._hub.full_name(repository)}{path[found.end() :]}"

    @staticmethod
    def _find(method: str, path: str) -> tuple[Operation, Mapping[str, str]]:
        for route in ROUTES:
            match = route.pattern.fullmatch(path) if route.operation.method == method else None
            if match:
                values = match.groupdict()
                if any("%2f" in value.lower() for value in values.values()):
                    raise not_found()
                return route.operation, {
                    name: unquote(value, errors="surrogateescape") for name, value in values.items()
                }
        raise Refused(501, f"The stand-in for GitHub has no operation {method} {path}")

    def _repository(self, values: Mapping[str, str], path: str, actor: auth.Actor | None) -> Repository | None:
        if "repo" not in values:
            return None
        found = self._hub.repository(values["owner"], values["repo"])
        if found is not None:
            return found
        renamed = self._hub.renamed(values["owner"], values["repo"])
        if renamed is None or not auth.sees(self._hub.store, actor, renamed):
            raise not_found()
        rest = "/".join(path.split("/")[4:])
        raise Moved(f"/repositories/{renamed.id}/{rest}".rstrip("/"))

    def _authorise(self, operation: Operation, call: Call) -> None:
        actor = call.actor
        if operation.who == "anyone":
            return
        if operation.who == "repository":
            auth.require(self._hub.store, actor, call.repository, operation.needs, operation.person)
            if operation.writes:
                issues.writable(call.repository)
            return
        if actor is None:
            raise Refused(401, "Requires authentication")
        if operation.who == "app" and (actor.app is None or actor.installation is not None):
            raise Refused(401, "A JSON web token could not be decoded")
        if operation.who == "installation" and actor.installation is None:
            raise forbidden()


def _json(body: bytes) -> Body:
    if not body:
        return Body({})
    try:
        found = json.loads(body)
        if b"\\ud" in body.lower():  # half a surrogate pair is no text
            found = json.loads(json.dumps(found, ensure_ascii=False).encode("utf-8", "replace"))
    except (ValueError, RecursionError) as error:
        raise Refused(400, "Problems parsing JSON") from error
    if isinstance(found, list):  # labels may come as a bare list
        return Body({"labels": found})
    if found is None:
        return Body({})
    if not isinstance(found, dict):
        raise Refused(400, "Body should be a JSON object")
    return Body(found)


def _page(request: Request, url: str, page: Page) -> Answer:
    """One page of a list, and where the others are."""
    query = dict(request.query_params)
    per_page = min(max(_number(query.get("per_page"), 30), 1), 100)
    number = max(_number(query.get("page"), 1), 1)
    last = max(-(-len(page.items) // per_page), 1)
    shown = [page.shape(item) for item in page.items[(number - 1) * per_page : number * per_page]]
    body: Any = {"total_count": len(page.items), **page.extra, page.key: shown} if page.key else shown
    targets = {"prev": number - 1, "next": number + 1, "last": last, "first": 1}
    wanted = {
        name: target
        for name, target in targets.items()
        if (number > 1 and name in ("prev", "first")) or (number < last and name in ("next", "last"))
    }
    links = ", ".join(
        f'<{url}?{urlencode({**query, "per_page": per_page, "page": target})}>; rel="{name}"'
        for name, target in wanted.items()
    )
    return Answer(body, headers={"link": links} if links else {})


def _moved(method: str, url: str) -> Answer:
    """A method other than GET has to stay what it is."""
    status, message = (301, "Moved Permanently") if method == "GET" else (307, "Temporary Redirect")
    return Answer({"message": message, "url": url, "documentation_url": DOCS}, status, {"location": url})


def _number(value: str | None, default: int) -> int:
    return int(value) if value and value.isascii() and value.isdigit() and len(value) < 10 else default


def _response(answer: Answer, headers: Mapping[str, str]) -> Response:
    sent = {**headers, **answer.headers}
    if answer.body is None:
        return Response(status_code=answer.status, headers=sent)
    if isinstance(answer.body, bytes):
        return Response(answer.body, answer.status, {**sent, "content-type": answer.type})
    content = json.dumps(answer.body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    return Response(content, answer.status, {**sent, "content-type": JSON})


def _fresh(request: Request, response: Response) -> Response:
    """304 where the client has this answer already."""
    if request.method != "GET" or response.status_code != 200:
        return response
    tag = f'W/"{hashlib.sha256(response.body).hexdigest()}"'
    kept = {name: value for name, value in response.headers.items() if name not in ("content-length", "content-type")}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers={**kept, "etag": tag})
    response.headers["etag"] = tag
    return response


class Root:
    """Hands each request to the API, to git, or to the pages."""

    def __init__(self, hub: Hub, pages: ASGIApp) -> None:
        self._hub = hub
        self._api = RestApi(hub)
        self._identities = identity.Identities(hub)
        self._pages = pages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        git = git_http.PATH.fullmatch(path)
        if path.startswith(f"{API}/"):
            await self._api(scope, receive, send)
        elif path == graphql.PATH and scope["method"] == "POST":
            response = await graphql.serve(self._hub, Request(scope, receive))
            await response(scope, receive, send)
        elif path.startswith(f"{identity.PATH}/"):
            response = await self._identities.serve(Request(scope, receive))
            await response(scope, receive, send)
        elif manifests.PATH.fullmatch(path) and scope["method"] == "POST":  # a form of another site, as it has to be
            response = await manifests.serve(self._hub, Request(scope, receive))
            await response(scope, receive, send)
        elif git:
            response = await git_http.serve(self._hub, Request(scope, receive), git)
            await response(scope, receive, send)
        else:
            await self._pages(scope, receive, send)


def application(hub: Hub) -> Starlette:
    """The whole stand-in as one ASGI application, without faults."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        git_http.install_hooks(hub)
        sender = Sender(hub)
        await sender.start()
        yield
        await sender.stop()

    app = Starlette(lifespan=lifespan)
    app.mount("/", Root(hub, pages(hub)))
    return app
