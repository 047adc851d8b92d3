"""Switches of the stand-in over HTTP, for tests that run it in another process: faults, clock, deliveries."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from app.devhub import webhooks
from app.devhub.errors import Refused, not_found
from app.devhub.hub import Hub
from app.devhub.records import Delivery
from app.devhub.shapes import hooks

FAULTS, CLOCK, DELIVERIES = "/_devhub/faults", "/_devhub/clock", "/_devhub/deliveries"


def routes(hub: Hub) -> list[Route]:
    """``POST``, ``GET`` and ``DELETE`` of faults; ``POST`` of the clock's offset; deliveries and their repetition."""

    async def add_fault(request: Request) -> Response:
        fields = await _object(request)
        try:
            fault = hub.faults.add(str(fields.pop("route", "*")), **fields)
        except TypeError as error:
            raise Refused(422, f"No such field of a fault: {error}") from error
        return JSONResponse(asdict(fault), 201)

    async def list_faults(request: Request) -> Response:
        return JSONResponse([asdict(fault) for fault in hub.faults.waiting])

    async def clear_faults(request: Request) -> Response:
        hub.faults.clear()
        return Response(status_code=204)

    async def set_clock(request: Request) -> Response:
        offset = (await _object(request)).get("offset")
        if not isinstance(offset, int | float):
            raise Refused(422, "The offset is a number of seconds.")
        hub.clock.offset = float(offset)
        return Response(status_code=204)

    async def list_deliveries(request: Request) -> Response:
        return JSONResponse([hooks.delivery(found) for found in hub.store.find(Delivery)])

    async def redeliver(request: Request) -> Response:
        try:
            webhooks.redeliver(hub, request.path_params["guid"])
        except KeyError as error:
            raise not_found() from error
        return Response(status_code=202)

    return [
        Route(FAULTS, add_fault, methods=["POST"]),
        Route(FAULTS, list_faults, methods=["GET"]),
        Route(FAULTS, clear_faults, methods=["DELETE"]),
        Route(CLOCK, set_clock, methods=["POST"]),
        Route(DELIVERIES, list_deliveries, methods=["GET"]),
        Route(f"{DELIVERIES}/{{guid}}/redeliver", redeliver, methods=["POST"]),
    ]


async def _object(request: Request) -> dict[str, Any]:
    try:
        found = await request.json()
    except ValueError as error:
        raise Refused(400, "Problems parsing JSON") from error
    if not isinstance(found, dict):
        raise Refused(400, "Body should be a JSON object")
    return found
