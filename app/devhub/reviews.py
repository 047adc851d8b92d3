"""What happens in reviews of pull requests."""

from __future__ import annotations

import re
from dataclasses import dataclass

from app.devhub import issues
from app.devhub.auth import Actor
from app.devhub.errors import Refused, invalid
from app.devhub.events import announce
from app.devhub.git import FileDiff
from app.devhub.hub import Hub
from app.devhub.records import Pull, Repository, Review, ReviewComment
from app.devhub.shapes import pulls as shapes
from app.devhub.shapes.accounts import Json

STATES = {"APPROVE": "APPROVED", "REQUEST_CHANGES": "CHANGES_REQUESTED", "COMMENT": "COMMENTED"}
HUNK = re.compile(r"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


def submit(
    hub: Hub, pull: Pull, actor: Actor, *, event: str, body: str, commit_id: str | None, announced: bool = True
) -> Review:
    """Make a review; its author can neither approve nor refuse their own work."""
    if event not in STATES:
        raise invalid("PullRequestReview", "event")
    own = issues.numbered(hub, hub.store.get(Repository, pull.repository_id), pull.number).user_id == actor.user.id
    if own and event != "COMMENT":
        word = "approve" if event == "APPROVE" else "request changes on"
        raise Refused(422, "Unprocessable Entity", errors=(f"Can not {word} your own pull request",))
    if event == "REQUEST_CHANGES" and not body:
        raise Refused(422, "Unprocessable Entity", errors=("Review body can't be blank",))
    issues.check_body(body, "PullRequestReview")
    review = hub.store.add(
        Review(
            pull_id=pull.id,
            user_id=actor.user.id,
            body=body,
            state=STATES[event],
            commit_id=commit_id or pull.head_sha,
            submitted_at=hub.stamp(),
        )
    )
    if announced:
        _tell(hub, pull, actor, "pull_request_review", "submitted", review=_for_event(hub, review))
    return review


def _for_event(hub: Hub, review: Review) -> Json:
    """Events spell the state in lower case."""
    shape = shapes.review(hub, review)
    return {**shape, "state": review.state.lower(), "updated_at": review.submitted_at}


def _tell(hub: Hub, pull: Pull, actor: Actor, event: str, action: str, **parts: object) -> None:
    repository = hub.store.get(Repository, pull.repository_id)
    announce(hub, event, action, repository, actor.user, lambda: {**parts, "pull_request": shapes.simple(hub, pull)})


@dataclass(frozen=True)
class Place:
    """Where a comment stands: lines ``start_line`` to ``line`` of one side, or, without ``line``, the whole file."""

    path: str
    line: int | None = None
    side: str = "RIGHT"
    start_line: int | None = None
    start_side: str | None = None


def comment(
    hub: Hub, pull: Pull, actor: Actor, *, body: str, place: Place, commit_id: str | None, review: Review | None = None
) -> ReviewComment:
    """Comment on a line of the difference, or on a file of it; a review of its own is made if none is given."""
    file = next((file for file in shapes.files_of(hub, pull) if file.path == place.path), None)
    if file is None:
        raise invalid("PullRequestReviewComment", "path")
    hunk = _hunk(file, place.line, place.side) if place.line is not None else ""
    if place.line is not None and not hunk:
        raise invalid("PullRequestReviewComment", "line", "custom", "line must be part of the diff")
    return _keep(hub, pull, actor, body, place, hunk, commit_id, review, None)


def reply(hub: Hub, pull: Pull, actor: Actor, parent: ReviewComment, body: str) -> ReviewComment:
    """Answer a comment; answers to answers go to the first one, as on GitHub."""
    place = Place(parent.path, parent.line, parent.side, parent.start_line, parent.start_side)
    thread = parent.in_reply_to_id or parent.id
    return _keep(hub, pull, actor, body, place, parent.diff_hunk, parent.commit_id, None, thread)


def _keep(
    hub: Hub,
    pull: Pull,
    actor: Actor,
    body: str,
    place: Place,
    hunk: str,
    commit_id: str | None,
    review: Review | None,
    thread: int | None,
) -> ReviewComment:
    if not body.strip():
        raise invalid("PullRequestReviewComment", "body", "missing_field")
    issues.check_body(body, "PullRequestReviewComment")
    review = review or submit(hub, pull, actor, event="COMMENT", body="", commit_id=commit_id, announced=False)
    now = hub.stamp()
    made = hub.store.add(
        ReviewComment(
            repository_id=pull.repository_id,
            pull_id=pull.id,
            review_id=review.id,
            user_id=actor.user.id,
            app_id=actor.app_id,
            path=place.path,
            line=place.line,
            side=place.side,
            start_line=place.start_line,
            start_side=place.start_side,
            subject_type="file" if place.line is None else "line",
            commit_id=commit_id or pull.head_sha,
            diff_hunk=hunk,
            in_reply_to_id=thread,
            body=body,
            created_at=now,
            updated_at=now,
        )
    )
    _tell(hub, pull, actor, "pull_request_review_comment", "created", comment=shapes.review_comment(hub, made))
    return made


def edit(hub: Hub, pull: Pull, actor: Actor, found: ReviewComment, body: str) -> ReviewComment:
    issues.check_body(body, "PullRequestReviewComment")
    old = found.body
    found = hub.store.change(found, body=body, updated_at=hub.stamp())
    parts = {"comment": shapes.review_comment(hub, found), "changes": {"body": {"from": old}}}
    _tell(hub, pull, actor, "pull_request_review_comment", "edited", **parts)
    return found


def _hunk(file: FileDiff, line: int, side: str) -> str:
    """The part of the patch that leads to a line; empty where the line is not in it."""
    kept: list[str] = []
    numbers = {"LEFT": 0, "RIGHT": 0}
    for row in (file.patch or "").split("\n"):
        start = HUNK.match(row)
        if start:
            kept, numbers = [row], {"LEFT": int(start[1]), "RIGHT": int(start[3])}
            continue
        kept.append(row)
        sides = {"-": ("LEFT",), "+": ("RIGHT",), " ": ("LEFT", "RIGHT")}.get(row[:1], ())
        if side in sides and numbers[side] == line:
            return "\n".join(kept)
        for each in sides:
            numbers[each] += 1
    return ""
