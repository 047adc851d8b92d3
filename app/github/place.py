"""One repository as the place of requests: under the name that it has now, and with writes that are made once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from app.github.api import Api, path
from app.github.errors import AnswerLost

T = TypeVar("T")


@dataclass(frozen=True)
class Place:
    """
    Args:
        id: the repository's number.
        app_id: whose requests these are.
        name: ``owner/name`` as it is now; called with ``True``, it asks again.
    """

    api: Api
    id: int
    app_id: int
    name: Callable[[bool], Awaitable[str]]

    async def url(self, template: str, **parts: str | int) -> str:
        return path("/repos/{repo}" + template, repo=await self.name(False), **parts)

    async def once(self, find: Callable[[], Awaitable[T | None]], make: Callable[[], Awaitable[T]]) -> T:
        """What ``find`` finds, else what ``make`` makes; after a lost answer ``find`` decides again."""
        if (found := await find()) is not None:
            return found
        for pause in self.api.backoff_s:
            try:
                return await make()
            except AnswerLost:
                # What was written a moment ago may not be listed yet.
                await asyncio.sleep(pause)
            if (found := await find()) is not None:
                return found
        return await make()
