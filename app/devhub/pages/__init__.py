"""The pages that a person reads and clicks."""

from __future__ import annotations

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp

from app.devhub.hub import Hub


def pages(hub: Hub) -> ASGIApp:
    """The pages of a hub as an ASGI application."""
    return PlainTextResponse("not found", 404)
