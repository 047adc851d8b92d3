"""One short tree of errors, split by who must act.

Every error carries what happened, why we think so, and what to do next; ``str()`` gives all three on one line.
Raise the narrowest class, catch by name.
"""

from __future__ import annotations

import errno


class GraftsmithError(Exception):
    """Base of everything that we raise on purpose.

    Args:
        what: what happened, one sentence without a final stop.
        why: why we think so; may be empty.
        todo: what the reader can do next; may be empty.
    """

    def __init__(self, what: str, *, why: str = "", todo: str = "") -> None:
        super().__init__(what, why, todo)
        self.what = what
        self.why = why
        self.todo = todo

    @property
    def reason(self) -> str:
        """What happened and why, as sentences."""
        return " ".join(_sentence(part) for part in (self.what, self.why) if part)

    def __str__(self) -> str:
        *before, last = [part for part in (self.what, self.why, self.todo) if part]
        end = last if "\n" in last else _sentence(last)  # a listing ends as the file has it
        return " ".join([*map(_sentence, before), end])


def _sentence(text: str) -> str:
    return text if text.endswith(("?", "!", "…")) else f"{text.rstrip('.')}."


class UserError(GraftsmithError):
    """The person who asked must act: a wrong argument, an unusable repository, a question to answer."""


class OperatorError(GraftsmithError):
    """Whoever runs Graftsmith must act: settings, permissions, a missing program, a full disk."""


class RetryLater(GraftsmithError):
    """Nobody must act: the same call may work later.

    Args:
        after_s: seconds to wait at least, when the other side said so.
    """

    def __init__(self, what: str, *, why: str = "", todo: str = "", after_s: float | None = None) -> None:
        super().__init__(what, why=why, todo=todo)
        self.after_s = after_s


class ToolRefusal(GraftsmithError):
    """The model must act: what it asked for can't be done as asked; ``todo`` says what to do instead."""


class BugError(GraftsmithError):
    """We must act: an invariant of our own does not hold."""


def disk_full(error: BaseException) -> bool:
    """Whether the system has no room left, or the user's quota is used up: then nothing of ours is broken."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
