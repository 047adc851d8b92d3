"""What people say on lines of a pull request, as text for a model. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from app.github import Comment, LineComment
from app.jobs.types import Command
from app.steps.asked import joined
from app.steps.visible import visible
from app.webhooks.commands import talk

_TRUSTED: Final = frozenset({"OWNER", "MEMBER", "COLLABORATOR"})
"""How somebody stands to the repository whose words may reach a model unasked."""
_MOST: Final = 50
_LINE_CHARS: Final = 200


def remarks(command: Command, found: Sequence[LineComment]) -> str:
    """What ``found`` adds to the words of ``command``: the comments of the review that asked; or, where a comment on
    lines did, which lines, and what was said there before.

    Args:
        found: all comments on lines of the pull request, oldest first.
    """
    about = asked_on(command, found)
    if command.review_id is not None:
        return joined(*(f"On {_place(one)}:\n{told(one)}" for one in about))
    if not about:  # deleted since
        return ""
    (asking,) = about
    before = [one for one in found if one.first == asking.first and one.created_at <= asking.created_at]
    heard = [text for one in before if (one.id == asking.id or is_heard(one)) and (text := told(one))]
    return joined(f"This is about {_place(asking)}.", *(f"Said there before:\n{text}" for text in heard[-_MOST:]))


def asked_on(command: Command, found: Sequence[LineComment]) -> Sequence[LineComment]:
    """Those of ``found`` that ``command`` carries out: what the review says that asked, or the one comment that did."""
    if command.review_id is None:
        return [one for one in found if one.id == command.line_comment_id]
    return [one for one in found if one.review_id == command.review_id and told(one)][:_MOST]


def is_heard(comment: Comment) -> bool:
    """Whether what somebody says may reach a model though they have not asked us anything."""
    return comment.author_association in _TRUSTED and not comment.user.is_bot


def told(comment: Comment) -> str:
    """What a comment tells a model; a command in it has a job of its own."""
    return visible(talk(comment.body)).strip()


def _place(comment: LineComment) -> str:
    last = comment.line or comment.original_line
    if last is None:
        return comment.path
    lines = f"lines {comment.start_line}-{last}" if comment.start_line and comment.line else f"line {last}"
    when = " of the state before" if comment.side == "LEFT" else "" if comment.line else " of an earlier version"
    shown = comment.diff_hunk.rpartition("\n")[2][1:].strip()[:_LINE_CHARS]
    return f"{comment.path}, {lines}{when}" + (f" ({shown})" if shown else "")
