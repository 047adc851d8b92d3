"""What happens in reviews of pull requests."""

from __future__ import annotations

from dataclasses import dataclass, replace

from app.devhub import issues
from app.devhub.auth import Actor
from app.devhub.errors import Refused, invalid
from app.devhub.events import announce
from app.devhub.gitobjects import FileDiff, rows
from app.devhub.hub import Hub
from app.devhub.records import Pull, Repository, Review, ReviewComment
from app.devhub.shapes import pulls as shapes
from app.devhub.shapes.accounts import Json

STATES = {"APPROVE": "APPROVED", "REQUEST_CHANGES": "CHANGES_REQUESTED", "COMMENT": "COMMENTED"}


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
    left = tuple(id for id in pull.reviewer_ids if id != actor.user.id)
    if left != pull.reviewer_ids:
        pull = hub.store.change(pull, reviewer_ids=left)
    if announced:
        _tell(hub, pull, actor, "pull_request_review", "submitted", review=_for_event(hub, review))
    return review


def _for_event(hub: Hub, review: Review) -> Json:
    """Events spell the state in lower case."""
    shape = shapes.review(hub, review)
    return {**shape, "state": review.state.lower(), "updated_at": review.submitted_at}


def _comment_for_event(hub: Hub, found: ReviewComment) -> Json:
    """Events have the position of every comment, of one on a whole file too."""
    position = {"position": found.position, "original_position": found.position or 1}
    return {**shapes.review_comment(hub, found), **position}


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
    hunk: str = ""
    position: int | None = None


def comment(
    hub: Hub, pull: Pull, actor: Actor, *, body: str, place: Place, commit_id: str | None, review: Review | None = None
) -> ReviewComment:
    """Comment on a line of the difference, or on a file of it; a review of its own is made if none is given."""
    file = next((file for file in shapes.files_of(hub, pull) if file.path == place.path), None)
    if file is None:
        raise invalid("PullRequestReviewComment", "path")
    if place.line is not None:
        found = _find(file, place.line, place.side)
        if found is None:
            raise invalid("PullRequestReviewComment", "line", "custom", "line must be part of the diff")
        place = replace(place, hunk=found[0], position=found[1])
    return _keep(hub, pull, actor, body, place, commit_id, review)


def reply(hub: Hub, pull: Pull, actor: Actor, parent: ReviewComment, body: str) -> ReviewComment:
    """Answer a comment; answers to answers go to the first one, as on GitHub."""
    place = Place(
        path=parent.path,
        line=parent.line,
        side=parent.side,
        start_line=parent.start_line,
        start_side=parent.start_side,
        hunk=parent.diff_hunk,
        position=parent.position,
    )
    return _keep(hub, pull, actor, body, place, parent.commit_id, thread=parent.in_reply_to_id or parent.id)


def _keep(
    hub: Hub,
    pull: Pull,
    actor: Actor,
    body: str,
    place: Place,
    commit_id: str | None,
    review: Review | None = None,
    thread: int | None = None,
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
            diff_hunk=place.hunk,
            position=place.position,
            in_reply_to_id=thread,
            body=body,
            created_at=now,
            updated_at=now,
        )
    )
    _tell(hub, pull, actor, "pull_request_review_comment", "created", comment=_comment_for_event(hub, made))
    return made


def edit(hub: Hub, pull: Pull, actor: Actor, found: ReviewComment, body: str) -> ReviewComment:
    issues.check_body(body, "PullRequestReviewComment")
    old = found.body
    found = hub.store.change(found, body=body, updated_at=hub.stamp())
    parts = {"comment": _comment_for_event(hub, found), "changes": {"body": {"from": old}}}
    _tell(hub, pull, actor, "pull_request_review_comment", "edited", **parts)
    return found


def _find(file: FileDiff, line: int, side: str) -> tuple[str, int] | None:
    """The part of the patch that leads to a line, and how far down it is; ``None`` where the line is not in it."""
    kept: list[str] = []
    for position, row in enumerate(rows(file.patch or "")):
        kept = [*([] if row.is_head else kept), row.raw]
        if {"LEFT": row.old, "RIGHT": row.new}.get(side) == line:
            return "\n".join(kept), position
    return None
