"""What a job is about, where its words speak of earlier jobs. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agent.types import BROKEN_OFF, Outcome, Task
from app.jobs.types import Command, Ending, Job, Word


@dataclass(frozen=True)
class Asked:
    """What a job is about, once earlier jobs have been looked at."""

    command: Command
    """What somebody asked in words of their own: of a ``retry``, what was asked before."""
    request: str
    planned: Job | None = None
    """The job whose plan is approved or revised."""
    broken_off: Job | None = None
    """The job whose work is gone on with."""

    @property
    def word(self) -> Word:
        return self.command.word


def asked_for(job: Job, of_issue: Sequence[Job]) -> Asked | Ending:
    """What ``job`` is about: words that speak of earlier jobs are resolved. Pure.

    What somebody asked who had no right to is not taken up on the authority of somebody who has.

    Args:
        of_issue: the jobs of the same issue, newest first.
    """
    command, request, broken_off = job.command, job.command.request, None
    heard = (other for other in of_issue if other.ending is None or not other.ending.silent)
    earlier = [other for other in heard if other.sequence < job.sequence]
    if command.word is Word.RETRY:
        last = next((o.command for o in earlier if o.command.word not in (Word.RETRY, Word.UNDO)), None)
        if last is None:
            return _nothing("to do again", "/agent fix …")
        command, request = last, joined(last.request, request)
        ending = earlier[0].ending
        broken_off = earlier[0] if ending and ending.outcome in BROKEN_OFF else None
    word, planned = command.word, None
    if word in (Word.APPROVE, Word.REVISE):
        # Only a plan that stood there when the person wrote can be the one that was meant.
        asked_at = job.created_at
        shown = (o for o in earlier if o.artefacts.plan and o.finished_at is not None and o.finished_at <= asked_at)
        planned = next(shown, None)
        if planned is None and broken_off is None:
            return _nothing(f"to {word.value}: there is no plan", "/agent plan …")
    return Asked(command, request, planned, broken_off)


def awaiting(job: Job, published: Sequence[Job], of_issue: Sequence[Job]) -> Job | None:
    """The job whose changes to tests an approval on its pull request can mean: the last that published there, when it
    had done so before the person wrote, and no plan has been made since. Pure.

    Args:
        published: finished jobs that published to the pull request, newest first.
        of_issue: the jobs of the pull request itself, newest first.
    """
    last = published[0] if published else None
    if last is None or not last.artefacts.to_acknowledge:
        return None
    if last.finished_at is None or last.finished_at > job.created_at:
        return None
    planned_since = any(o.artefacts.plan and last.sequence < o.sequence < job.sequence for o in of_issue)
    return None if planned_since else last


def standing(published: Sequence[Job]) -> list[Job]:
    """Those whose work stands: what was taken back does not, nor does the taking back. Pure.

    Args:
        published: finished jobs that published to a pull request.
    """
    undone = {job.artefacts.undone for job in published}
    return [job for job in published if not job.artefacts.undone and job.artefacts.commit_sha not in undone]


def of_our_pull(task: Task, earlier: Sequence[tuple[Task, str]]) -> Task:
    """What is asked on a pull request of ours: the issue that it is for, and what it does so far, in place of its
    description, which holds proofs, test logs and costs. Pure.

    Args:
        task: with the pull request's description.
        earlier: task and summary of each job that published there, oldest first; those that are known here.
    """
    summaries = [f"- {summary.strip()}" for _, summary in earlier if summary.strip()]
    if not summaries:
        said = task.body.partition("-->")[2].partition("\n### ")[0]
        return task.model_copy(update={"body": said.strip()})
    first = earlier[0][0]
    body = "\n\n".join(part for part in (first.body.strip(), "\n".join([_SO_FAR, *summaries])) if part)
    return task.model_copy(update={"title": first.title, "body": body})


_SO_FAR = "What the pull request for this does so far:"


def overtaken(job: Job, head: str, of_issue: Sequence[Job], pushes: Sequence[Job]) -> str:
    """The commit that a person has acknowledged and that is not ``head`` any more; empty where there is none, or where
    that was told already: whoever marks the pull request as ready after that does so without us. Pure.

    Args:
        of_issue: the jobs of the pull request itself, newest first.
        pushes: those that other commits led to, newest first; ``job`` may be one of them.
    """
    last = next((other for other in of_issue if other.artefacts.acknowledged), None)
    if last is None or last.artefacts.acknowledged == head:
        return ""
    later = (other for other in pushes if other.id != job.id and other.sequence > last.sequence)
    told = any(other.ending is not None and not other.ending.silent for other in later)
    return "" if told else last.artefacts.acknowledged


def joined(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part)


def _nothing(what: str, instead: str) -> Ending:
    return Ending(
        outcome=Outcome.NEEDS_INPUT,
        reason=f"There is nothing {what} here yet.",
        next_step=f"Comment `{instead}` first.",
    )
