"""Titles, commit messages and branch names made from other people's words. Pure."""

from __future__ import annotations

import re
import unicodedata

from agent.types import RunResult
from app.report import markdown as md
from app.report.facts import PRODUCT, JobFacts

TITLE_LIMIT = 256
SUBJECT_LIMIT = 72
_SLUG_LIMIT = 40


def pr_title(facts: JobFacts) -> str:
    """The issue's own title on one harmless line of at most 256 characters."""
    return md.plain(facts.title, TITLE_LIMIT) or f"Changes for #{facts.number}"


def commit_message(result: RunResult, facts: JobFacts) -> str:
    """Subject of at most 72 characters, the model's account, what it is for, and the job as a trailer."""
    subject = md.plain(facts.title, SUBJECT_LIMIT) or f"Changes for #{facts.number}"
    if subject.startswith("#"):
        # git takes such a line for a comment whenever the message is edited.
        subject = md.plain(f"Fix: {facts.title[:SUBJECT_LIMIT]}", SUBJECT_LIMIT)
    account = (md.plain(line, 500) for line in md.head(result.summary, 2_000).split("\n"))
    body = re.sub(r"\n{3,}", "\n\n", "\n".join(line if line[:1] != "#" else f" {line}" for line in account)).strip()
    kind = "pull request" if facts.is_pull else "issue"
    trailer = f"For {kind} #{facts.number}.\n\n{JOB_TRAILER}: {facts.job_id}"
    return "\n\n".join(part for part in (subject, body, trailer) if part) + "\n"


def undo_message(facts: JobFacts, sha: str) -> str:
    """Of the commit that takes back commit ``sha``; the job as a trailer."""
    return f"Take back {sha[:12]}\n\nFor pull request #{facts.number}.\n\n{JOB_TRAILER}: {facts.job_id}\n"


JOB_TRAILER = f"{PRODUCT}-Job"
"""Names the job that made a commit, so that a repeated publish finds its own work."""


def branch_name(facts: JobFacts) -> str:
    """``agent/issue-12-short-words`` in plain ASCII; without the words when the title has none to offer."""
    stem = f"agent/{'pr' if facts.is_pull else 'issue'}-{facts.number}"
    # Only the beginning counts: a name made of what stands far behind would not be recognised.
    begin = re.sub(r"\[[^\]]*\]", " ", " ".join(md.clean(facts.title, most=TITLE_LIMIT).split())[:60])
    ascii_only = unicodedata.normalize("NFKD", begin).encode("ascii", "ignore").decode().lower()
    words = re.findall(r"[a-z0-9]+", ascii_only.replace("'", ""))
    slug = ""
    for word in words:
        if len(slug) + len(word) + 1 > _SLUG_LIMIT:
            break
        slug = f"{slug}-{word}" if slug else word
    return f"{stem}-{slug}" if re.search(r"[a-z]{3}", slug) else stem
