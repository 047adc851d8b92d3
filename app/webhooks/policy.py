"""Which deliveries are commands. Pure: an event name and a payload in, a ``Command`` or the reason for ignoring out.

Refuses by default. Whether the requester may command us is *not* decided here: only GitHub's live answer counts, and it
is asked for in the job.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from app.jobs.types import Command, Word
from app.report.facts import PULL_MARK
from app.webhooks import commands
from app.webhooks.events import (
    Account,
    Comment,
    CommentCreated,
    Envelope,
    LabelChanged,
    LineCommented,
    PullChanged,
    PullLabelChanged,
    ReviewSubmitted,
)


@dataclass(frozen=True)
class Ignored:
    """Why a delivery starts nothing; for our log and GitHub's delivery page, never posted."""

    reason: str


@dataclass(frozen=True)
class Rules:
    """What the operator has set.

    Args:
        label: the label that asks for a fix, compared without regard to case, as GitHub does.
        allowed_bots: logins of bots that may command us; exact names.
        app_id: our own App; what it writes never commands us, whatever ``allowed_bots`` says.
    """

    label: str = "agent"
    allowed_bots: frozenset[str] = field(default_factory=frozenset)
    app_id: int = 0


def decide(event: str, payload: object, rules: Rules) -> Command | Ignored:
    """Judge one delivery.

    Args:
        event: ``X-GitHub-Event``.
        payload: the parsed JSON body, of whatever shape.
    """
    if not isinstance(payload, Mapping):
        return Ignored("malformed payload: not an object")
    action = payload.get("action")
    judge = _JUDGES.get((event, action)) if isinstance(action, str) else None
    if judge is None:
        return Ignored(f"event not used: {_name(event)}" + (f"/{_name(action)}" if isinstance(action, str) else ""))
    try:
        return judge(payload, rules)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False, include_context=False)[0]
        return Ignored(f"malformed payload: {'.'.join(map(_name, first['loc']))}: {first['msg']}")


def _name(text: object) -> str:
    """Untrusted words in a reason: short and printable."""
    return "".join(c for c in str(text)[:60] if c.isprintable() and not "\ud800" <= c <= "\udfff")


def _labeled(payload: Mapping[str, Any], rules: Rules) -> Command | Ignored:
    event = _label_changed(payload)
    if event.label.name.casefold() != rules.label.casefold():
        return Ignored("another label")
    return _command(event, rules, event.sender, commands.Found(Word.FIX, Word.FIX.value, ""))


def _commented(payload: Mapping[str, Any], rules: Rules) -> Command | Ignored:
    event = CommentCreated.model_validate(payload)
    return _written(event, event.comment, rules, comment_id=event.comment.id)


def _commented_on_lines(payload: Mapping[str, Any], rules: Rules) -> Command | Ignored:
    event = LineCommented.model_validate(payload)
    return _written(event, event.comment, rules, line_comment_id=event.comment.id)


def _written(event: Envelope | PullChanged, comment: Comment, rules: Rules, **where: int) -> Command | Ignored:
    found = commands.find(comment.body)
    if found is None:
        return Ignored("no command in the comment")
    if event.sender.id != comment.user.id:
        return Ignored("the sender is not the comment's author")
    app = comment.performed_via_github_app
    if app is not None and app.id == rules.app_id:
        return Ignored("our own comment")
    return _command(event, rules, comment.user, found, **where)


def _reviewed(payload: Mapping[str, Any], rules: Rules) -> Command | Ignored:
    """A review can hold a command; one that requests changes of a pull request of ours is one."""
    event = ReviewSubmitted.model_validate(payload)
    review = event.review
    found = commands.find(review.body or "")
    if found is None and review.state != "changes_requested":
        return Ignored("a review that asks for nothing")
    if found is None and not _is_ours(event):
        return Ignored("a pull request of somebody else")
    if review.user is None or event.sender.id != review.user.id:
        return Ignored("the sender is not the review's author")
    asked = found or commands.Found(Word.FIX, Word.FIX.value, review.body or "")
    return _command(event, rules, review.user, asked, review_id=review.id)


def _pushed(payload: Mapping[str, Any], rules: Rules) -> Command | Ignored:
    """Whoever pushed: a commit can only take something back."""
    event = PullChanged.model_validate(payload)
    for reason, applies in _NOTHING_TO_TAKE_BACK:
        if applies(event):
            return Ignored(reason)
    return _done(Word.PUSHED, event)


def _unlabeled(payload: Mapping[str, Any], rules: Rules) -> Command | Ignored:
    event = _label_changed(payload)
    if event.label.name.casefold() != rules.label.casefold():
        return Ignored("another label")
    return _withdrawn(Word.UNLABELED, event)


def _label_changed(payload: Mapping[str, Any]) -> LabelChanged | PullLabelChanged:
    return (PullLabelChanged if "pull_request" in payload else LabelChanged).model_validate(payload)


def _closed(payload: Mapping[str, Any], rules: Rules) -> Command | Ignored:
    event = (PullChanged if "pull_request" in payload else Envelope).model_validate(payload)
    return _withdrawn(Word.CLOSED, event)


def _withdrawn(word: Word, event: Envelope | PullChanged) -> Command | Ignored:
    """What was asked is not wanted any more."""
    for reason, applies in _NOT_WITHDRAWN:
        if applies(event):
            return Ignored(reason)
    return _done(word, event)


def _done(word: Word, event: Envelope | PullChanged) -> Command:
    """The command for what the sender did without a word."""
    assert event.installation is not None
    return Command(
        word=word,
        text=word.value,
        installation_id=event.installation.id,
        repository_id=event.repository.id,
        repository=event.repository.full_name,
        number=event.subject.number,
        is_pull=event.subject.is_pull,
        requester=event.sender.login,
        requester_id=event.sender.id,
    )


# Checked in order; the first that applies is the reason. What was acknowledged is only known in the job.
_NOTHING_TO_TAKE_BACK: tuple[tuple[str, Callable[[PullChanged], bool]], ...] = (
    ("no installation: not a delivery to an App", lambda e: e.installation is None),
    ("a pull request of somebody else", lambda e: not _is_ours(e)),
    ("our own commit", lambda e: e.pull_request.user is not None and e.sender.id == e.pull_request.user.id),
    ("a draft already", lambda e: e.pull_request.draft),
    ("closed", lambda e: e.pull_request.state != "open"),
    ("the repository is archived or disabled", lambda e: e.repository.archived or e.repository.disabled),
)

# Checked in order; the first that applies is the reason. Bots tidy up, also those that may command us: only a person's
# removal says that the work is not wanted.
_NOT_WITHDRAWN: tuple[tuple[str, Callable[[Envelope | PullChanged], bool]], ...] = (
    ("done by a bot: what runs goes on", lambda e: _is_bot(e.sender)),
    ("no installation: not a delivery to an App", lambda e: e.installation is None),
    ("the repository is archived or disabled", lambda e: e.repository.archived or e.repository.disabled),
)

_JUDGES: Mapping[tuple[str, str], Callable[[Mapping[str, Any], Rules], Command | Ignored]] = {
    ("issues", "labeled"): _labeled,
    ("issues", "unlabeled"): _unlabeled,
    ("issues", "closed"): _closed,
    ("issues", "deleted"): _closed,
    ("issues", "transferred"): _closed,
    ("issue_comment", "created"): _commented,
    ("pull_request", "synchronize"): _pushed,
    ("pull_request", "closed"): _closed,
    ("pull_request", "labeled"): _labeled,
    ("pull_request", "unlabeled"): _unlabeled,
    ("pull_request_review", "submitted"): _reviewed,
    ("pull_request_review_comment", "created"): _commented_on_lines,
}

EVENTS = frozenset(event for event, _ in _JUDGES)
"""What the App has to hear of."""

# Checked in order; the first that applies is the reason.
_REFUSALS: tuple[tuple[str, Callable[[Envelope | PullChanged, Account, Rules], bool]], ...] = (
    (
        "the requester is a bot that is not allowed",
        lambda e, who, rules: _is_bot(who) and who.login not in rules.allowed_bots,
    ),
    ("no installation: not a delivery to an App", lambda e, who, rules: e.installation is None),
    ("the repository is archived or disabled", lambda e, who, rules: e.repository.archived or e.repository.disabled),
    ("the conversation is locked", lambda e, who, rules: e.subject.locked),
)


def _is_ours(event: PullChanged) -> bool:
    pull = event.pull_request
    return pull.user is not None and pull.user.type == "Bot" and (pull.body or "").startswith(PULL_MARK)


def _is_bot(who: Account) -> bool:
    """Anything but a plain user is a bot; some carry ``[bot]`` in their login, some do not."""
    return who.type != "User" or who.login.casefold().endswith("[bot]")


def _command(
    event: Envelope | PullChanged, rules: Rules, who: Account, found: commands.Found, **where: int
) -> Command | Ignored:
    for reason, applies in _REFUSALS:
        if applies(event, who, rules):
            return Ignored(reason)
    assert event.installation is not None
    return Command(
        word=found.word or Word.HELP,  # who mistypes is told what there is
        text=found.text,
        details=found.details,
        installation_id=event.installation.id,
        repository_id=event.repository.id,
        repository=event.repository.full_name,
        number=event.subject.number,
        is_pull=event.subject.is_pull,
        requester=who.login,
        requester_id=who.id,
        **where,
    )
