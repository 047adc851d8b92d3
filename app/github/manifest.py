"""A new App, which GitHub makes from a description of it after a person has pressed a button there.

Source: https://docs.github.com/en/apps/sharing-github-apps/registering-a-github-app-from-a-manifest
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlencode

import httpx
from pydantic import ValidationError

from agent.errors import OperatorError
from agent.outside import proxy_for, tls
from app.github.api import path
from app.github.models import Seen

LONGEST_NAME = 34


class NewApp(Seen):
    """What GitHub tells once, when the App is made."""

    id: int
    slug: str
    html_url: str
    pem: str
    webhook_secret: str


def form_url(web_url: str, organization: str, state: str) -> str:
    """Where the description is sent to by a form; GitHub brings ``state`` back."""
    where = path("/organizations/{name}/settings/apps/new", name=organization) if organization else "/settings/apps/new"
    return f"{web_url}{where}?{urlencode({'state': state})}"


def manifest(
    name: str, *, service_url: str, back_url: str, permissions: Mapping[str, str], events: Iterable[str]
) -> dict[str, Any]:
    """The description of an App that only its owner can install.

    Args:
        service_url: where the service will be reached.
        back_url: where GitHub leads the browser with a code for :func:`taken_up`.
    """
    return {
        "name": name[:LONGEST_NAME],
        "url": service_url,
        "hook_attributes": {"url": f"{service_url}/webhooks", "active": True},
        "redirect_url": back_url,
        "public": False,
        "default_permissions": dict(permissions),
        "default_events": sorted(events),
    }


async def taken_up(api_url: str, code: str) -> NewApp:
    """The App that was just made, with its key; a code is good once, and for an hour.

    Raises:
        OperatorError: GitHub does not give it.
    """
    url = api_url + path("/app-manifests/{code}/conversions", code=code)
    try:
        async with httpx.AsyncClient(timeout=30.0, verify=tls(), proxy=proxy_for(url), trust_env=False) as http:
            answer = await http.post(url, headers={"accept": "application/vnd.github+json"})
        return NewApp.model_validate(answer.raise_for_status().json())
    except (httpx.HTTPError, ValidationError, ValueError) as error:
        raise OperatorError(
            "GitHub has made the App, and does not tell its key",
            why=type(error).__name__,
            todo="Delete the App on GitHub, then run this again",
        ) from error
