"""The answer in a conversation on lines of a pull request, short: the status comment has the rest. Pure."""

from __future__ import annotations

from agent.types import Outcome
from app.report import markdown as md
from app.report.facts import JobFacts
from app.report.status import ENDINGS, Closing, ending

_ANSWER_BYTES = 1_500


def line_marker(facts: JobFacts) -> str:
    """The hidden first line by which an answer of this job is found again."""
    return f"<!-- graftsmith:line job={facts.job_id} -->"


def line_answer(
    facts: JobFacts, closing: Closing, path: str, comment_id: int | None, commit_sha: str, *, changed: bool | None
) -> str:
    """What became of what was said on ``path``, beginning with ``line_marker(facts)``.

    Args:
        comment_id: the status comment; where there is none, the answer says it all.
        commit_sha: what the job has added to this pull request; empty where it has added nothing.
        changed: whether that changes ``path``; ``None`` where it is not known.
    """
    if comment_id is None:
        return ending(line_marker(facts), facts, closing)
    if commit_sha:
        commit = f"[`{commit_sha[:12]}`]({facts.repository_url}/commit/{commit_sha})"
        did = f" It {'changes' if changed else 'does not change'} {md.code(path)}." if changed is not None else ""
        told = f"Commit {commit} was made for this.{did}"
    elif closing.outcome is Outcome.ANSWERED and closing.answer:
        told = md.prose(closing.answer, facts.links, limit=_ANSWER_BYTES)
    else:
        mark, heading, _ = ENDINGS[closing.outcome]
        told = f"{mark} {heading}. {md.inline(md.head(closing.reason, 500))}".strip()
    return f"{line_marker(facts)}\n\n{told}\n\n<sub>[In full]({facts.comment_url(comment_id)})</sub>\n"
