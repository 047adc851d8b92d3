"""The primary rate limit: so many requests an hour for each caller, told in every answer."""

from __future__ import annotations

from app.devhub.auth import Actor
from app.devhub.errors import Refused
from app.devhub.hub import Hub

HOUR = 3600


class RateLimit:
    """Counts requests by caller and clock hour."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._used: dict[tuple[str, int], int] = {}

    def spend(self, actor: Actor | None, *, free: bool = False) -> dict[str, str]:
        """Count one request; the answer is its headers. 403 when nothing is left."""
        key = (_name(actor), self._hour())
        used = self._used.get(key, 0) + (0 if free else 1)
        headers = self._headers(min(used, self._hub.rate_limit))
        if used > self._hub.rate_limit:
            raise Refused(403, f"API rate limit exceeded for {key[0]}.", headers=headers)
        self._used = {kept: count for kept, count in self._used.items() if kept[1] == key[1]} | {key: used}
        return headers

    def _hour(self) -> int:
        return int(self._hub.clock.now()) // HOUR

    def _headers(self, used: int) -> dict[str, str]:
        return {
            "x-ratelimit-limit": str(self._hub.rate_limit),
            "x-ratelimit-remaining": str(self._hub.rate_limit - used),
            "x-ratelimit-used": str(used),
            "x-ratelimit-reset": str((self._hour() + 1) * HOUR),
            "x-ratelimit-resource": "core",
        }

    def overview(self, actor: Actor | None) -> dict[str, object]:
        """The body of ``GET /rate_limit``."""
        used = self._used.get((_name(actor), self._hour()), 0)
        core = {
            "limit": self._hub.rate_limit,
            "used": used,
            "remaining": max(self._hub.rate_limit - used, 0),
            "reset": (self._hour() + 1) * HOUR,
        }
        return {"resources": {"core": core, "search": core}, "rate": core}


def _name(actor: Actor | None) -> str:
    if actor is None:
        return "anonymous"
    if actor.installation:
        return f"installation ID {actor.installation.id}"
    return f"app ID {actor.app.id}" if actor.app else f"user ID {actor.user.id}"
