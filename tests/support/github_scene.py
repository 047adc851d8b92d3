"""An App installed on one repository of the stand-in, seen through the real client."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from githubkit import AppAuthStrategy, AppInstallationAuthStrategy, GitHub, TokenAuthStrategy
from githubkit.cache import MemCacheStrategy
from githubkit.exception import RequestFailed

from app.devhub.devhub import AppKeys, DevHub, Repo
from app.private_key import checked_key

OWNER, NAME = "acme", "widget"
FILES = {
    "README.md": "# Widget\n",
    "src/widget.py": "def total(items):\n    return sum(items[1:])\n",
    ".github/workflows/agent.yml": "on:\n  workflow_dispatch:\n",
    ".github/workflows/ci.yml": "on: push\n",
}


@dataclass(frozen=True)
class Scene:
    """``acme/widget`` with a few files, ``alice`` who may write, and an App that is installed."""

    hub: DevHub
    repo: Repo
    keys: AppKeys
    installation: int

    _clients: list[GitHub] = field(default_factory=list)
    """Kept alive, because what a client hands out does not do that."""

    @property
    def _key(self) -> Any:
        """As githubkit hands it on to be signed with; it would check a text again for each client."""
        return checked_key(self.keys.private_key)

    def client(self, auth: object) -> GitHub:
        # A cache of its own: the client's default one is shared by the process and does not know base URLs.
        made = GitHub(
            auth,  # type: ignore[arg-type]
            base_url=f"{self.hub.api_url}/",
            auto_retry=False,
            http_cache=False,
            cache_strategy=MemCacheStrategy(),
            timeout=30,
            ssl_verify=False,  # everything is on loopback, and reading the certificates takes longer than a request
        )
        self._clients.append(made)
        return made

    def as_app(self) -> GitHub:
        return self.client(AppAuthStrategy(self.keys.id, self._key))

    def as_installation(self, **token: object) -> GitHub:
        """``token``: ``permissions``, ``repositories`` or ``repository_ids`` to ask for less."""
        strategy = AppInstallationAuthStrategy(
            self.keys.id,
            self._key,
            self.installation,
            **token,  # type: ignore[arg-type]
        )
        return self.client(strategy)

    def as_person(self, login: str) -> GitHub:
        return self.client(TokenAuthStrategy(self.hub.token(login)))


def set_up(hub: DevHub, key: str, *, webhook_url: str = "", private: bool = True) -> Scene:
    """Make the scene. ``key`` is the App's private key."""
    repo = hub.create_repository(f"{OWNER}/{NAME}", FILES, private=private)
    repo.permit("alice", "write")
    keys = hub.create_app(private_key=key, webhook_url=webhook_url)
    return Scene(hub, repo, keys, hub.install(keys.id, OWNER))


def refusal(failed: pytest.ExceptionInfo[RequestFailed]) -> tuple[int, str]:
    """Status and message of a request that was refused."""
    response = failed.value.response
    return response.status_code, response.json()["message"]
