"""The App about itself: its installations, their tokens, its webhook."""

from __future__ import annotations

from collections.abc import Iterable

from app.devhub import auth, webhooks
from app.devhub.errors import Refused, known, not_found
from app.devhub.records import App, Delivery, Installation, Repository, Token
from app.devhub.rest import Answer, Call, Operation, Page
from app.devhub.shapes import accounts, hooks


def _app(call: Call) -> App:
    app = call.caller.app
    assert app is not None
    return app


def get_app(call: Call) -> Answer:
    return Answer(accounts.app(call.hub, _app(call)))


def list_installations(call: Call) -> Page:
    found = call.hub.store.find(Installation, app_id=_app(call).id)
    return Page(found, lambda item: accounts.installation(call.hub, item))


def _installation(call: Call) -> Installation:
    return known(call.hub.store.first(Installation, id=call.number("installation_id"), app_id=_app(call).id))


def get_installation(call: Call) -> Answer:
    return Answer(accounts.installation(call.hub, _installation(call)))


def get_repository_installation(call: Call) -> Answer:
    for found in call.hub.store.find(Installation, app_id=_app(call).id, account_id=call.repository.owner_id):
        if found.repository_ids is None or call.repository.id in found.repository_ids:
            return Answer(accounts.installation(call.hub, found))
    raise not_found()


# ── tokens ───────────────────────────────────────────────────────────────────────────────────────────────────────


def create_token(call: Call) -> Answer:
    """A token of an installation, at most as strong as the installation."""
    found = _installation(call)
    if found.suspended_at:
        raise Refused(403, "This installation has been suspended")
    repositories = _wanted_repositories(call, found)
    permissions = _wanted_permissions(call, found)
    secret, token = auth.new_token(
        call.hub.store,
        "ghs",
        call.hub.clock.now(),
        installation_id=found.id,
        permissions=permissions,
        repository_ids=None if repositories is None else tuple(item.id for item in repositories),
    )
    selected = repositories is not None or found.repository_ids is not None
    body: dict[str, object] = {
        "token": secret,
        "expires_at": auth.expires_at(token),
        "permissions": permissions,
        "repository_selection": "selected" if selected else "all",
    }
    if repositories is not None:
        body["repositories"] = [accounts.repository(call.hub, item) for item in repositories]
    return Answer(body, 201)


def _reachable(call: Call, found: Installation) -> list[Repository]:
    owned = call.hub.store.find(Repository, owner_id=found.account_id)
    return [item for item in owned if found.repository_ids is None or item.id in found.repository_ids]


def _wanted_repositories(call: Call, found: Installation) -> list[Repository] | None:
    ids, names = call.body.items("repository_ids"), call.body.items("repositories")
    if ids is None and names is None:
        return None
    reachable = _reachable(call, found)
    by_id = {item.id: item for item in reachable}
    by_name = {item.name.lower(): item for item in reachable}
    chosen = [by_id.get(id) for id in ids or ()] + [by_name.get(str(name).lower()) for name in names or ()]
    if any(item is None for item in chosen):
        raise Refused(
            422, "There is at least one repository that does not exist or is not accessible to the parent installation."
        )
    return [item for item in chosen if item is not None]


def _wanted_permissions(call: Call, found: Installation) -> dict[str, str]:
    wanted = call.body.object("permissions")
    if wanted is None:
        return dict(found.permissions)
    asked = {name: str(level) for name, level in wanted.raw().items()}
    if not all(_allows(found.permissions.get(name), level) for name, level in asked.items()):
        raise Refused(422, "The permissions requested are not granted to this installation.")
    return {"metadata": "read", **asked}


def _allows(granted: str | None, level: str) -> bool:
    order = ("read", "write", "admin")
    return granted in order and level in order and order.index(level) <= order.index(granted)


def revoke_token(call: Call) -> Answer:
    token = call.caller.token
    assert isinstance(token, Token)
    call.hub.store.remove(token)
    return Answer(status=204)


def list_repositories(call: Call) -> Page:
    actor = call.caller
    assert actor.installation is not None
    found = [item for item in _reachable(call, actor.installation) if auth.within(actor, item)]
    return Page(found, lambda item: accounts.repository(call.hub, item, level="write"), key="repositories")


# ── webhook ──────────────────────────────────────────────────────────────────────────────────────────────────────


def get_hook(call: Call) -> Answer:
    return Answer(hooks.config(_app(call)))


def change_hook(call: Call) -> Answer:
    given = {"webhook_url": call.body.text("url"), "webhook_secret": call.body.text("secret")}
    wanted = {name: value for name, value in given.items() if value}
    return Answer(hooks.config(call.hub.store.change(_app(call), **wanted) if wanted else _app(call)))


def _made(call: Call) -> Iterable[Delivery]:
    """Deliveries that were made, newest first."""
    found = call.hub.store.find(Delivery, app_id=_app(call).id)
    return (item for item in reversed(found) if item.delivered_at)


def list_deliveries(call: Call) -> Page:
    wanted = call.query.get("status")
    kept = [item for item in _made(call) if wanted in (None, "success" if item.status == "OK" else "failure")]
    return Page(kept, hooks.delivery_item)


def _delivery(call: Call) -> Delivery:
    id = call.number("delivery_id")
    return known(next((item for item in _made(call) if item.id == id), None))


def get_delivery(call: Call) -> Answer:
    return Answer(hooks.delivery(_delivery(call)))


def redeliver(call: Call) -> Answer:
    webhooks.redeliver(call.hub, _delivery(call).guid)
    return Answer({}, 202)


OPERATIONS = (
    Operation("GET", "/app", get_app, who="app"),
    Operation("GET", "/app/installations", list_installations, who="app"),
    Operation("GET", "/app/installations/{installation_id}", get_installation, who="app"),
    Operation("POST", "/app/installations/{installation_id}/access_tokens", create_token, who="app"),
    Operation("GET", "/app/hook/config", get_hook, who="app"),
    Operation("PATCH", "/app/hook/config", change_hook, who="app"),
    Operation("GET", "/app/hook/deliveries", list_deliveries, who="app"),
    Operation("GET", "/app/hook/deliveries/{delivery_id}", get_delivery, who="app"),
    Operation("POST", "/app/hook/deliveries/{delivery_id}/attempts", redeliver, who="app"),
    Operation("GET", "/repos/{owner}/{repo}/installation", get_repository_installation, who="app"),
    Operation("GET", "/installation/repositories", list_repositories, who="installation"),
    Operation("DELETE", "/installation/token", revoke_token, who="installation"),
)
