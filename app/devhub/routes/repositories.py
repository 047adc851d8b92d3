"""Repositories and who may do what in them."""

from __future__ import annotations

from app.devhub.auth import permission_of
from app.devhub.errors import known
from app.devhub.rest import Answer, Call, read
from app.devhub.shapes import accounts

# What the five levels are called in the older field of the same answer.
LEGACY = {"triage": "read", "maintain": "write"}


def get_repository(call: Call) -> Answer:
    return Answer(accounts.full_repository(call.hub, call.repository, level=_level(call)))


def _level(call: Call) -> str:
    if call.actor is None:
        return "read"
    if call.actor.app:
        return "write"
    return permission_of(call.hub.store, call.repository, call.actor.user) or "read"


def get_permission(call: Call) -> Answer:
    """A person's permission as of now; ``none`` for people who have none."""
    user = known(call.hub.user(call.path["username"]))
    level = permission_of(call.hub.store, call.repository, user)
    shape = {
        **accounts.user(call.hub, user),
        "permissions": accounts.permissions(level),
        "role_name": level or "none",
    }
    permission = LEGACY.get(level, level) if level else "none"
    return Answer({"permission": permission, "role_name": level or "none", "user": shape})


OPERATIONS = (
    read("/repos/{owner}/{repo}", get_repository, "metadata"),
    read("/repos/{owner}/{repo}/collaborators/{username}/permission", get_permission, "metadata"),
)
