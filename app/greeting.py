"""At the start of the service: whether GitHub knows the App by its key, and lets it do and hear what it needs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from itertools import chain

from agent.errors import RetryLater
from app.github import Access, GitHubApp
from app.github.models import AppFacts
from app.settings import Settings
from app.webhooks.policy import EVENTS

_log = logging.getLogger(__name__)
_PATIENCE_S = 5.0
"""Deliveries that come while we wait are lost."""


def greet(github: GitHubApp, needed: Sequence[Access] = (Access.WRITE,)) -> None:
    """Log what the App lacks; a GitHub that does not answer is left for later.

    Args:
        needed: what it has to be able to do.

    Raises:
        OperatorError: the credentials are refused.
    """
    try:
        facts = asked(github, _PATIENCE_S)
    except RetryLater as error:
        _log.warning("whether GitHub knows the App is not known yet: %s", error)
        return
    _log.info("this is the App %s, number %d", facts.slug, facts.id)
    for lack in lacks(facts, needed):
        _log.warning("%s", lack)


def asked(github: GitHubApp, seconds: float = 60.0) -> AppFacts:
    """The App as GitHub knows it; what that takes is bounded.

    Raises:
        OperatorError: the credentials are refused.
        RetryLater: GitHub can't be asked now.
    """

    async def ask() -> AppFacts:
        try:
            async with asyncio.timeout(seconds):
                return await github.me()
        except TimeoutError as error:
            raise RetryLater("GitHub does not answer", why=f"waited {seconds:.0f} s") from error
        finally:
            await github.aclose()

    return asyncio.run(ask())


def needs(settings: Settings) -> Sequence[Access]:
    """What the App has to be able to do."""
    return (Access.WRITE, Access.ACTIONS) if settings.runner == "actions" else (Access.WRITE,)


def lacks(facts: AppFacts, needed: Sequence[Access]) -> Iterator[str]:
    """What the App can't do and does not hear, with what to do about it. Pure."""
    missing_of = (access.missing(facts.permissions) for access in needed)
    for missing in dict.fromkeys(chain.from_iterable(missing_of)):
        yield f"the App lacks the permission {missing}: grant it in its settings, then accept it for each installation"
    for event in sorted(EVENTS.difference(facts.events)):
        yield f"the App is not told of the event {event}: subscribe to it in its settings"
