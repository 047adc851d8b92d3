"""What people say on lines of a pull request, as text for a model. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from app.github import LineComment
from app.jobs.types import Command
from app.steps.asked import joined
from app.steps.visible import visible

TRUSTED: Final = frozenset({"OWNER", "MEMBER", "COLLABORATOR"})
"""How somebody stands to the repository whose words may reach a model unasked."""
_MOST: Final = 50
_LINE_CHARS: Final = 200


def remarks(command: Command, found: Sequence[LineComment]) -> str:
    """What ``found`` adds to the words of ``command``: the comments of the review that asked; or, where a comment on
    lines did, which lines, and what was said there before.

    Args:
        found: all comments on lines of the pull request, oldest first.
    """
    if command.review_id is not None:
        said = [one for one in found if one.review_id == command.review_id and not _is_command(one)]
        return joined(*(f"On {_place(one)}:\n{visible(one.body)}" for one in said[:_MOST]))
    asking = next((one for one in found if one.id == command.line_comment_id), None)
    if asking is None:  # deleted since
        return ""
    before = [one for one in found if _first(one) == _first(asking) and one.created_at <= asking.created_at]
    heard = [
        one for one in before if one.id != asking.id and one.author_association in TRUSTED and not _is_command(one)
    ]
    said_before = (f"Said there before:\n{visible(one.body)}" for one in heard[-_MOST:])
    return joined(f"This is about {_place(asking)}.", *said_before)


def _is_command(comment: LineComment) -> bool:
    """It has a job of its own."""
    return comment.body.lstrip().startswith("/agent")


def _first(comment: LineComment) -> int:
    return comment.thread or comment.id


def _place(comment: LineComment) -> str:
    last = comment.line or comment.original_line
    if last is None:
        return comment.path
    lines = f"lines {comment.start_line}-{last}" if comment.start_line and comment.line else f"line {last}"
    when = " of the state before" if comment.side == "LEFT" else "" if comment.line else " of an earlier version"
    shown = comment.diff_hunk.rpartition("\n")[2][1:].strip()[:_LINE_CHARS]
    return f"{comment.path}, {lines}{when}" + (f" ({shown})" if shown else "")
