"""Issues, labels, comments, reactions, locks."""

from __future__ import annotations

from collections.abc import Callable

from app.devhub import issues
from app.devhub.errors import Refused, invalid, known
from app.devhub.records import Comment, Issue, Label, Reaction, ReviewComment, User
from app.devhub.rest import Answer, Body, Call, Operation, Page, read, write
from app.devhub.shapes import issues as shapes
from app.devhub.shapes.issues import REACTIONS

ISSUE = "/repos/{owner}/{repo}/issues/{issue_number}"
COMMENT = "/repos/{owner}/{repo}/issues/comments/{comment_id}"
LABELS = "/repos/{owner}/{repo}/labels"
EITHER = ("issues", "pull_requests")
"""Permissions for what issues and pull requests share."""


def _issue(call: Call) -> Issue:
    return issues.numbered(call.hub, call.repository, call.number("issue_number"))


def _names(items: list[object]) -> list[str]:
    """Labels or people, given as names or as objects."""
    names = [item.get("name") if isinstance(item, dict) else item for item in items]
    if not all(isinstance(name, str) for name in names):
        raise Refused(422, "Invalid request.\n\nFor 'properties/labels', an item is not a string.")
    return [str(name) for name in names]


def list_issues(call: Call) -> Page:
    """Open ones unless asked otherwise, newest first; pull requests are issues too."""
    query = call.query
    found = call.hub.store.find(Issue, repository_id=call.repository.id)
    state = query.get("state", "open")
    wanted = {name.lower() for name in query.get("labels", "").split(",") if name}
    kept = [
        issue
        for issue in found
        if state in ("all", issue.state)
        and wanted <= {label.name.lower() for label in issues.labels_of(call.hub, issue)}
        and issue.updated_at >= query.get("since", "")
        and _made_by(call, issue)
    ]
    key: Callable[[Issue], object] = {
        "updated": lambda issue: (issue.updated_at, issue.number),
        "comments": lambda issue: len(call.hub.store.find(Comment, issue_id=issue.id)),
    }.get(query.get("sort", ""), lambda issue: issue.number)
    kept.sort(key=key, reverse=query.get("direction", "desc") == "desc")  # type: ignore[arg-type]
    return Page(kept, lambda issue: shapes.issue(call.hub, issue))


def _made_by(call: Call, issue: Issue) -> bool:
    login = call.query.get("creator")
    return login is None or call.hub.store.get(User, issue.user_id).login.lower() == login.lower()


def create_issue(call: Call) -> Answer:
    issue = issues.open_issue(
        call.hub,
        call.repository,
        call.caller,
        title=call.body.required("title"),
        body=call.body.text("body"),
        labels=_names(call.body.items("labels") or []),
        assignees=_names(call.body.items("assignees") or []),
    )
    return Answer(shapes.issue(call.hub, issue), 201)


def get_issue(call: Call) -> Answer:
    return Answer(shapes.issue(call.hub, _issue(call)))


def change_issue(call: Call) -> Answer:
    hub, body, issue = call.hub, call.body, _issue(call)
    if "body" in body and body.text("body") is None:
        issue = issues.touch(hub, issue, body=None)
    issue = issues.edit(hub, issue, call.caller, title=body.text("title"), body=body.text("body"))
    labels = body.items("labels")
    if labels is not None:
        issue = issues.set_labels(hub, issue, call.caller, _names(labels))
    assignees = body.items("assignees")
    if assignees is not None:
        people = [hub.user(login) for login in _names(assignees)]
        issue = issues.touch(hub, issue, assignee_ids=tuple(person.id for person in people if person))
    state = body.text("state")
    if state == "closed":
        issue = issues.close(hub, issue, call.caller, body.text("state_reason"))
    elif state == "open":
        issue = issues.reopen(hub, issue, call.caller)
    elif state is not None:
        raise invalid("Issue", "state")
    return Answer(shapes.issue(hub, issue))


def lock(call: Call) -> Answer:
    issues.touch(call.hub, _issue(call), locked=True, lock_reason=call.body.text("lock_reason"))
    return Answer(status=204)


def unlock(call: Call) -> Answer:
    issues.touch(call.hub, _issue(call), locked=False, lock_reason=None)
    return Answer(status=204)


# ── labels ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _labels(call: Call, issue: Issue) -> list[object]:
    return [shapes.label(call.hub, label) for label in issues.labels_of(call.hub, issue)]


def list_labels(call: Call) -> Page:
    return Page(issues.labels_of(call.hub, _issue(call)), lambda label: shapes.label(call.hub, label))


def add_labels(call: Call) -> Answer:
    issue = issues.add_labels(call.hub, _issue(call), call.caller, _label_names(call.body))
    return Answer(_labels(call, issue))


def set_labels(call: Call) -> Answer:
    issue = issues.set_labels(call.hub, _issue(call), call.caller, _label_names(call.body))
    return Answer(_labels(call, issue))


def clear_labels(call: Call) -> Answer:
    issues.set_labels(call.hub, _issue(call), call.caller, [])
    return Answer(status=204)


def _label_names(body: Body) -> list[str]:
    return _names(body.items("labels") or [])


def remove_label(call: Call) -> Answer:
    issue = _issue(call)
    label = issues.find_label(call.hub, call.repository, call.path["name"])
    if label is None or label.id not in issue.label_ids:
        raise Refused(404, "Label does not exist")
    return Answer(_labels(call, issues.remove_labels(call.hub, issue, call.caller, [label])))


def list_repository_labels(call: Call) -> Page:
    found = call.hub.store.find(Label, repository_id=call.repository.id)
    return Page(found, lambda label: shapes.label(call.hub, label))


def get_label(call: Call) -> Answer:
    label = known(issues.find_label(call.hub, call.repository, call.path["name"]))
    return Answer(shapes.label(call.hub, label))


def create_label(call: Call) -> Answer:
    name = call.body.required("name")
    if issues.find_label(call.hub, call.repository, name):
        raise invalid("Label", "name", "already_exists")
    label = Label(
        repository_id=call.repository.id,
        name=name,
        color=call.body.text("color") or "ededed",
        description=call.body.text("description"),
    )
    return Answer(shapes.label(call.hub, call.hub.store.add(label)), 201)


# ── comments ─────────────────────────────────────────────────────────────────────────────────────────────────────


def list_comments(call: Call) -> Page:
    found = call.hub.store.find(Comment, issue_id=_issue(call).id)
    kept = [comment for comment in found if comment.updated_at >= call.query.get("since", "")]
    return Page(kept, lambda comment: shapes.comment(call.hub, comment))


def list_repository_comments(call: Call) -> Page:
    found = call.hub.store.find(Comment, repository_id=call.repository.id)
    kept = [comment for comment in found if comment.updated_at >= call.query.get("since", "")]
    if call.query.get("direction") == "desc":
        kept.reverse()
    return Page(kept, lambda comment: shapes.comment(call.hub, comment))


def create_comment(call: Call) -> Answer:
    made = issues.comment(call.hub, _issue(call), call.caller, call.body.required("body"))
    return Answer(shapes.comment(call.hub, made), 201)


def get_comment(call: Call) -> Answer:
    return Answer(shapes.comment(call.hub, call.own(Comment, "comment_id")))


def change_comment(call: Call) -> Answer:
    changed = issues.edit_comment(call.hub, call.own(Comment, "comment_id"), call.caller, call.body.required("body"))
    return Answer(shapes.comment(call.hub, changed))


def delete_comment(call: Call) -> Answer:
    issues.delete_comment(call.hub, call.own(Comment, "comment_id"), call.caller)
    return Answer(status=204)


# ── reactions ────────────────────────────────────────────────────────────────────────────────────────────────────

Subject = Callable[[Call], tuple[str, int]]


def on_issue(call: Call) -> tuple[str, int]:
    return "issues", _issue(call).id


def on_comment(call: Call) -> tuple[str, int]:
    return "comments", call.own(Comment, "comment_id").id


def on_review_comment(call: Call) -> tuple[str, int]:
    return "pulls/comments", call.own(ReviewComment, "comment_id").id


def _react(subject: Subject) -> Callable[[Call], Answer]:
    def react(call: Call) -> Answer:
        kind, id = subject(call)
        reaction, new = issues.react(call.hub, kind, id, call.caller.user, call.body.required("content"))
        return Answer(shapes.reaction(call.hub, reaction), 201 if new else 200)

    return react


def _reactions(subject: Subject) -> Callable[[Call], Page]:
    def reactions(call: Call) -> Page:
        kind, id = subject(call)
        content = call.query.get("content")
        if content is not None and content not in REACTIONS:
            raise invalid("Reaction", "content")
        found = call.hub.store.find(Reaction, subject=kind, subject_id=id)
        kept = [reaction for reaction in found if content in (None, reaction.content)]
        return Page(kept, lambda reaction: shapes.reaction(call.hub, reaction))

    return reactions


def _unreact(subject: Subject) -> Callable[[Call], Answer]:
    def unreact(call: Call) -> Answer:
        kind, id = subject(call)
        found = known(call.hub.store.first(Reaction, id=call.number("reaction_id"), subject=kind, subject_id=id))
        call.hub.store.remove(found)
        return Answer(status=204)

    return unreact


def reactions(path: str, subject: Subject, *needs: str) -> tuple[Operation, ...]:
    """The three operations on the reactions of one kind of thing."""
    return (
        read(f"{path}/reactions", _reactions(subject), *needs),
        write("POST", f"{path}/reactions", _react(subject), *needs, person="read"),
        write("DELETE", f"{path}/reactions/{{reaction_id}}", _unreact(subject), *needs, person="read"),
    )


OPERATIONS = (
    read("/repos/{owner}/{repo}/issues", list_issues, *EITHER),
    write("POST", "/repos/{owner}/{repo}/issues", create_issue, "issues", person="read"),
    read("/repos/{owner}/{repo}/issues/comments", list_repository_comments, *EITHER),
    read(COMMENT, get_comment, *EITHER),
    write("PATCH", COMMENT, change_comment, *EITHER),
    write("DELETE", COMMENT, delete_comment, *EITHER),
    *reactions(COMMENT, on_comment, *EITHER),
    read(ISSUE, get_issue, *EITHER),
    write("PATCH", ISSUE, change_issue, *EITHER, person="triage"),
    write("PUT", f"{ISSUE}/lock", lock, *EITHER),
    write("DELETE", f"{ISSUE}/lock", unlock, *EITHER),
    read(f"{ISSUE}/labels", list_labels, *EITHER),
    write("POST", f"{ISSUE}/labels", add_labels, *EITHER, person="triage"),
    write("PUT", f"{ISSUE}/labels", set_labels, *EITHER, person="triage"),
    write("DELETE", f"{ISSUE}/labels", clear_labels, *EITHER, person="triage"),
    write("DELETE", f"{ISSUE}/labels/{{name}}", remove_label, *EITHER, person="triage"),
    read(f"{ISSUE}/comments", list_comments, *EITHER),
    write("POST", f"{ISSUE}/comments", create_comment, *EITHER, person="read"),
    *reactions(ISSUE, on_issue, *EITHER),
    read(LABELS, list_repository_labels, *EITHER),
    write("POST", LABELS, create_label, *EITHER),
    read(f"{LABELS}/{{name}}", get_label, *EITHER),
)
