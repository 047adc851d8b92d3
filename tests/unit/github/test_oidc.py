"""Identity tokens of workflow runs, against a server that publishes keys as GitHub does."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from agent.errors import RetryLater
from app.github import IdentityRefused, WorkflowRun, WorkflowTokens

US = "https://graftsmith.example"
KEYS = {name: rsa.generate_private_key(public_exponent=65537, key_size=2048) for name in ("old", "new")}


@dataclass
class Issuer:
    """``keys`` are the names of those that it publishes; ``None``: it does not answer."""

    url: str = ""
    keys: tuple[str, ...] | None = ("old",)
    asked: list[str] = field(default_factory=list)

    def token(self, key: str = "old", **claims: Any) -> str:
        """A good one, but for ``claims``; those that are ``None`` are left out."""
        now = int(time.time())
        good = {
            "iss": self.url,
            "aud": US,
            "iat": now,
            "nbf": now,
            "exp": now + 300,
            "repository_id": "7",
            "run_id": "42",
            "run_attempt": "1",
            "event_name": "workflow_dispatch",
            "workflow_ref": "acme/widget/.github/workflows/graftsmith.yml@refs/heads/main",
        }
        kept = {name: value for name, value in {**good, **claims}.items() if value is not None}
        return jwt.encode(kept, KEYS[key], "RS256", headers={"kid": key})


@contextmanager
def publishing() -> Iterator[Issuer]:
    issuer = Issuer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            issuer.asked.append(self.path)
            names = issuer.keys or ()
            keys = [{**json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(KEYS[n].public_key())), "kid": n} for n in names]
            body = json.dumps({"keys": keys}).encode()
            self.send_response(503 if issuer.keys is None else 200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing on the terminal."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        issuer.url = f"http://127.0.0.1:{server.server_address[1]}"
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield issuer
        server.shutdown()


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with publishing() as made:
        yield made


def verified(tokens: WorkflowTokens, token: str) -> WorkflowRun:
    return asyncio.run(tokens.verify(token))


def test_a_token_says_which_run_it_is(issuer: Issuer) -> None:
    tokens = WorkflowTokens(issuer.url, US)
    run = WorkflowRun(7, 42, "workflow_dispatch", ".github/workflows/graftsmith.yml", "refs/heads/main", 1)
    skewed = int(time.time()) + 40
    for more in (
        {},
        {"iss": f"{issuer.url}/acme-inc"},
        {"aud": ["x", US]},
        {"iat": skewed, "nbf": skewed},
        {"exp": skewed - 80},
    ):
        assert verified(tokens, issuer.token(**more)) == run
    assert verified(tokens, issuer.token(run_attempt="2")) != run
    at = {"workflow_ref": "acme/widget/.github/workflows/a@b.yml@refs/heads/x@y"}
    assert verified(tokens, issuer.token(**at)).workflow != run.workflow
    assert issuer.asked == ["/.well-known/jwks"], "once for all"


@pytest.mark.parametrize(
    "claims",
    [
        {"iss": "https://github.com"},
        {"iss": "{}.example"},
        {"iss": "{}/acme/.."},
        {"aud": f"{US}/"},
        {"aud": None},
        {"exp": 1_000_000_000},
        {"exp": None},
        {"iat": None},
        {"nbf": 4_000_000_000},
        {"iat": 4_000_000_000},
        {"repository_id": None},
        {"repository_id": "seven"},
        {"run_id": []},
        {"run_attempt": None},
        {"workflow_ref": "graftsmith.yml"},
    ],
    ids=str,
)
def test_a_token_with_another_claim_says_nothing(issuer: Issuer, claims: dict[str, Any]) -> None:
    told = {name: value.format(issuer.url) if isinstance(value, str) else value for name, value in claims.items()}
    with pytest.raises(IdentityRefused):
        verified(WorkflowTokens(issuer.url, US), issuer.token(**told))


def test_what_is_no_token_is_refused_without_asking_anybody(issuer: Issuer) -> None:
    deep = base64.urlsafe_b64encode(b"[" * 20_000).decode()
    for word in ("", "x", "a.b.c", f"{deep}.e30.e30", "\ud800.e30.e30"):
        with pytest.raises(IdentityRefused):
            verified(WorkflowTokens(issuer.url, US), word)
    assert not issuer.asked


def test_keys_are_read_again_when_they_change_and_not_for_everybody(issuer: Issuer) -> None:
    tokens = WorkflowTokens(issuer.url, US)
    with pytest.raises(IdentityRefused):
        verified(tokens, issuer.token("new"))
    issuer.keys = ("old", "new")
    with pytest.raises(RetryLater):  # whoever names a key that is not there can't have us ask at once
        verified(tokens, issuer.token("new"))
    assert verified(tokens, issuer.token("old")).run_id == 42
    assert len(issuer.asked) == 1


def test_without_the_keys_nothing_is_decided(issuer: Issuer) -> None:
    tokens, issuer.keys = WorkflowTokens(issuer.url, US), None
    for _ in range(2):
        with pytest.raises(RetryLater):
            verified(tokens, issuer.token())
    assert len(issuer.asked) == 1
