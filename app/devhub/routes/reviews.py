"""Reviews of pull requests and the comments in them."""

from __future__ import annotations

from app.devhub import pulls, reviews
from app.devhub.errors import Refused, known
from app.devhub.records import Pull, Review, ReviewComment
from app.devhub.rest import Answer, Body, Call, Page, read, write
from app.devhub.routes.issues import on_review_comment, reactions
from app.devhub.shapes import pulls as shapes

PULL = "/repos/{owner}/{repo}/pulls/{pull_number}"
COMMENT = "/repos/{owner}/{repo}/pulls/comments/{comment_id}"
COMMENTS = "/repos/{owner}/{repo}/pulls/comments"


def _pull(call: Call) -> Pull:
    return pulls.numbered(call.hub, call.repository, call.number("pull_number"))


def list_reviews(call: Call) -> Page:
    found = call.hub.store.find(Review, pull_id=_pull(call).id)
    return Page(found, lambda review: shapes.review(call.hub, review))


def create_review(call: Call) -> Answer:
    pull, body = _pull(call), call.body
    event = body.text("event")
    if event is None:
        raise Refused(422, "Pending reviews are not something that this stand-in does; supply an event.")
    review = reviews.submit(
        call.hub, pull, call.caller, event=event, body=body.text("body") or "", commit_id=body.text("commit_id")
    )
    for item in body.objects("comments"):
        _comment_on(call, pull, item, review)
    return Answer(shapes.review(call.hub, review))


def _comment_on(call: Call, pull: Pull, item: Body, review: Review | None) -> ReviewComment:
    if "position" in item:
        raise Refused(422, "Positions are not something that this stand-in does; supply a line.")
    line, whole_file = item.number("line"), item.text("subject_type") == "file"
    if line is None and not whole_file:
        raise Refused(422, 'Invalid request.\n\n"line" wasn\'t supplied.')
    place = reviews.Place(
        path=item.required("path"),
        line=None if whole_file else line,
        side=item.text("side") or "RIGHT",
        start_line=item.number("start_line"),
        start_side=item.text("start_side"),
    )
    return reviews.comment(
        call.hub,
        pull,
        call.caller,
        body=item.required("body"),
        place=place,
        commit_id=item.text("commit_id"),
        review=review,
    )


def ask_for(call: Call) -> Answer:
    teams = call.body.items("team_reviewers")
    if teams:
        raise Refused(422, "Teams are not something that this stand-in has.")
    logins = [str(login) for login in call.body.items("reviewers") or []]
    return Answer(shapes.simple(call.hub, pulls.ask_for_review(call.hub, _pull(call), call.caller, logins)), 201)


def list_asked(call: Call) -> Answer:
    return Answer({"users": shapes.simple(call.hub, _pull(call))["requested_reviewers"], "teams": []})


# ── comments ─────────────────────────────────────────────────────────────────────────────────────────────────────


def list_comments(call: Call) -> Page:
    found = call.hub.store.find(ReviewComment, pull_id=_pull(call).id)
    return Page(found, lambda comment: shapes.review_comment(call.hub, comment))


def list_repository_comments(call: Call) -> Page:
    found = call.hub.store.find(ReviewComment, repository_id=call.repository.id)
    return Page(found, lambda comment: shapes.review_comment(call.hub, comment))


def create_comment(call: Call) -> Answer:
    pull = _pull(call)
    parent = call.body.number("in_reply_to")
    if parent is not None:
        return _replied(call, pull, parent)
    call.body.required("commit_id")
    made = _comment_on(call, pull, call.body, None)
    return Answer(shapes.review_comment(call.hub, made), 201)


def reply(call: Call) -> Answer:
    return _replied(call, _pull(call), call.number("comment_id"))


def _replied(call: Call, pull: Pull, parent_id: int) -> Answer:
    parent = known(call.hub.store.first(ReviewComment, id=parent_id, pull_id=pull.id))
    made = reviews.reply(call.hub, pull, call.caller, parent, call.body.required("body"))
    return Answer(shapes.review_comment(call.hub, made), 201)


def get_comment(call: Call) -> Answer:
    return Answer(shapes.review_comment(call.hub, call.own(ReviewComment, "comment_id")))


def change_comment(call: Call) -> Answer:
    found = call.own(ReviewComment, "comment_id")
    pull = call.hub.store.get(Pull, found.pull_id)
    changed = reviews.edit(call.hub, pull, call.caller, found, call.body.required("body"))
    return Answer(shapes.review_comment(call.hub, changed))


def delete_comment(call: Call) -> Answer:
    call.hub.store.remove(call.own(ReviewComment, "comment_id"))
    return Answer(status=204)


OPERATIONS = (
    read(f"{PULL}/reviews", list_reviews, "pull_requests"),
    write("POST", f"{PULL}/reviews", create_review, "pull_requests", person="read"),
    read(f"{PULL}/requested_reviewers", list_asked, "pull_requests"),
    write("POST", f"{PULL}/requested_reviewers", ask_for, "pull_requests"),
    read(COMMENTS, list_repository_comments, "pull_requests"),
    read(f"{PULL}/comments", list_comments, "pull_requests"),
    write("POST", f"{PULL}/comments", create_comment, "pull_requests", person="read"),
    write("POST", f"{PULL}/comments/{{comment_id}}/replies", reply, "pull_requests", person="read"),
    read(COMMENT, get_comment, "pull_requests"),
    write("PATCH", COMMENT, change_comment, "pull_requests"),
    write("DELETE", COMMENT, delete_comment, "pull_requests"),
    *reactions(COMMENT, on_review_comment, "pull_requests"),
)
