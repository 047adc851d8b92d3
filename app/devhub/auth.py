"""Who asks, and what may they do.

Three kinds of caller: an App with its JWT, an installation with its token, a person with a token. Everything is
refused unless a table says otherwise: each operation names the permission that it needs.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jwt

from app.devhub.errors import Refused, forbidden, not_found
from app.devhub.gitobjects import stamp
from app.devhub.records import App, Collaborator, Installation, Repository, Token, User
from app.devhub.store import Store

JWT_SECONDS = 600
TOKEN_SECONDS = 3600
LEVELS = {"read": 1, "triage": 2, "write": 3, "maintain": 4, "admin": 5}
"""Permissions of a person on a repository, weakest first."""


@dataclass(frozen=True)
class Actor:
    """The caller. ``user`` is who it counts as: a person, or the App's bot account."""

    user: User
    app: App | None = None
    installation: Installation | None = None
    token: Token | None = None

    @property
    def app_id(self) -> int | None:
        """The App that things made by this caller are marked with."""
        return self.app.id if self.app else None


def new_token(store: Store, prefix: str, now: float, **fields: Any) -> tuple[str, Token]:
    """Make a token; its text exists only in the answer. ``now`` in seconds; ``expires`` after an hour for Apps."""
    secret = f"{prefix}_{secrets.token_urlsafe(60 + secrets.randbelow(30))}"
    expires = now + TOKEN_SECONDS if prefix == "ghs" else None
    return secret, store.add(Token(digest=_digest(secret), expires_at=expires, **fields))


def identify(store: Store, header: str | None, now: float) -> Actor | None:
    """The caller behind an ``Authorization`` header; ``None`` without one; 401 for a bad one."""
    if not header:
        return None
    scheme, _, value = header.partition(" ")
    value = value.strip()
    if scheme.lower() == "bearer" and value.count(".") == 2 and not value.startswith(("ghs_", "ghp_")):
        return _app(store, value, now)
    if scheme.lower() in ("bearer", "token"):
        return by_token(store, value, now)
    raise _bad_credentials()


def by_token(store: Store, value: str, now: float) -> Actor:
    """The caller behind an installation's or a person's token; 401 if it is unknown or expired."""
    token = store.first(Token, digest=_digest(value))
    if token is None or (token.expires_at is not None and token.expires_at <= now):
        raise _bad_credentials()
    if token.installation_id is None:
        assert token.user_id is not None
        return Actor(store.get(User, token.user_id), token=token)
    installation = store.first(Installation, id=token.installation_id)
    if installation is None:
        raise _bad_credentials()
    if installation.suspended_at:
        raise Refused(403, "This installation has been suspended")
    app = store.get(App, installation.app_id)
    return Actor(store.get(User, app.bot_id), app, installation, token)


def _digest(value: str) -> str:
    return hashlib.sha256(value.encode("utf-8", "surrogateescape")).hexdigest()


def _bad_credentials() -> Refused:
    return Refused(401, "Bad credentials")


# ── App JWT ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _app(store: Store, value: str, now: float) -> Actor:
    try:
        claims = jwt.decode(value, options={"verify_signature": False})
    except jwt.InvalidTokenError as error:
        raise Refused(401, "A JSON web token could not be decoded") from error
    app = _issuer(store, claims.get("iss"))
    try:
        # The times are judged below, by the hub's clock and in GitHub's words.
        jwt.decode(
            value,
            app.public_key,
            algorithms=["RS256"],
            options={"verify_exp": False, "verify_iat": False, "verify_nbf": False},
        )
    except jwt.InvalidTokenError as error:
        raise Refused(401, "A JSON web token could not be decoded") from error
    _check_times(claims, now)
    return Actor(store.get(User, app.bot_id), app)


def _issuer(store: Store, issuer: object) -> App:
    name = str(issuer)
    app = store.first(App, id=int(name)) if re.fullmatch("[0-9]{1,18}", name) else None
    if app is None:
        app = next((app for app in store.find(App) if client_id(app) == issuer), None)
    if app is None:
        raise Refused(404, "Integration not found")
    return app


def client_id(app: App) -> str:
    return f"Iv23li{app.id:014d}"


def _check_times(claims: Mapping[str, Any], now: float) -> None:
    """GitHub's three rules, in its words."""
    issued, expires = claims.get("iat"), claims.get("exp")
    if type(expires) is not int:
        raise Refused(401, "'Expiration time' claim ('exp') must be a numeric value representing the future time")
    if type(issued) is not int or issued > now:
        raise Refused(
            401, "'Issued at' claim ('iat') must be an Integer representing the time that the assertion was issued"
        )
    if expires <= now:
        raise Refused(401, "'Expiration time' claim ('exp') must be a numeric value representing the future time")
    if expires - now > JWT_SECONDS:
        raise Refused(401, "'Expiration time' claim ('exp') is too far in the future")


# ── what may they do ─────────────────────────────────────────────────────────────────────────────────────────────


def permission_of(store: Store, repository: Repository, user: User) -> str | None:
    """A person's permission on a repository: ``read`` … ``admin``, or ``None``. A public repository gives ``read``."""
    if user.id == repository.owner_id:
        return "admin"
    found = store.first(Collaborator, repository_id=repository.id, user_id=user.id)
    if found:
        return found.permission
    return None if repository.private else "read"


def sees(store: Store, actor: Actor | None, repository: Repository) -> bool:
    """Whether the repository exists for this caller."""
    if not repository.private:
        return True
    if actor is None:
        return False
    if actor.installation:
        return within(actor, repository)
    return actor.app is None and permission_of(store, repository, actor.user) is not None


def within(actor: Actor, repository: Repository) -> bool:
    """Whether the caller's installation and token cover the repository."""
    assert actor.installation and actor.token
    if repository.owner_id != actor.installation.account_id:
        return False
    scopes = (actor.installation.repository_ids, actor.token.repository_ids)
    return all(scope is None or repository.id in scope for scope in scopes)


def require(store: Store, actor: Actor | None, repository: Repository, needs: tuple[str, ...], person: str) -> None:
    """Refuse unless the caller has one of ``needs`` (``issues:write``), or, as a person, the level ``person``."""
    if not sees(store, actor, repository):
        raise not_found()
    reading = person == "read" and all(need.endswith(":read") for need in needs)
    if reading and not repository.private:
        return
    if actor is None:
        raise Refused(401, "Requires authentication")
    if actor.installation:
        if not within(actor, repository) or not any(granted(actor, need) for need in needs):
            raise forbidden()
    elif LEVELS.get(permission_of(store, repository, actor.user) or "", 0) < LEVELS[person]:
        raise Refused(403, "Must have admin rights to Repository.")


def granted(actor: Actor, need: str) -> bool:
    """Whether an installation's token has a permission such as ``contents:write``."""
    assert actor.installation and actor.token
    name, _, level = need.partition(":")
    if name == "metadata":
        return True
    # What was taken from the installation since is gone from its tokens too.
    have = (actor.installation.permissions.get(name), actor.token.permissions.get(name))
    return all(value in (("read", "write", "admin") if level == "read" else ("write", "admin")) for value in have)


def expires_at(token: Token) -> str:
    assert token.expires_at is not None
    return stamp(token.expires_at)
