"""What ties the stand-in together: records, git repositories, the clock, the faults, the way out for webhooks."""

from __future__ import annotations

import secrets
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from app.devhub.faults import Faults
from app.devhub.git import GitRepository
from app.devhub.gitobjects import stamp
from app.devhub.records import FormerName, Repository, User
from app.devhub.store import Store

API = "/api/v3"
"""Where the REST API is, as on a GitHub Enterprise Server; pages and git are at the root."""


class Clock:
    """The hub's idea of the time: the machine's, moved by ``offset`` seconds."""

    def __init__(self) -> None:
        self.offset = 0.0

    def now(self) -> float:
        return time.time() + self.offset


class Hub:
    """The state of one stand-in, kept in a folder; a new process continues where the last one ended.

    Args:
        state_dir: made if missing.
    """

    def __init__(self, state_dir: Path) -> None:
        self.state_dir = state_dir.absolute()
        (self.state_dir / "repositories").mkdir(parents=True, exist_ok=True)
        self.store = Store(self.state_dir / "devhub.sqlite")
        self.clock = Clock()
        self.secret = secrets.token_bytes(32)
        """Signs links that this process gives out."""
        self.app_codes: dict[str, tuple[int, str, float]] = {}
        """Code → an App that was made from a manifest, its key, and until when the code is good."""
        self.faults = Faults()
        self.base_url = "http://devhub.localhost"
        """Set when the server knows its port."""
        self.rate_limit = 5000
        """Requests that a token has in an hour."""
        self.delivery_timeout_s = 10.0
        """How long a webhook's receiver may take; GitHub's own limit."""
        self.wake: Callable[[], None] = lambda: None
        """Tells the sender of webhooks that something waits; set by whoever sends."""

    def stamp(self) -> str:
        """Now, as the API spells it."""
        return stamp(self.clock.now())

    def git(self, repository: Repository) -> GitRepository:
        return GitRepository(self.state_dir / "repositories" / f"{repository.id}.git")

    def owner(self, repository: Repository) -> User:
        return self.store.get(User, repository.owner_id)

    def full_name(self, repository: Repository) -> str:
        return f"{self.owner(repository).login}/{repository.name}"

    def repository(self, owner: str, name: str) -> Repository | None:
        """By name; upper and lower case are the same, as on GitHub."""
        for found in self.store.find(Repository):
            if self.full_name(found).lower() == f"{owner}/{name}".lower():
                return found
        return None

    def renamed(self, owner: str, name: str) -> Repository | None:
        """The repository that had this name before."""
        for former in reversed(self.store.find(FormerName, full_name=f"{owner}/{name}".lower())):
            found = self.store.first(Repository, id=former.repository_id)
            if found is not None:
                return found
        return None

    def user(self, login: str) -> User | None:
        found = (user for user in self.store.find(User) if user.login.lower() == login.lower())
        return next(found, None)

    def api(self, path: str) -> str:
        return f"{self.base_url}{API}{path}"

    def web(self, path: str) -> str:
        return f"{self.base_url}{path}"

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """A folder that is gone afterwards."""
        with tempfile.TemporaryDirectory(dir=self.state_dir, prefix="scratch-") as folder:
            yield Path(folder)

    def close(self) -> None:
        self.store.close()
