"""Apps that are made from a manifest: a person's form, and the code with which the App's key is fetched once."""

from __future__ import annotations

import json
import re
import secrets
from typing import Any
from urllib.parse import urlencode

from anyio.to_thread import run_sync
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from app.devhub.apps import new_app
from app.devhub.errors import not_found
from app.devhub.hub import Hub
from app.devhub.records import App
from app.devhub.rest import Answer, Call, Operation
from app.devhub.shapes import accounts

PATH = re.compile(r"/(organizations/[^/]+/)?settings/apps/new")
_CODE_S = 3600.0


async def serve(hub: Hub, request: Request) -> Response:
    """The form: the App is made at once, as if the person had agreed to everything."""
    form = await request.form()
    try:
        wish = json.loads(str(form["manifest"]))
        return await run_sync(_made, hub, wish, request.query_params.get("state", ""))
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        return PlainTextResponse(f"Invalid GitHub App configuration: {type(error).__name__}\n", 422)


def _made(hub: Hub, wish: dict[str, Any], state: str) -> Response:
    slug = re.sub(r"[^a-z0-9]+", "-", wish["name"].lower()).strip("-")
    code = secrets.token_hex(20)
    keys = new_app(
        hub,
        slug=slug,
        webhook_url=wish["hook_attributes"]["url"],
        permissions=wish["default_permissions"],
        subscribed=tuple(wish["default_events"]),
    )
    hub.app_codes[code] = keys.id, keys.private_key, hub.clock.now() + _CODE_S
    return RedirectResponse(f"{wish['redirect_url']}?{urlencode({'code': code, 'state': state})}", 302)


def convert(call: Call) -> Answer:
    """The App of a code, with its secrets: once."""
    app_id, private_key, until = call.hub.app_codes.pop(call.path["code"], (0, "", 0.0))
    if until < call.hub.clock.now():
        raise not_found()
    app = call.hub.store.get(App, app_id)
    told_once = {"client_secret": secrets.token_hex(20), "webhook_secret": app.webhook_secret, "pem": private_key}
    return Answer({**accounts.app(call.hub, app), **told_once}, 201)


OPERATIONS = (Operation("POST", "/app-manifests/{code}/conversions", convert, who="anyone"),)
