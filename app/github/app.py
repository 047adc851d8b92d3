"""The App's identity: its JWT, and short-lived tokens for single repositories."""

from __future__ import annotations

import asyncio
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum

from githubkit.auth import TokenAuthStrategy

from agent.errors import OperatorError, UserError
from app.github.api import Api, AsApp, Client, Connections, client, path
from app.github.errors import NotFound, Rejected
from app.github.models import AppFacts, Installation, Token
from app.github.place import Place
from app.github.repository import Repository

_EARLY_S = 300.0  # a token is replaced this long before it ends, so that no long call outlives it


class Access(Enum):
    """What a token may do; never more than its use needs."""

    FETCH = ("contents:read",)
    TELL = ("issues:write",)
    READ = ("contents:read", "issues:read", "pull_requests:read", "checks:read")
    WRITE = ("contents:write", "issues:write", "pull_requests:write", "checks:write")
    WRITE_WORKFLOWS = (*WRITE, "workflows:write")
    ACTIONS = ("actions:write",)

    @property
    def permissions(self) -> Mapping[str, str]:
        return {"metadata": "read"} | dict(item.split(":") for item in self.value)

    def missing(self, granted: Mapping[str, str]) -> Sequence[str]:
        """What ``granted`` lacks, as ``checks: write``."""
        return [
            f"{name}: {level}"
            for name, level in self.permissions.items()
            if _LEVELS.index(granted.get(name, "")) < _LEVELS.index(level)
        ]


_LEVELS = ("", "read", "write", "admin")


@dataclass(frozen=True)
class GitAccess:
    """How git fetches: HTTP basic auth with a token that can only read. Hand it over outside of URLs and arguments."""

    url: str
    token: str = field(repr=False)
    username: str = "x-access-token"


class GitHubApp:
    """One App on one GitHub.

    Args:
        app_id: the App's number.
        private_key: PEM text.
        api_url: ``https://api.github.com`` or ``https://HOST/api/v3``.
        backoff_s: pauses before repeated requests.
        silence_s: how long an answer is waited for.
        redact: takes secrets out of every text for people that we send; our own tokens are taken out anyway.
    """

    def __init__(
        self,
        app_id: int,
        private_key: str,
        api_url: str,
        *,
        backoff_s: Sequence[float] = (1.0, 3.0),
        silence_s: float = 30.0,
        redact: Callable[[str], str] = str,
    ) -> None:
        self._auth = AsApp(app_id, private_key)
        self.app_id = app_id
        self._api_url = api_url
        self._backoff_s = backoff_s
        self._silence_s = silence_s
        self._redact_more = redact
        self._tokens: dict[tuple[int, int, Access], Token] = {}
        self._homes: dict[int, int] = {}  # repository → the installation that it was transferred to
        # Sockets belong to the event loop that opened them.
        self._pools: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Connections] = weakref.WeakKeyDictionary()
        self._apps: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Client] = weakref.WeakKeyDictionary()
        self._api = Api(self._as_app, backoff_s)

    async def aclose(self) -> None:
        """Close this event loop's connections."""
        if pool := self._pools.pop(asyncio.get_running_loop(), None):
            await pool.close_all()

    def repository(self, installation_id: int, repository_id: int, access: Access = Access.WRITE) -> Repository:
        """The repository with this number, whatever it is called now. No request is made yet."""
        ids = (installation_id, repository_id, access)

        async def current(renew: bool) -> Client:
            token = await self._token(*ids, renew=renew)
            return client(TokenAuthStrategy(token.value), self._api_url, self._pool(), self._silence_s)

        async def name(renew: bool) -> str:
            found = (await self._token(*ids, renew=renew)).repositories
            if len(found) != 1 or found[0].id != repository_id:
                raise UserError("The repository is no longer part of the installation", todo="Install the App on it")
            return found[0].full_name

        api = Api(
            current,
            self._backoff_s,
            redact=self._redact,
            home=f"/repositories/{repository_id}",
            on_moved=lambda: self._forget(repository_id),
        )
        return Repository(Place(api, repository_id, self.app_id, name))

    def name_of(self, repository_id: int) -> str | None:
        """What the repository was called when it was last asked for; ``None`` where that is not known."""
        known = [repo for token in self._tokens.values() for repo in token.repositories if repo.id == repository_id]
        return known[-1].full_name if known else None

    async def git_access(self, installation_id: int, repository_id: int, *, renew: bool = False) -> GitAccess:
        """A read-only token for git, and the URL to use it with; good for at least five minutes.

        Args:
            renew: the one before was refused.
        """
        facts = await self.repository(installation_id, repository_id, Access.READ).facts()
        token = await self._token(installation_id, repository_id, Access.FETCH, renew=renew)
        return GitAccess(facts.clone_url, token.value)

    async def installation(self, installation_id: int, repository_id: int) -> Installation:
        """The repository's installation with the permissions that it was granted."""
        url = path("/app/installations/{id}", id=self._homes.get(repository_id, installation_id))
        return Installation.model_validate(await self._api.get(url, "read the installation"))

    async def me(self) -> AppFacts:
        """The App itself. The cheapest way to see that the credentials work."""
        return AppFacts.model_validate(await self._api.get("/app", "read its own data"))

    def secrets(self) -> frozenset[str]:
        """Tokens that are alive, so that they can be kept out of texts and changes by exact value."""
        return frozenset(token.value for token in self._tokens.values())

    def _redact(self, text: str) -> str:
        for secret in self.secrets():
            text = text.replace(secret, "[redacted]")
        return self._redact_more(text)

    # ── tokens ───────────────────────────────────────────────────────────────────────────────────────────────────

    async def _token(self, installation_id: int, repository_id: int, access: Access, *, renew: bool = False) -> Token:
        key = (installation_id, repository_id, access)
        known = self._tokens.get(key)
        if known is None or renew or _left_s(known) < _EARLY_S:
            self._tokens.pop(key, None)
            known = self._tokens[key] = await self._mint(installation_id, repository_id, access)
        return known

    def _forget(self, repository_id: int) -> None:
        """The repository has another name: the tokens say the old one."""
        for key in [key for key in self._tokens if key[1] == repository_id]:
            del self._tokens[key]

    async def _mint(self, installation_id: int, repository_id: int, access: Access) -> Token:
        """Of the installation that is known, or of the one that the repository was transferred to since."""
        home = self._homes.get(repository_id, installation_id)
        try:
            return await self._minted(home, repository_id, access)
        except UserError:
            there = await self._home(repository_id)
            if there is None or there == home:
                raise
            self._homes[repository_id] = there
            return await self._minted(there, repository_id, access)

    async def _home(self, repository_id: int) -> int | None:
        """The installation that has the repository now."""
        url = path("/repositories/{id}/installation", id=repository_id)
        try:
            return Installation.model_validate(await self._api.get(url, "find a repository's installation")).id
        except NotFound:
            return None

    async def _minted(self, installation_id: int, repository_id: int, access: Access) -> Token:
        url = path("/app/installations/{id}/access_tokens", id=installation_id)
        # The number, never the name: a repository that was renamed or transferred keeps it, another never has it.
        wanted = {"repository_ids": [repository_id], "permissions": dict(access.permissions)}
        try:
            answer = await self._api.send("POST", url, "get a token", json=wanted, harmless=True)
        except NotFound as error:
            raise UserError(
                "The App is not installed there any more", why=error.why, todo="Install it again"
            ) from error
        except Rejected as error:
            raise await self._not_granted(error, installation_id, access) from error
        return Token.model_validate(answer)

    async def _not_granted(self, error: Rejected, installation_id: int, access: Access) -> OperatorError | UserError:
        if "permission" in error.message.lower():
            url = path("/app/installations/{id}", id=installation_id)
            found = Installation.model_validate(await self._api.get(url, "read the installation"))
            return OperatorError(
                "The installation does not have all permissions that the App needs",
                why=f"Missing: {', '.join(access.missing(found.permissions))}",
                todo="Grant it in the App's settings under 'Permissions & events', then accept it for the installation",
            )
        return UserError(
            "The repository is not part of the installation",
            why=error.message,
            todo="Add the repository to the App's installation, if it still exists there",
        )

    async def _as_app(self, renew: bool) -> Client:
        """A client keeps the token that it has signed for some minutes, also when the clock was set right meanwhile."""
        loop = asyncio.get_running_loop()
        if renew or loop not in self._apps:
            self._apps[loop] = client(self._auth, self._api_url, self._pool(), self._silence_s)
        return self._apps[loop]

    def _pool(self) -> Connections:
        loop = asyncio.get_running_loop()
        if loop not in self._pools:
            self._pools[loop] = Connections(self._api_url)
        return self._pools[loop]


def _left_s(token: Token) -> float:
    return datetime.fromisoformat(token.expires_at.replace("Z", "+00:00")).timestamp() - time.time()
