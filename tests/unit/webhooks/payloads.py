"""Deliveries as GitHub sends them, cut down to a few fields more than we read."""

from __future__ import annotations

from typing import Any


def account(login: str = "maintainer", number: int = 7, kind: str = "User") -> dict[str, Any]:
    return {"login": login, "id": number, "type": kind, "site_admin": False}


def repository(**more: Any) -> dict[str, Any]:
    return {"id": 42, "full_name": "acme/widget", "private": False, "archived": False, "disabled": False, **more}


def issue(**more: Any) -> dict[str, Any]:
    labels = [{"name": name} for name in ("bug", "backend", "P1", "agent")]
    return {
        "number": 12,
        "title": "It breaks",
        "body": None,
        "state": "open",
        "locked": False,
        "labels": labels,
        **more,
    }


def labeled(label: str = "agent", **more: Any) -> dict[str, Any]:
    return {
        "action": "labeled",
        "issue": issue(),
        "label": {"id": 1, "name": label, "color": "ededed"},
        "repository": repository(),
        "sender": account(),
        "installation": {"id": 99, "node_id": "x"},
        **more,
    }


def pushed(**more: Any) -> dict[str, Any]:
    """A person has pushed to a pull request of ours that is ready."""
    pull = {
        **issue(body="<!-- graftsmith:pull issue=12 -->\n\nText"),
        "number": 15,
        "draft": False,
        "user": account("graftsmith[bot]", 900, "Bot"),
    }
    return {
        "action": "synchronize",
        "number": 15,
        "before": "a" * 40,
        "after": "b" * 40,
        "pull_request": {**pull, **more.pop("pull", {})},
        "repository": repository(),
        "sender": account(),
        "installation": {"id": 99},
        **more,
    }


def reviewed(body: str | None, state: str = "changes_requested", *, user: Any = None, **more: Any) -> dict[str, Any]:
    """A person has reviewed a pull request of ours."""
    user = user or account()
    review = {"id": 3001, "body": body, "state": state, "user": user, "commit_id": "b" * 40}
    return {**pushed(action="submitted", sender=user, **more), "review": review}


def commented_on_line(body: str, *, user: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    user = user or account()
    comment = {"id": 2001, "body": body, "user": user, "path": "a.py", "line": 3, "pull_request_review_id": 3001}
    return {**pushed(action="created", sender=user, **more), "comment": comment}


def commented(body: str, *, user: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    user = user or account()
    return {
        "action": "created",
        "issue": issue(),
        "comment": {"id": 1001, "body": body, "user": user, "performed_via_github_app": None},
        "repository": repository(),
        "sender": user,
        "installation": {"id": 99},
        **more,
    }
