"""The pages that a person reads and clicks: repositories, issues, pull requests.

A page acts as the person chosen in its head line (a cookie). There are no accounts: whoever reaches the port is
trusted; other web sites are not, so a form that comes from one is refused.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from urllib.parse import urlsplit

from anyio.to_thread import run_sync
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from app.devhub.errors import Moved, Refused, not_found
from app.devhub.hub import Hub
from app.devhub.pages.acting import BUTTONS, Form
from app.devhub.pages.reading import PAGES
from app.devhub.pages.visit import Visit

Read = Callable[[Visit], Response]
Act = Callable[[Visit, Form], Response]
Endpoint = Callable[[Request], Awaitable[Response]]


def pages(hub: Hub) -> ASGIApp:
    """The pages of a hub as an ASGI application."""
    templates = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters["time"] = lambda at: at.replace("T", " ").removesuffix("Z")

    def reading(read: Read) -> Endpoint:
        async def endpoint(request: Request) -> Response:
            return await run_sync(read, Visit(hub, templates, request))

        return endpoint

    def acting(act: Act) -> Endpoint:
        async def endpoint(request: Request) -> Response:
            form = {name: _lines(value) for name, value in (await request.form()).items() if isinstance(value, str)}

            def work() -> Response:
                with hub.store.transaction():
                    return act(Visit(hub, templates, request), form)

            return await run_sync(work)

        return endpoint

    router = Router(
        [
            *(Route(path, acting(act), methods=["POST"]) for path, act in BUTTONS.items()),
            *(Route(path, reading(read)) for path, read in PAGES.items()),
        ],
        default=_nowhere,
    )
    return _refusing(router, lambda request: Visit(hub, templates, request))


async def _nowhere(_scope: Scope, _receive: Receive, _send: Send) -> None:
    raise not_found()


def _lines(text: str) -> str:
    """Forms send CRLF; texts have LF."""
    return text.replace("\r\n", "\n")


def _refusing(app: ASGIApp, visit: Callable[[Request], Visit]) -> ASGIApp:
    """``app`` with refusals as pages, and with the forms of other sites refused."""

    async def refusing(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            if not _same_site(Request(scope)):
                raise Refused(403, "This form came from another site.")
            await app(scope, receive, send)
        except Moved as moved:
            await RedirectResponse(moved.path, 303)(scope, receive, send)
        except Refused as refused:
            await (await run_sync(visit(Request(scope)).refused, refused))(scope, receive, send)

    return refusing


def _same_site(request: Request) -> bool:
    """Browsers say where a form was; programs say nothing."""
    origin = request.headers.get("origin")
    read_only = request.method in ("GET", "HEAD")
    return read_only or origin is None or urlsplit(origin).netloc == request.headers.get("host")
