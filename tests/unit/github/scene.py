"""A repository on the stand-in for GitHub, and our client for it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from app.devhub.devhub import PERMISSIONS, AppKeys, DevHub, Files, Repo
from app.github import Access, GitHubApp, Repository

T = TypeVar("T")
FILES: Files = {
    "README.md": "# Widget\n",
    "src/widget.py": "def double(x):\n    return x + x + 1\n",
    "tests/test_widget.py": "def test_nothing():\n    assert True\n",
}


@dataclass(frozen=True)
class Scene:
    """``repo`` is how people see it, ``repository`` (inside ``run``) how the App does."""

    devhub: DevHub
    keys: AppKeys
    installation: int
    repo: Repo

    def app(self) -> GitHubApp:
        return GitHubApp(self.keys.id, self.keys.private_key, self.devhub.api_url, backoff_s=(0.01, 0.02))

    def run(self, work: Callable[[Repository], Awaitable[T]], access: Access = Access.WRITE) -> T:
        """``work`` in an event loop of its own, with a client that knows nothing of earlier ones."""

        async def main() -> T:
            app = self.app()
            try:
                return await work(app.repository(self.installation, self.repo.id, access))
            finally:
                await app.aclose()

        return asyncio.run(main())

    def run_app(self, work: Callable[[GitHubApp], Awaitable[T]]) -> T:
        async def main() -> T:
            app = self.app()
            try:
                return await work(app)
            finally:
                await app.aclose()

        return asyncio.run(main())


def scene(
    devhub: DevHub,
    key: str,
    files: Files = FILES,
    permissions: Mapping[str, str] = PERMISSIONS,
    name: str = "acme/widget",
) -> Scene:
    keys = devhub.create_app(private_key=key, permissions=permissions)
    repo = devhub.create_repository(name, files)
    return Scene(devhub, keys, devhub.install(keys.id, name.split("/")[0]), repo)
