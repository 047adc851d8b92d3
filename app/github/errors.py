"""GitHub's refusals and failures, sorted by who must act. Pure.

Sources: https://docs.github.com/en/rest/using-the-rest-api/troubleshooting-the-rest-api and
https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any

from agent.errors import GraftsmithError, OperatorError, RetryLater, UserError

CLOCK_SLACK_S = 60.0
_NO_HINT_S = 60.0  # GitHub's own advice where a limit names no time
_MOST_WAIT_S = 3_600.0


class NotFound(UserError):
    """What was asked for is not there, or is hidden from this installation."""


class Rejected(UserError):
    """GitHub understood the request and will not do it (409, 422 and the like).

    Args:
        what: what we wanted, as for ``to_error``.
        message: GitHub's own words, joined with the details of each error.
    """

    def __init__(self, what: str, message: str, status: int) -> None:
        super().__init__(f"GitHub refused to let the App {what}", why=message)
        self.message = message
        self.status = status


class PermissionMissing(OperatorError):
    """The installation may not do this; ``permission`` is GitHub's name for what is missing, when it said so."""

    def __init__(self, what: str, permission: str) -> None:
        named = f"the permission `{permission}`" if permission else "a permission that GitHub does not name"
        super().__init__(
            f"GitHub does not let the App {what}",
            why=f"The installation lacks {named}",
            todo="Grant it in the App's settings under 'Permissions & events', then accept it for the installation",
        )
        self.permission = permission


class CredentialsRefused(OperatorError):
    """The App's own identity was refused."""


class AnswerLost(RetryLater):
    """A write may or may not have happened: the server failed or the line dropped. Look before repeating it."""


@dataclass(frozen=True)
class Reply:
    """An error answer, as far as the decision needs it."""

    method: str
    path: str
    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    """Names in lower case."""
    body: Any = None

    @property
    def message(self) -> str:
        """GitHub's words on one line, with the details of a 422; never more than 500 characters."""
        if not isinstance(self.body, Mapping):
            return f"status {self.status}"
        parts = [str(self.body.get("message") or f"status {self.status}")]
        errors = self.body.get("errors")
        for error in errors if isinstance(errors, list) else []:
            if isinstance(error, Mapping):
                named = [str(error[key]) for key in ("resource", "field", "code") if error.get(key)]
                parts.append(str(error.get("message") or " ".join(named)))
            else:
                parts.append(str(error))
        return " ".join("; ".join(part for part in parts if part).split())[:500]


def is_limit(reply: Reply) -> bool:
    """A rate limit, primary or secondary, under either status that GitHub uses for it."""
    if reply.status == 429:
        return True
    if reply.status != 403:
        return False
    text = reply.message.lower()
    return (
        "retry-after" in reply.headers
        or reply.headers.get("x-ratelimit-remaining") == "0"
        or "rate limit" in text
        or "abuse detection" in text
    )


def wait_s(reply: Reply, now: float) -> float:
    """Seconds until the limit ends, as the headers say; a minute when they say nothing."""
    if after := reply.headers.get("retry-after", "").strip():
        if after.isdigit():
            return min(float(after), _MOST_WAIT_S)
        if (at := _date(after)) is not None:
            return min(max(0.0, at - now), _MOST_WAIT_S)
    reset = reply.headers.get("x-ratelimit-reset", "").strip()
    if reply.headers.get("x-ratelimit-remaining") == "0" and reset.isdigit():
        return min(max(0.0, float(reset) - now) + 1.0, _MOST_WAIT_S)
    return _NO_HINT_S


def to_error(reply: Reply, what: str, now: float | None = None) -> GraftsmithError:
    """The error that stands for ``reply``.

    Args:
        what: what we wanted, to follow "let the App": ``write a comment``.
        now: seconds since the epoch.
    """
    now = time.time() if now is None else now
    if is_limit(reply):
        return RetryLater("GitHub limits our requests", why=reply.message, after_s=wait_s(reply, now))
    if reply.status == 401:
        return _credentials(reply, now)
    if reply.status == 403:
        return _forbidden(reply, what)
    if 300 <= reply.status < 400:
        return NotFound(
            f"GitHub did not find what the App needs to {what}",
            why=f"{reply.path} leads to another repository now: it was transferred",
            todo="Ask again where it is now",
        )
    if reply.status == 404 and "integration not found" in reply.message.lower():
        return CredentialsRefused(
            "GitHub knows no App with this number", why=reply.message, todo="Check APP_ID, and GITHUB_API_URL"
        )
    if reply.status in (404, 410):
        return NotFound(
            f"GitHub did not find what the App needs to {what}",
            why=f"{reply.path} is gone, or hidden from the App ({reply.message})",
        )
    if reply.status == 451:
        return UserError(
            "GitHub has closed the repository for legal reasons", why=reply.message, todo="Ask GitHub's support"
        )
    if reply.status >= 500:
        why = f"GitHub answered {reply.status}"
        return (
            RetryLater("GitHub has trouble", why=why)
            if reply.method == "GET"
            else AnswerLost(f"GitHub failed while we wanted to {what}", why=why)
        )
    return Rejected(what, reply.message, reply.status)


def _forbidden(reply: Reply, what: str) -> GraftsmithError:
    text = reply.message.lower()
    if "archived" in text:
        return UserError("The repository is archived", why=reply.message, todo="Unarchive it, then ask again")
    if "suspended" in text:
        return OperatorError("The installation is suspended", why=reply.message, todo="Unsuspend it on GitHub")
    if "locked" in text:
        return UserError("The conversation is locked", why=reply.message, todo="Unlock it, then ask again")
    if "not accessible by integration" in text or "permission" in text:
        return PermissionMissing(what, _named_permission(reply))
    return Rejected(what, reply.message, reply.status)


# Where GitHub names no permission: the last matching beginning of the path after the repository.
_PERMISSIONS = {
    "/git/": "contents",
    "/compare/": "contents",
    "/issues": "issues",
    "/pulls": "pull_requests",
    "/check-runs": "checks",
    "/actions/": "actions",
    "/collaborators/": "metadata",
}


def _named_permission(reply: Reply) -> str:
    if named := reply.headers.get("x-accepted-github-permissions"):
        return named.split(";")[0].strip().replace("=", ": ")
    level = "read" if reply.method == "GET" else "write"
    for part, permission in _PERMISSIONS.items():
        if part in reply.path:
            return f"{permission}: {level}"
    return ""


_CLAIM = re.compile(r"\('(iat|exp)'\)")  # the words in which GitHub refuses a time in the token


def _credentials(reply: Reply, now: float) -> GraftsmithError:
    their = _date(reply.headers.get("date", ""))
    skew = 0.0 if their is None else now - their
    if abs(skew) > CLOCK_SLACK_S or _CLAIM.search(reply.message):
        off = f"Our clock is {abs(skew) / 60:.0f} minutes {'ahead of' if skew > 0 else 'behind'} GitHub's; "
        return CredentialsRefused(
            "GitHub refused the App's token because this machine's clock is wrong",
            why=f"{off if abs(skew) > CLOCK_SLACK_S else ''}GitHub says: {reply.message}",
            todo="Set the clock, for example by switching on NTP",
        )
    return CredentialsRefused(
        "GitHub refused the App's credentials",
        why=reply.message,
        todo="Check that APP_ID and PRIVATE_KEY belong together and that the key was not deleted on GitHub",
    )


def _date(text: str) -> float | None:
    try:
        return parsedate_to_datetime(text).timestamp()
    except (TypeError, ValueError):
        return None
