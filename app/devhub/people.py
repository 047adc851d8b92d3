"""Accounts: people, organisations and the bots of Apps."""

from __future__ import annotations

from app.devhub.hub import Hub
from app.devhub.records import User


def user(hub: Hub, login: str, *, type: str = "User", email: str | None = None) -> User:
    """The user of this name, made if there is none. ``type``: ``User``, ``Organization`` or ``Bot``."""
    with hub.store.transaction():
        mail = email or (f"{login}@example.com" if type == "User" else None)
        return hub.user(login) or hub.store.add(User(login=login, type=type, email=mail, created_at=hub.stamp()))
