"""Refusals in the shapes of GitHub's REST API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from agent.errors import UserError

T = TypeVar("T")

DOCS = "https://docs.github.com/rest"


class Refused(UserError):
    """Ends a request with an error status.

    Args:
        status: the HTTP status.
        message: GitHub's own words where we know them.
        errors: entries of a 422 answer.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        errors: tuple[Mapping[str, Any] | str, ...] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        details = [entry if isinstance(entry, str) else str(entry.get("message", dict(entry))) for entry in errors]
        super().__init__(message, why="; ".join(details))
        self.status = status
        self.errors = errors
        self.headers = headers or {}

    def body(self) -> dict[str, Any]:
        found: dict[str, Any] = {"message": self.what, "documentation_url": DOCS, "status": str(self.status)}
        return {**found, "errors": list(self.errors)} if self.errors else found


class Moved(Refused):
    """What was asked for is at another place.

    Args:
        path: of the REST API or of the pages, whichever was asked.
    """

    def __init__(self, path: str) -> None:
        super().__init__(301, "Moved Permanently")
        self.path = path


def not_found() -> Refused:
    return Refused(404, "Not Found")


def known(found: T | None) -> T:
    """What was looked for; 404 where it is not there."""
    if found is None:
        raise not_found()
    return found


def invalid(resource: str, field: str, code: str = "invalid", message: str = "") -> Refused:
    """422 for one field. ``code``: ``missing_field``, ``invalid``, ``already_exists`` or ``custom`` with a message."""
    entry = {"resource": resource, "field": field, "code": code}
    return Refused(422, "Validation Failed", errors=({**entry, "message": message} if message else entry,))


def forbidden() -> Refused:
    return Refused(403, "Resource not accessible by integration")
