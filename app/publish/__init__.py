"""From a change set, which is data, to a branch and a pull request: checked first, written once."""

from app.publish.checking import SecretInPatch, as_patch, review
from app.publish.policy import Accepted, ChangeSetRefused, Limits, Rules
from app.publish.publisher import (
    Kept,
    Moved,
    Proposal,
    Published,
    PullText,
    Unchanged,
    keep,
    propose,
    update,
)

__all__ = [
    "Accepted",
    "ChangeSetRefused",
    "Kept",
    "Limits",
    "Moved",
    "Proposal",
    "Published",
    "PullText",
    "Rules",
    "SecretInPatch",
    "Unchanged",
    "as_patch",
    "keep",
    "propose",
    "review",
    "update",
]
