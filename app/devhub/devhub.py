"""The stand-in from Python: set the scene, act as a person, read back what came of it. For demos and tests.

Everything here may be called from any thread while the server runs; people act through the same code as the REST API,
so their actions are announced to the Apps.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from app.devhub import apps, auth, events, people, webhooks
from app.devhub.apps import PERMISSIONS as PERMISSIONS
from app.devhub.apps import AppKeys as AppKeys
from app.devhub.apps import new_key as new_key
from app.devhub.errors import known
from app.devhub.faults import Faults
from app.devhub.hub import Hub
from app.devhub.records import (
    App,
    Delivery,
    Installation,
    Repository,
    User,
)
from app.devhub.repo import Files as Files
from app.devhub.repo import Repo as Repo


class DevHub:
    """A stand-in in a folder.

    Args:
        state_dir: holds everything; what a folder of an earlier process holds is there again.
    """

    def __init__(self, state_dir: Path) -> None:
        self.hub = Hub(state_dir)

    @property
    def url(self) -> str:
        """Where people and git go."""
        return self.hub.base_url

    @property
    def api_url(self) -> str:
        """Where clients of the REST API go (``GITHUB_API_URL``)."""
        return self.hub.api("")

    @property
    def faults(self) -> Faults:
        return self.hub.faults

    def move_clock(self, seconds: float) -> None:
        """Let the hub's clock be ``seconds`` ahead of this machine's (negative: behind)."""
        self.hub.clock.offset = seconds

    def close(self) -> None:
        self.hub.close()

    # ── people ───────────────────────────────────────────────────────────────────────────────────────────────────

    def user(self, login: str, *, type: str = "User", email: str | None = None) -> User:
        """The user of this name, made if there is none. ``type``: ``User``, ``Organization`` or ``Bot``."""
        return people.user(self.hub, login, type=type, email=email)

    def rename_user(self, login: str, new: str) -> User:
        """Give an account another name; requests to the old names of its repositories are redirected."""
        return people.rename(self.hub, self.user(login), new)

    def token(self, login: str) -> str:
        """A personal token, for the REST API and for git."""
        user = self.user(login)
        secret, _ = auth.new_token(self.hub.store, "ghp", self.hub.clock.now(), user_id=user.id, permissions={})
        return secret

    # ── apps ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def create_app(
        self,
        *,
        webhook_url: str = "",
        private_key: str = "",
        permissions: Mapping[str, str] = PERMISSIONS,
        subscribed: tuple[str, ...] = apps.EVENTS,
    ) -> AppKeys:
        """Register an App; its key is made unless it is given."""
        return apps.new_app(
            self.hub, webhook_url=webhook_url, private_key=private_key, permissions=permissions, subscribed=subscribed
        )

    def set_webhook(self, app_id: int, url: str) -> None:
        """Where the App's deliveries go from now on; those that wait go there too."""
        self.hub.store.change(self.hub.store.get(App, app_id), webhook_url=url)

    def install(
        self,
        app_id: int,
        account: str,
        *,
        repositories: tuple[str, ...] | None = None,
        permissions: Mapping[str, str] | None = None,
    ) -> int:
        """Install an App on an account, for all or for named repositories; the answer is the installation's id."""
        with self.hub.store.transaction():
            app, owner = self.hub.store.get(App, app_id), self.user(account)
            names = {name.lower() for name in repositories or ()}
            owned = self.hub.store.find(Repository, owner_id=owner.id)
            chosen = tuple(found.id for found in owned if found.name.lower() in names)
            installation = self.hub.store.add(
                Installation(
                    app_id=app.id,
                    account_id=owner.id,
                    permissions=dict(app.permissions if permissions is None else permissions),
                    events=tuple(app.events),
                    repository_ids=None if repositories is None else chosen,
                    created_at=self.hub.stamp(),
                )
            )
            events.installed(self.hub, app, installation, owner)
            return installation.id

    def change_installation(self, installation_id: int, *, permissions: Mapping[str, str]) -> None:
        """Grant or take permissions; tokens that exist lose what is taken."""
        self.hub.store.change(self.hub.store.get(Installation, installation_id), permissions=dict(permissions))

    def suspend(self, installation_id: int) -> None:
        """Its tokens are refused, and nothing is told to the App any more."""
        self.hub.store.change(self.hub.store.get(Installation, installation_id), suspended_at=self.hub.stamp())

    def uninstall(self, installation_id: int) -> None:
        """Nothing of it is left; its tokens open nothing any more."""
        self.hub.store.remove(self.hub.store.get(Installation, installation_id))

    # ── deliveries ───────────────────────────────────────────────────────────────────────────────────────────────

    def deliveries(self, event: str | None = None, action: str | None = None) -> list[Delivery]:
        """Webhook requests, waiting and made, oldest first."""
        found = self.hub.store.find(Delivery)
        return [item for item in found if event in (None, item.event) and action in (None, item.action)]

    def redeliver(self, guid: str) -> Delivery:
        """Send an event once more: same GUID, same bytes."""
        return webhooks.redeliver(self.hub, guid)

    def deliver(self, app_id: int, event: str, payload: Mapping[str, object]) -> Delivery:
        """Send any payload to the App, signed like every other."""
        made = events.queue(self.hub, self.hub.store.get(App, app_id), event, payload)
        if made is None:
            raise ValueError("the App has no webhook; use set_webhook first")
        return made

    def settle(self, timeout_s: float = 30.0) -> None:
        """Wait until no delivery waits any more."""
        self.wait_for(lambda: all(item.delivered_at for item in self.deliveries()), timeout_s=timeout_s)

    def wait_for(self, condition: Callable[[], object], *, timeout_s: float = 30.0) -> None:
        """Wait until ``condition`` is true; ``TimeoutError`` after ``timeout_s``."""
        end = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > end:
                raise TimeoutError(f"still not true after {timeout_s} s")
            time.sleep(0.01)

    # ── repositories ─────────────────────────────────────────────────────────────────────────────────────────────

    def create_repository(
        self,
        full_name: str,
        files: Files | Path = {},  # noqa: B006 - never changed
        *,
        private: bool = True,
    ) -> Repo:
        """Make a repository of an owner, who is made if need be; with files, it has one commit."""
        with self.hub.store.transaction():
            owner, _, name = full_name.partition("/")
            repo = Repo.create(self.hub, owner, name, private=private, default_branch="main")
            if isinstance(files, Path):
                repo.commit_folder(files)
            elif files:
                repo.commit(files, message="Initial commit")
        return repo

    def repository(self, full_name: str) -> Repo:
        found = known(self.hub.repository(*full_name.split("/", 1)))
        return Repo(self.hub, found.id)
