"""Accounts: people, organisations and the bots of Apps."""

from __future__ import annotations

from app.devhub.hub import Hub
from app.devhub.records import FormerName, Repository, User


def user(hub: Hub, login: str, *, type: str = "User", email: str | None = None) -> User:
    """The user of this name, made if there is none. ``type``: ``User``, ``Organization`` or ``Bot``."""
    with hub.store.transaction():
        mail = email or (f"{login}@example.com" if type == "User" else None)
        return hub.user(login) or hub.store.add(User(login=login, type=type, email=mail, created_at=hub.stamp()))


def keep_name(hub: Hub, repository: Repository) -> None:
    """Let what a repository is called now lead to it when it is called otherwise."""
    hub.store.add(FormerName(full_name=hub.full_name(repository).lower(), repository_id=repository.id))


def rename(hub: Hub, found: User, login: str) -> User:
    """Give an account another name; the old names of its repositories lead to them."""
    with hub.store.transaction():
        for repository in hub.store.find(Repository, owner_id=found.id):
            keep_name(hub, repository)
        return hub.store.change(found, login=login)
