"""``/healthz``: the process answers. ``/readyz``: it can take deliveries and moves jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from sqlalchemy.exc import DBAPIError
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route


def routes(ping: Callable[[], None], healthy: Callable[[], bool]) -> list[Route]:
    """
    Args:
        ping: raises ``DBAPIError`` when the job database does not answer; may block.
        healthy: whether jobs are moved.
    """

    async def healthz(_request: Request) -> Response:
        return PlainTextResponse("ok")

    async def readyz(_request: Request) -> Response:
        try:
            await asyncio.to_thread(ping)
        except DBAPIError:
            return PlainTextResponse("the job database does not answer", 503)
        return PlainTextResponse("ok") if healthy() else PlainTextResponse("jobs are not moved", 503)

    return [Route("/healthz", healthz), Route("/readyz", readyz)]
