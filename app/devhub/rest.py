"""What an operation of the REST API is made of: what it is asked with, what it answers, who may ask."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from app.devhub.auth import Actor
from app.devhub.errors import Refused, known, not_found
from app.devhub.git import GitRepository
from app.devhub.hub import Hub
from app.devhub.records import Record, Repository

R = TypeVar("R", bound=Record)

JSON = "application/json; charset=utf-8"


@dataclass(frozen=True)
class Answer:
    """``body`` is JSON, or bytes of ``type``, or ``None`` for an empty answer."""

    body: Any = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    type: str = JSON


@dataclass(frozen=True)
class Page:
    """A list that the server cuts into pages. ``shape`` is called for what is shown only.

    With ``key`` the answer is ``{"total_count": …, key: […]}``, with ``extra`` beside it.
    """

    items: Sequence[Any]
    shape: Callable[[Any], Any] = lambda item: item
    key: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)


class Body:
    """The JSON object of a request, read field by field; a wrong type is refused in GitHub's words."""

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self._fields = fields

    def __contains__(self, name: str) -> bool:
        return name in self._fields

    def text(self, name: str) -> str | None:
        return self._read(name, str, "a string")  # type: ignore[no-any-return]

    def required(self, name: str) -> str:
        if self._fields.get(name) is None:
            raise Refused(422, f'Invalid request.\n\n"{name}" wasn\'t supplied.')
        return str(self.text(name))

    def number(self, name: str) -> int | None:
        return self._read(name, int, "an integer")  # type: ignore[no-any-return]

    def flag(self, name: str) -> bool | None:
        return self._read(name, bool, "a boolean")  # type: ignore[no-any-return]

    def items(self, name: str) -> list[Any] | None:
        return self._read(name, list, "an array")  # type: ignore[no-any-return]

    def object(self, name: str) -> Body | None:
        found = self._read(name, dict, "an object")
        return None if found is None else Body(found)

    def objects(self, name: str) -> list[Body]:
        found = self.items(name) or []
        if not all(isinstance(item, dict) for item in found):
            raise Refused(422, f"Invalid request.\n\nFor 'properties/{name}', an item is not an object.")
        return [Body(item) for item in found]

    def raw(self) -> dict[str, Any]:
        return dict(self._fields)

    def _read(self, name: str, type: type, article: str) -> Any:
        value = self._fields.get(name)
        wrong = not isinstance(value, type) or (type is int and isinstance(value, bool))
        if value is not None and wrong:
            raise Refused(422, f"Invalid request.\n\nFor 'properties/{name}', {value!r} is not {article}.")
        return value


@dataclass(frozen=True)
class Call:
    """One request, as an operation sees it."""

    hub: Hub
    actor: Actor | None
    path: Mapping[str, str]
    query: Mapping[str, str]
    body: Body
    accept: str = ""
    found: Repository | None = None

    @property
    def repository(self) -> Repository:
        assert self.found is not None
        return self.found

    @property
    def git(self) -> GitRepository:
        return self.hub.git(self.repository)

    @property
    def caller(self) -> Actor:
        """The caller, who is known."""
        if self.actor is None:
            raise Refused(401, "Requires authentication")
        return self.actor

    def number(self, name: str) -> int:
        """A number out of the path; what is none does not exist."""
        value = self.path[name]
        if not value.isascii() or not value.isdigit() or len(value) > 18:
            raise not_found()
        return int(value)

    def commit(self, revision: str) -> str:
        """The id of the commit that a branch, a tag or an id stands for."""
        sha = self.git.resolve(revision)
        if sha is None:
            raise Refused(422, f"No commit found for SHA: {revision}")
        return sha

    def own(self, kind: type[R], name: str) -> R:
        """The record of the repository whose id is in the path."""
        return known(self.hub.store.first(kind, id=self.number(name), repository_id=self.repository.id))


Handler = Callable[[Call], "Answer | Page"]


@dataclass(frozen=True)
class Operation:
    """One operation: ``path`` as in GitHub's documentation, ``{name:path}`` where slashes belong to the value.

    ``who``: ``repository`` (then ``needs`` is checked), ``app`` (its JWT), ``installation`` (its token), ``known``
    (any caller) or ``anyone``. ``person`` is the level that a person needs instead of ``needs``.
    """

    method: str
    path: str
    handler: Handler
    needs: tuple[str, ...] = ()
    person: str = "write"
    who: Literal["repository", "app", "installation", "known", "anyone"] = "repository"

    @property
    def writes(self) -> bool:
        return self.method != "GET"


def read(path: str, handler: Handler, *needs: str) -> Operation:
    """A GET in a repository; ``needs`` are names of permissions (``issues``), any of which will do."""
    return Operation("GET", path, handler, tuple(f"{name}:read" for name in needs), person="read")


def write(method: str, path: str, handler: Handler, *needs: str, person: str = "write") -> Operation:
    """A change in a repository; as ``read``."""
    return Operation(method, path, handler, tuple(f"{name}:write" for name in needs), person=person)
