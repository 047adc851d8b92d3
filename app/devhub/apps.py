"""Apps: registered by Python, or from a manifest."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from app.devhub import events, people
from app.devhub.hub import Hub
from app.devhub.records import App
from app.private_key import checked_key

PERMISSIONS: Mapping[str, str] = {
    "actions": "write",
    "checks": "write",
    "contents": "write",
    "issues": "write",
    "metadata": "read",
    "pull_requests": "write",
    "statuses": "write",
}
SLUG = "graftsmith"
EVENTS = (
    *("check_run", "create", "delete", "issue_comment", "issues", "pull_request", "pull_request_review"),
    *("pull_request_review_comment", "push", "repository", "workflow_run"),
)


@dataclass(frozen=True)
class AppKeys:
    """What somebody who runs an App has of it."""

    id: int
    slug: str
    private_key: str
    webhook_secret: str


def new_key() -> str:
    """A private key for an App, PEM."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    kind = serialization.PrivateFormat.TraditionalOpenSSL
    return key.private_bytes(serialization.Encoding.PEM, kind, serialization.NoEncryption()).decode()


def _public(private_key: str) -> str:
    key = checked_key(private_key).public_key()
    return key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo).decode()


def new_app(
    hub: Hub,
    *,
    slug: str = SLUG,
    webhook_url: str = "",
    private_key: str = "",
    permissions: Mapping[str, str] = PERMISSIONS,
    subscribed: tuple[str, ...] = EVENTS,
) -> AppKeys:
    """Register an App; its key is made unless it is given."""
    key, secret = private_key or new_key(), secrets.token_hex(20)
    with hub.store.transaction():
        app = hub.store.add(
            App(
                slug=slug,
                name=slug,
                owner_id=people.user(hub, "operator").id,
                bot_id=people.user(hub, f"{slug}[bot]", type="Bot").id,
                public_key=_public(key),
                webhook_url=webhook_url,
                webhook_secret=secret,
                permissions=dict(permissions),
                events=subscribed,
                created_at=hub.stamp(),
            )
        )
        events.ping(hub, app)
    return AppKeys(app.id, slug, key, secret)
