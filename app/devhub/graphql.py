"""The part of GitHub's GraphQL API that REST has no counterpart for: a pull request becomes ready, or a draft again."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from typing import Any

from anyio.to_thread import run_sync
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from app.devhub import auth, pulls
from app.devhub.errors import Refused, not_found
from app.devhub.hub import Hub
from app.devhub.records import Pull, Repository

PATH = "/api/graphql"
_MUTATION = re.compile(r"\s*mutation\b[^{]*\{\s*(\w+)\s*\(\s*input\s*:\s*\{\s*pullRequestId\s*:\s*\$(\w+)\s*\}")
_DRAFT = {"markPullRequestReadyForReview": False, "convertPullRequestToDraft": True}
_TYPES = {401: "UNAUTHORIZED", 403: "FORBIDDEN", 404: "NOT_FOUND"}


async def serve(hub: Hub, request: Request) -> Response:
    """Answer one request; refusals come with status 200, as GitHub's do, but for credentials."""
    return await run_sync(_respond, hub, request.headers.get("authorization"), await request.body())


def _respond(hub: Hub, authorization: str | None, body: bytes) -> Response:
    try:
        with hub.store.transaction():
            return JSONResponse({"data": _carried_out(hub, authorization, body)})
    except Refused as refused:
        if refused.status == 401:
            return JSONResponse(refused.body(), 401)
        error = {"type": _TYPES.get(refused.status, "UNPROCESSABLE"), "message": refused.what}
        return JSONResponse({"data": None, "errors": [error]})


def _carried_out(hub: Hub, authorization: str | None, body: bytes) -> Mapping[str, Any]:
    actor = auth.identify(hub.store, authorization, hub.clock.now())
    if actor is None:
        raise Refused(401, "Requires authentication")
    name, pull = _asked(hub, body)
    repository = hub.store.get(Repository, pull.repository_id)
    auth.require(hub.store, actor, repository, ("pull_requests:write",), "write")
    pull = pulls.set_draft(hub, pull, actor, draft=_DRAFT[name])
    return {name: {"pullRequest": {"isDraft": pull.draft, "headRefOid": pull.head_sha}}}


def _asked(hub: Hub, body: bytes) -> tuple[str, Pull]:
    try:
        asked = json.loads(body)
        match = _MUTATION.match(asked["query"])
        if match is None or match[1] not in _DRAFT:
            raise Refused(422, "The stand-in for GitHub has no such GraphQL operation")
        kind, _, number = base64.b64decode(asked["variables"][match[2]]).decode().partition(":")
        found = hub.store.first(Pull, id=int(number)) if kind == Pull.__name__ else None
    except (ValueError, KeyError, TypeError) as error:
        raise Refused(422, "Problems parsing the GraphQL request") from error
    if found is None:
        raise not_found()
    return match[1], found
