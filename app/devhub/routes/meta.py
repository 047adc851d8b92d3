"""What is not about any repository: limits, the service itself, users."""

from __future__ import annotations

from app.devhub.errors import forbidden, known
from app.devhub.rest import Answer, Call, Operation
from app.devhub.shapes import accounts


def meta(call: Call) -> Answer:
    return Answer({"verifiable_password_authentication": False, "hooks": ["127.0.0.0/8"], "git": ["127.0.0.0/8"]})


def get_user(call: Call) -> Answer:
    found = known(call.hub.user(call.path["username"]))
    return Answer(accounts.profile(call.hub, found))


def get_self(call: Call) -> Answer:
    if call.caller.app is not None:
        raise forbidden()
    return Answer(accounts.profile(call.hub, call.caller.user))


OPERATIONS = (
    Operation("GET", "/meta", meta, who="anyone"),
    Operation("GET", "/users/{username}", get_user, who="anyone"),
    Operation("GET", "/user", get_self, who="known"),
)
