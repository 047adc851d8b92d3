"""The buttons: each does one thing as the chosen person and leads back to a page."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.responses import RedirectResponse, Response

from app.devhub import issues, pulls, refs, reviews
from app.devhub.errors import invalid
from app.devhub.pages.reading import ISSUE, PULL, REPO
from app.devhub.pages.visit import COOKIE, Visit

Form = Mapping[str, str]


def choose_user(visit: Visit, form: Form) -> Response:
    back = form.get("back", "/")
    response = RedirectResponse(back if back.startswith("/") and not back.startswith("//") else "/", 303)
    response.set_cookie(COOKIE, form.get("login", ""), httponly=True, samesite="strict")
    return response


def open_issue(visit: Visit, form: Form) -> Response:
    actor, repository = visit.acting("read"), visit.repository()
    body = form.get("body", "")
    issue = issues.open_issue(visit.hub, repository, actor, title=form.get("title", ""), body=body or None)
    return RedirectResponse(f"/{visit.hub.full_name(repository)}/issues/{issue.number}", 303)


def comment(visit: Visit, form: Form) -> Response:
    issues.comment(visit.hub, visit.issue(), visit.acting("read"), form.get("body", ""))
    return visit.back()


def label(visit: Visit, form: Form) -> Response:
    issues.add_labels(visit.hub, visit.issue(), visit.acting("triage"), [form.get("name", "")])
    return visit.back()


def unlabel(visit: Visit, form: Form) -> Response:
    actor, issue = visit.acting("triage"), visit.issue()
    on = [label for label in issues.labels_of(visit.hub, issue) if label.name == form.get("name")]
    issues.remove_labels(visit.hub, issue, actor, on)
    return visit.back()


def change_state(visit: Visit, form: Form) -> Response:
    actor, issue = visit.acting("triage"), visit.issue()
    if issue.is_pull:
        wanted = "closed" if issue.state == "open" else "open"
        pull = pulls.numbered(visit.hub, visit.repository(), issue.number)
        pulls.change(visit.hub, pull, actor, state=wanted)
    elif issue.state == "open":
        issues.close(visit.hub, issue, actor)
    else:
        issues.reopen(visit.hub, issue, actor)
    return visit.back()


def merge(visit: Visit, form: Form) -> Response:
    actor, repository = visit.acting("write"), visit.repository()
    refs.merge_pull(visit.hub, pulls.numbered(visit.hub, repository, visit.part("number")), actor)
    return visit.back()


def request_changes(visit: Visit, form: Form) -> Response:
    actor, pull = visit.acting("read"), pulls.numbered(visit.hub, visit.repository(), visit.part("number"))
    reviews.submit(visit.hub, pull, actor, event="REQUEST_CHANGES", body=form.get("body", ""), commit_id=None)
    return visit.back()


def remark(visit: Visit, form: Form) -> Response:
    actor, pull = visit.acting("read"), pulls.numbered(visit.hub, visit.repository(), visit.part("number"))
    line = form.get("line", "")
    if not (line.isascii() and line.isdigit()):
        raise invalid("PullRequestReviewComment", "line")
    place = reviews.Place(path=form.get("path", ""), line=int(line), side=form.get("side", "RIGHT"))
    reviews.comment(visit.hub, pull, actor, body=form.get("body", ""), place=place, commit_id=None)
    return visit.back()


ON_BOTH = {"comment": comment, "label": label, "unlabel": unlabel, "state": change_state}

BUTTONS = {
    "/_devhub/user": choose_user,
    f"{REPO}/issues/new": open_issue,
    **{f"{place}/{name}": act for place in (ISSUE, PULL) for name, act in ON_BOTH.items()},
    f"{PULL}/merge": merge,
    f"{PULL}/review": request_changes,
    f"{PULL}/remark": remark,
}
