"""What happened, written down for every App that asked to be told."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from app.devhub.hub import Hub
from app.devhub.records import App, Delivery, Installation, Repository, User
from app.devhub.shapes import accounts

Parts = Callable[[], Mapping[str, Any]]


def announce(hub: Hub, event: str, action: str | None, repository: Repository, sender: User, parts: Parts) -> None:
    """Queue an event of a repository for each App that is installed there and subscribed to it.

    ``parts`` makes what is special to the event; it is called only if somebody listens.
    """
    for installation in hub.store.find(Installation, account_id=repository.owner_id):
        covered = installation.repository_ids is None or repository.id in installation.repository_ids
        app = hub.store.get(App, installation.app_id)
        if covered and app.webhook_url and event in installation.events and not installation.suspended_at:
            payload = {
                **({"action": action} if action else {}),
                **parts(),
                "repository": accounts.repository(hub, repository),
                "sender": accounts.user(hub, sender),
                "installation": {"id": installation.id, "node_id": accounts.node_id(installation)},
            }
            queue(hub, app, event, payload, installation, repository)


def queue(
    hub: Hub,
    app: App,
    event: str,
    payload: Mapping[str, Any],
    installation: Installation | None = None,
    repository: Repository | None = None,
) -> Delivery | None:
    """Write one delivery down for sending; ``None`` where the App has no webhook."""
    if not app.webhook_url:
        return None
    delivery = Delivery(
        app_id=app.id,
        guid=str(uuid.uuid4()),
        event=event,
        action=payload.get("action"),
        installation_id=installation.id if installation else None,
        repository_id=repository.id if repository else None,
        payload=json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace"),
        request_headers={},
        response_headers={},
    )
    kept = hub.store.add(delivery)
    hub.wake()
    return kept


def ping(hub: Hub, app: App) -> Delivery | None:
    """The first event of a new webhook."""
    hook = {
        "type": "App",
        "id": app.id,
        "name": "web",
        "active": True,
        "events": list(app.events),
        "config": {"content_type": "json", "insecure_ssl": "0", "url": app.webhook_url, "secret": "********"},
        "updated_at": app.created_at,
        "created_at": app.created_at,
        "app_id": app.id,
        "deliveries_url": hub.api("/app/hook/deliveries"),
    }
    return queue(hub, app, "ping", {"zen": "Keep it logically awesome.", "hook_id": app.id, "hook": hook})


def installed(hub: Hub, app: App, installation: Installation, sender: User) -> None:
    """Tell an App that it was installed."""
    repositories = [
        {
            "id": found.id,
            "node_id": accounts.node_id(found),
            "name": found.name,
            "full_name": hub.full_name(found),
            "private": found.private,
        }
        for found in hub.store.find(Repository, owner_id=installation.account_id)
        if installation.repository_ids is None or found.id in installation.repository_ids
    ]
    payload = {
        "action": "created",
        "installation": accounts.installation(hub, installation),
        "repositories": repositories,
        "requester": None,
        "sender": accounts.user(hub, sender),
    }
    queue(hub, app, "installation", payload, installation)
