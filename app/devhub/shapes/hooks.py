"""The App's webhook and its deliveries."""

from __future__ import annotations

import json

from app.devhub.records import App, Delivery
from app.devhub.shapes.accounts import Json


def config(app: App) -> Json:
    return {"content_type": "json", "insecure_ssl": "0", "secret": "********", "url": app.webhook_url}


def delivery_item(found: Delivery) -> Json:
    return {
        "id": found.id,
        "guid": found.guid,
        "delivered_at": found.delivered_at,
        "redelivery": found.redelivery,
        "duration": found.duration,
        "status": found.status,
        "status_code": found.status_code,
        "event": found.event,
        "action": found.action,
        "installation_id": found.installation_id,
        "repository_id": found.repository_id,
        "throttled_at": None,
    }


def delivery(found: Delivery) -> Json:
    return {
        **delivery_item(found),
        "url": found.url,
        "request": {"headers": dict(found.request_headers), "payload": json.loads(found.payload)},
        "response": {"headers": dict(found.response_headers), "payload": found.response_body},
    }


def again(found: Delivery) -> Delivery:
    """The same event once more: same GUID, same bytes."""
    return Delivery(
        app_id=found.app_id,
        guid=found.guid,
        event=found.event,
        action=found.action,
        installation_id=found.installation_id,
        repository_id=found.repository_id,
        payload=found.payload,
        redelivery=True,
        request_headers={},
        response_headers={},
    )
