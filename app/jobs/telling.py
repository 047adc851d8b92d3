"""What can be said of an issue's jobs without doing anything. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agent.types import Outcome
from app.jobs.types import Ending, Job, JobState, Word

HELP = """\
Write one of these at the start of a line of a comment, also in a review:

- `/agent fix …`: change the code, prove it, and open a pull request or add to this one
- `/agent plan …`: make a plan and wait; then `/agent approve`, or `/agent revise …` with what should be different
- `/agent approve` on a pull request: acknowledge the changes to existing tests that it shows; it is ready then
- `/agent ask …`: answer a question about the code, without changing anything
- `/agent retry …`: what was asked last, once more, with a hint if you like
- `/agent undo` on a pull request: take back what the last job put there, by one more commit
- `/agent stop`: end what runs here; removing the label or closing the issue does so too
- `/agent status`, `/agent why`: where it stands, and how the last job ended

A review that requests changes of a pull request of mine needs no command.
Whoever asks needs write permission on the repository."""


AGAIN = "Comment `/agent retry` to start again."

_STOPS: Mapping[Word, tuple[str, str]] = {
    Word.STOP: ("", AGAIN),
    Word.UNLABELED: (", who removed the label", "Put the label back, or comment `/agent retry`, to start again."),
    Word.CLOSED: (", who closed it", "Reopen it and comment `/agent retry` to start again."),
}
"""What somebody did to stop a job, and how to start again."""


def cancelled(by: str, word: Word) -> Ending:
    """Of a job that ``by`` stopped with one of the words ``STOPPING``."""
    how, again = _STOPS[word]
    return Ending(outcome=Outcome.CANCELLED, reason=f"Stopped by {by}{how}.", next_step=again)


def withdrawn(count: int) -> Ending:
    """The jobs that are stopped tell it; where there are none, nobody has asked us anything.

    Args:
        count: jobs that were told to stop.
    """
    return Ending(outcome=Outcome.ANSWERED, reason=stopped(count), silent=True)


def stopped(count: int) -> str:
    """
    Args:
        count: jobs that were told to stop.
    """
    return "Nothing was running here." if count == 0 else f"Stopped {count} job{'s' if count > 1 else ''}."


def helped(asked: str) -> Ending:
    """
    Args:
        asked: the line that was written after ``/agent``.
    """
    word, said = Word.named(asked), "".join(asked.split(maxsplit=1)[:1])[:40].replace("`", "")
    if asked and word is None:
        why = f"There is no command `{said}`. "
    else:
        why = (
            "" if word in (None, Word.HELP) else "Nothing was done: a comment can hold one command, and this has more. "
        )
    return Ending(outcome=Outcome.ANSWERED, reason=why + HELP)


def status(jobs: Sequence[Job], now: float) -> Ending:
    """
    Args:
        jobs: of one issue, newest first.
        now: seconds since the epoch.
    """
    running = [job for job in jobs if job.state is JobState.RUNNING]
    waiting = [job for job in jobs if job.state is JobState.QUEUED]
    lines = [
        f"`{job.command.word.value}`, which {job.command.requester} asked for, has been at work for {_time(job, now)}"
        f" (step: {job.stage})."
        for job in running
    ]
    if waiting:
        lines.append(f"{len(waiting)} more {'waits' if len(waiting) == 1 else 'wait'}.")
    if not lines:
        return Ending(outcome=Outcome.ANSWERED, reason=f"Nothing runs here. {_last(jobs)}")
    return Ending(outcome=Outcome.ANSWERED, reason=" ".join(lines))


def why(jobs: Sequence[Job]) -> Ending:
    """How the last finished job of ``jobs`` (newest first) ended."""
    last = next((job for job in jobs if job.ending is not None), None)
    next_step = last.ending.next_step if last is not None and last.ending is not None else ""
    return Ending(outcome=Outcome.ANSWERED, reason=_last(jobs), next_step=next_step)


def _last(jobs: Sequence[Job]) -> str:
    for job in jobs:
        if job.ending is not None:
            ended = job.ending.outcome.value.replace("_", " ")
            asked = f"`{job.command.word.value}` by {job.command.requester}"
            return f"The last job, {asked}, ended as {ended}: {job.ending.reason}"
    return "No job has ended here yet."


def _time(job: Job, now: float) -> str:
    minutes = int((now - (job.started_at or now)) // 60)
    return "less than a minute" if minutes < 1 else f"{minutes} min"
