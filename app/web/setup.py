"""The page from which a person has GitHub make the App; its key is kept when the browser comes back.

It is served on this machine for as long as that takes. Only the browser that was sent from here comes back with the
state that is expected.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, Response
from starlette.routing import Route

from agent.errors import GraftsmithError
from app.addresses import GitHubAddresses
from app.github import manifest
from app.github.manifest import NewApp

_HERE = Path(__file__).parent
_REASONS = {
    "actions": "start the workflow that carries runs out",
    "checks": "show beside a commit what came of it",
    "contents": "read the code, commit to branches",
    "issues": "read issues, write its comments",
    "metadata": "know the repository and who may write to it",
    "pull_requests": "open and update pull requests, answer reviews",
    "workflows": "change files in .github/workflows",
}
"""What each permission of the App is for."""


@dataclass(frozen=True)
class Wish:
    """The App that is to be made.

    Args:
        github: the one that is to make it.
        organization: whose App it becomes; empty for the person's own.
        service_url: where the service will be reached.
        page_url: where the browser reaches this page.
        files: where its key and settings will be, for people.
    """

    name: str
    github: GitHubAddresses
    organization: str
    service_url: str
    page_url: str
    permissions: Mapping[str, str]
    events: Sequence[str]
    files: str


def application(wish: Wish, keep: Callable[[NewApp], None], done: Callable[[], None]) -> Starlette:
    """The page.

    Args:
        keep: stores the App; may raise a ``GraftsmithError``, which the page shows.
        done: called when it is stored, and the page has been sent.
    """
    page = _Page(wish, keep, done)
    style = FileResponse(_HERE / "setup.css", media_type="text/css")
    return Starlette(routes=[Route("/", page.begin), Route("/created", page.created), Route("/setup.css", style)])


class _Page:
    def __init__(self, wish: Wish, keep: Callable[[NewApp], None], done: Callable[[], None]) -> None:
        self._wish = wish
        self._keep = keep
        self._done = done
        self._state = secrets.token_urlsafe(24)
        self._template = Environment(
            loader=FileSystemLoader(_HERE),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        ).get_template("setup.html")

    async def begin(self, _request: Request) -> Response:
        wish = self._wish
        wanted = manifest.manifest(
            wish.name,
            service_url=wish.service_url,
            back_url=f"{wish.page_url}/created",
            permissions=wish.permissions,
            events=wish.events,
        )
        return self._shown(
            "A GitHub App of your own",
            form=manifest.form_url(wish.github.web, wish.organization, self._state),
            manifest=json.dumps(wanted),
            permissions=[
                (name.replace("_", " "), level, _REASONS[name]) for name, level in sorted(wish.permissions.items())
            ],
            events=", ".join(name.replace("_", " ") for name in sorted(wish.events)),
            webhook=f"{wish.service_url}/webhooks",
        )

    async def created(self, request: Request) -> Response:
        given = request.query_params
        if not secrets.compare_digest(given.get("state", "").encode(), self._state.encode()):
            return self._shown(
                "Not from here", 403, problem="This link belongs to another start of the set-up: begin anew."
            )
        try:
            made = await manifest.taken_up(self._wish.github.api, given.get("code", ""))
            await asyncio.to_thread(self._keep, made)
        except GraftsmithError as error:
            return self._shown("That did not work", 502, problem=str(error))
        asyncio.get_running_loop().call_later(0.5, self._done)
        return self._shown(f"{made.slug} is there", installed_at=f"{made.html_url}/installations/new")

    def _shown(self, title: str, status: int = 200, **values: object) -> Response:
        usual = {"form": "", "installed_at": "", "problem": "", "files": self._wish.files}
        policy = (
            "default-src 'none'; style-src 'self'; base-uri 'none'; frame-ancestors 'none'; "
            f"form-action 'self' {self._wish.github.web}"
        )
        headers = {"content-security-policy": policy, "referrer-policy": "no-referrer", "cache-control": "no-store"}
        return HTMLResponse(self._template.render(title=title, **{**usual, **values}), status, headers)
