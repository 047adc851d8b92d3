"""What a runner sends, read with bounds: its machine may be anybody's."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from pydantic import BaseModel
from starlette.requests import Request

M = TypeVar("M", bound=BaseModel)

_OBJECTS, _VALUES = 20_000, 1_000_000
"""Of one document. To make objects of it, or to list what is wrong with each, keeps the whole process from all else;
with as many for about a second."""
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)


class Refused(Exception):
    """The request is turned away."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


async def body(request: Request, most: int, on_piece: Callable[[], None] = lambda: None) -> bytes:
    """The bytes of a request.

    Raises:
        Refused: there are more than ``most``.
    """
    data = bytearray()
    async for piece in request.stream():
        on_piece()
        data += piece
        if len(data) > most:
            raise Refused(413, f"more than {most} bytes")
    return bytes(data)


def parsed(kind: type[M], data: bytes) -> M:
    """``data`` as a value; may take a second.

    Raises:
        Refused: it is of more parts than any run has to tell of.
        ValidationError: it is none.
    """
    bare = _STRING.sub(b"", data)
    if bare.count(b"{") > _OBJECTS or bare.count(b",") > _VALUES:
        raise Refused(400, f"more than {_OBJECTS:,} objects or {_VALUES:,} values at once")
    return kind.model_validate_json(data)
