"""At the start of the service: whether GitHub knows the App by its key, and lets it do and hear what it needs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator

from agent.errors import RetryLater
from app.github import Access, GitHubApp
from app.github.models import AppFacts
from app.webhooks.policy import EVENTS

_log = logging.getLogger(__name__)
_PATIENCE_S = 5.0
"""Deliveries that come while we wait are lost."""


def greet(github: GitHubApp) -> None:
    """Log what the App lacks; a GitHub that does not answer is left for later.

    Raises:
        OperatorError: the credentials are refused.
    """
    asyncio.run(_greeted(github))


async def _greeted(github: GitHubApp) -> None:
    try:
        async with asyncio.timeout(_PATIENCE_S):
            facts = await github.me()
        _log.info("this is the App %s, number %d", facts.slug, facts.id)
        for lack in lacks(facts):
            _log.warning("%s", lack)
    except RetryLater as error:
        _log.warning("whether GitHub knows the App is not known yet: %s", error)
    except TimeoutError:
        _log.warning("whether GitHub knows the App is not known yet: it takes its time")
    finally:
        await github.aclose()


def lacks(facts: AppFacts) -> Iterator[str]:
    """What the App can't do and does not hear, with what to do about it. Pure."""
    for missing in Access.WRITE.missing(facts.permissions):
        yield f"the App lacks the permission {missing}: grant it in its settings, then accept it for each installation"
    for event in sorted(EVENTS.difference(facts.events)):
        yield f"the App is not told of the event {event}: subscribe to it in its settings"
