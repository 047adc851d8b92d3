"""The identity tokens of workflow runs: who signs them, and where a job gets one.

Source of the claims: https://docs.github.com/en/actions/reference/security/oidc.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from functools import cached_property

import jwt
from anyio.to_thread import run_sync
from cryptography.hazmat.primitives.asymmetric import rsa
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from app.devhub.hub import Hub
from app.devhub.records import Repository, User, Workflow, WorkflowRun

PATH = "/_services/token"
_KEY = "devhub-1"
_LIFE_S = 300
_ASKED = re.compile(rf"{PATH}/runs/([0-9]{{1,18}})")


class Identities:
    """Signs for the workflow runs of a hub."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    async def serve(self, request: Request) -> Response:
        """The public keys, or the token of the run that asks."""
        path = request.url.path
        if path == f"{PATH}/.well-known/jwks":
            return JSONResponse({"keys": [await run_sync(self._public)]})
        asked = _ASKED.fullmatch(path)
        if asked is None:
            return JSONResponse({"message": "Not Found"}, 404)
        expected = f"Bearer {request_key(self._hub, int(asked[1]))}"
        if not hmac.compare_digest(request.headers.get("authorization", ""), expected):
            return JSONResponse({"message": "Bad credentials"}, 401)
        audience = request.query_params.get("audience", self._hub.base_url)
        return JSONResponse({"value": await run_sync(self.token, int(asked[1]), audience)})

    def token(self, run_id: int, audience: str) -> str:
        """What GitHub says of a run to whom it is meant for."""
        store, now = self._hub.store, int(self._hub.clock.now())
        run = store.get(WorkflowRun, run_id)
        repository, workflow = store.get(Repository, run.repository_id), store.get(Workflow, run.workflow_id)
        name = self._hub.full_name(repository)
        claims = {
            "iss": self._hub.web(PATH),
            "aud": audience,
            "sub": f"repo:{name}:ref:{run.ref}",
            "iat": now,
            "nbf": now,
            "exp": now + _LIFE_S,
            "repository": name,
            "repository_id": str(repository.id),
            "repository_owner_id": str(repository.owner_id),
            "run_id": str(run.id),
            "run_number": str(run.run_number),
            "run_attempt": "1",
            "event_name": run.event,
            "ref": run.ref,
            "sha": run.head_sha,
            "workflow_ref": f"{name}/{workflow.path}@{run.ref}",
            "actor": store.get(User, run.user_id).login,
        }
        return jwt.encode(claims, self._key, algorithm="RS256", headers={"kid": _KEY})

    @cached_property
    def _key(self) -> rsa.RSAPrivateKey:
        return rsa.generate_private_key(public_exponent=65537, key_size=2048)

    def _public(self) -> dict[str, str]:
        key = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(self._key.public_key()))
        return {**key, "kid": _KEY, "use": "sig", "alg": "RS256"}


def request_key(hub: Hub, run_id: int) -> str:
    """With which the job of a run asks for its token."""
    return hmac.new(hub.secret, f"identity:{run_id}".encode(), hashlib.sha256).hexdigest()


def environment(hub: Hub, run_id: int) -> dict[str, str]:
    """What GitHub gives to a job that may have an identity token."""
    return {
        "ACTIONS_ID_TOKEN_REQUEST_URL": f"{hub.web(PATH)}/runs/{run_id}?api-version=2.0",
        "ACTIONS_ID_TOKEN_REQUEST_TOKEN": request_key(hub, run_id),
    }
