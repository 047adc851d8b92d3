"""Which workflow run somebody is, by the token that GitHub has signed for it.

Sources: OpenID Connect Core 1.0, section 3.1.3.7, and
https://docs.github.com/en/actions/reference/security/oidc for the claims.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx
import jwt

from agent.errors import RetryLater, UserError
from agent.outside import proxy_for, tls

_KEYS_LIVE_S = 3600.0
_ASK_AGAIN_S = 30.0
"""Between two looks for a key that is not there: anybody can send a token that names one."""
_LEEWAY_S = 60.0
_ENTERPRISE = re.compile(r"(/[\w-]{1,100})?", re.ASCII)


class IdentityRefused(UserError):
    """The token proves nothing. ``reason`` never holds a part of it."""


@dataclass(frozen=True)
class WorkflowRun:
    """What GitHub says of a run of a workflow."""

    repository_id: int
    run_id: int
    event: str
    workflow: str
    """Path of its file in the repository."""
    ref: str
    """Where that file was taken from, for example ``refs/heads/main``."""
    attempt: int
    """From 1; a run that is started again keeps its number, and the files of its first start."""


class WorkflowTokens:
    """Checks tokens of one GitHub that were made for us.

    Args:
        issuer: whose keys count. Tokens that name an enterprise after it are signed with the same ones.
        audience: our own address, as the runs ask for it.
    """

    def __init__(self, issuer: str, audience: str) -> None:
        self._issuer = issuer
        self._audience = audience
        self._keys: Mapping[str, jwt.PyJWK] = {}
        self._read_at = float("-inf")

    async def verify(self, token: str) -> WorkflowRun:
        """Who sent ``token``.

        Raises:
            IdentityRefused: the signature or a claim is wrong.
            RetryLater: GitHub's keys can't be had.
        """
        try:
            key = await self._key(str(jwt.get_unverified_header(token).get("kid")))
            claims = jwt.decode(
                token,
                key,
                algorithms=["RS256"],
                audience=self._audience,
                leeway=_LEEWAY_S,
                options={"require": ["exp", "iat", "aud", "iss"]},
            )
            self._check_issuer(str(claims["iss"]))
            return _workflow_run(claims)
        except (jwt.PyJWTError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise IdentityRefused(
                "The identity token is not one that GitHub has made for a workflow to come here with",
                why=type(error).__name__,
            ) from error

    def _check_issuer(self, named: str) -> None:
        if not (named.startswith(self._issuer) and _ENTERPRISE.fullmatch(named.removeprefix(self._issuer))):
            raise jwt.InvalidIssuerError

    async def _key(self, name: str) -> jwt.PyJWK:
        age = time.monotonic() - self._read_at
        if age > _KEYS_LIVE_S or (name not in self._keys and age > _ASK_AGAIN_S):
            self._read_at = time.monotonic()
            self._keys = await self._read()
        elif name not in self._keys:
            raise RetryLater("The key of an identity token was not among GitHub's a moment ago")
        return self._keys[name]

    async def _read(self) -> Mapping[str, jwt.PyJWK]:
        url = f"{self._issuer}/.well-known/jwks"
        try:
            async with httpx.AsyncClient(
                timeout=10.0, verify=tls(), proxy=proxy_for(url), trust_env=False, follow_redirects=False
            ) as http:
                answer = (await http.get(url)).raise_for_status().json()
            keys = jwt.PyJWKSet.from_dict(answer).keys
        except (httpx.HTTPError, jwt.PyJWTError, ValueError, AttributeError) as error:
            raise RetryLater("GitHub's keys for identity tokens can't be read", why=type(error).__name__) from error
        return {key.key_id: key for key in keys if key.key_id}


def _workflow_run(claims: Mapping[str, Any]) -> WorkflowRun:
    name, _, ref = str(claims["workflow_ref"]).partition("@")
    _owner, _repository, workflow = name.split("/", 2)
    return WorkflowRun(
        repository_id=int(claims["repository_id"]),
        run_id=int(claims["run_id"]),
        event=str(claims["event_name"]),
        workflow=workflow,
        ref=ref,
        attempt=int(claims["run_attempt"]),
    )
