"""The values of a job's life: what was asked, where it stands, how it ended."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from agent.types import Outcome, Plan, Usage, Value


class Word(StrEnum):
    """What a person can ask for after ``/agent``; and what somebody does on GitHub that asks for something."""

    FIX = "fix"
    PLAN = "plan"
    APPROVE = "approve"
    REVISE = "revise"
    ASK = "ask"
    RETRY = "retry"
    STOP = "stop"
    UNDO = "undo"
    WHY = "why"
    STATUS = "status"
    HELP = "help"
    PUSHED = "pushed"
    """Somebody has added a commit to a pull request of ours."""
    UNLABELED = "unlabeled"
    """A person has removed the label that asked."""
    CLOSED = "closed"
    """A person has closed the issue or pull request; or has deleted the issue, or transferred it."""

    @classmethod
    def named(cls, text: str) -> Word | None:
        """What the words after ``/agent`` begin with: ``FIX`` for ``Fix: the parser``; ``None`` where that can't be
        asked for."""
        first = text.split(maxsplit=1)[0].lower().rstrip(":,;.!") if text else ""
        return next((word for word in cls if word == first and word not in UNWRITTEN), None)


UNWRITTEN = frozenset({Word.PUSHED, Word.UNLABELED, Word.CLOSED})
"""Words that nobody writes: they say what was done on GitHub."""
WITHDRAWN = (Word.UNLABELED, Word.CLOSED)
"""Words that stop what runs, and are about nothing where nothing does."""
STOPPING = (Word.STOP, *WITHDRAWN)
"""Words that end what runs."""
AT_ONCE = UNWRITTEN | {Word.STOP, Word.STATUS, Word.WHY, Word.HELP}
"""Words that are about other jobs: they never wait for one."""


class Queue(StrEnum):
    """Where a job waits for a worker."""

    WORK = "work"
    CONTROL = "control"
    """Short jobs that must not wait for long ones."""


class Command(Value):
    """One person's wish on one issue or pull request, taken from a signed delivery. All text in it is untrusted."""

    word: Word
    text: str
    """The line after ``/agent``, word included: ``fix the parser``. The word alone where nobody wrote a line."""
    details: str = ""
    """The lines of the same comment that follow the command, without quotes."""
    installation_id: int
    repository_id: int
    repository: str
    """``owner/name`` at the time of the delivery: for people; the numeric id is what counts."""
    number: int
    is_pull: bool = False
    requester: str
    requester_id: int
    comment_id: int | None = None
    """The comment that asked; ``None`` where none did."""
    review_id: int | None = None
    """The review that asked, with its comments on lines."""
    line_comment_id: int | None = None
    """The comment on lines of a pull request that asked."""

    @property
    def request(self) -> str:
        """What was asked without the word: ``the parser``, and the details below it."""
        return "\n\n".join(part for part in (*self.text.split(maxsplit=1)[1:], self.details) if part)

    @property
    def lane(self) -> str:
        """Jobs of one lane run one after the other. Those ``AT_ONCE`` have their own: they must not wait for others."""
        return self.lane_of(self.word)

    def lane_of(self, word: Word) -> str:
        """The lane that ``word`` has on this issue or pull request."""
        return f"{self.issue}/{word.value}" if word in AT_ONCE else self.issue

    @property
    def issue(self) -> str:
        """The lane of the jobs that work on this issue or pull request."""
        return f"{self.repository_id}/{self.number}"

    @property
    def queue(self) -> Queue:
        return Queue.CONTROL if self.word in AT_ONCE else Queue.WORK


class Delivery(Value):
    """One signed webhook POST that leads to a job."""

    id: str
    """``X-GitHub-Delivery``; GitHub keeps it when it redelivers."""
    event: str
    excerpt: bytes = Field(repr=False)
    """What a job reads of its body, as JSON; see ``events.excerpt``. The rest is GitHub's to keep."""


class JobState(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"


class Ending(Value):
    """How a job ended, in words for the person who asked."""

    outcome: Outcome
    reason: str
    next_step: str = ""
    silent: bool = False
    """Nobody is told on GitHub: whoever asked had no right to."""
    untold: str = ""
    """Why it could not be told on GitHub, though it should have been."""

    @property
    def reason_in_full(self) -> str:
        """For whoever runs the service."""
        return f"{self.reason} (This could not be told on GitHub: {self.untold})" if self.untold else self.reason


class Artefacts(Value):
    """What the job has made outside so far. A repeated step finds its own traces here."""

    comment_id: int | None = None
    check_run_id: int | None = None
    base_sha: str | None = None
    branch: str | None = None
    commit_sha: str | None = None
    pull_number: int | None = None
    draft: bool = False
    """The pull request was a draft when the job had published to it."""
    plan: Plan | None = None
    """What the job has planned and waits to be approved."""
    to_acknowledge: str = ""
    """Names the changes to tests in ``commit_sha`` that alone keep its pull request a draft."""
    undone: str = ""
    """The commit of an earlier job that this one takes back; ``commit_sha`` is the one that does it."""
    acknowledged: str = ""
    """The commit whose changes to tests a person acknowledged by this job."""


class Job(Value):
    """One row of the jobs table, as read."""

    id: str
    sequence: int
    """Order of arrival."""
    delivery_id: str
    command: Command
    state: JobState
    stage: str
    ending: Ending | None
    artefacts: Artefacts
    usage: Usage
    attempts: int
    """Times that a worker took it up in its present stage."""
    fence: int
    """Counts every take-up; a worker that holds an older number has lost the job."""
    cancelled_by: str | None
    """Login of the person who stopped it."""
    created_at: float
    started_at: float | None
    finished_at: float | None
