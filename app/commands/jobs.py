"""``graftsmith jobs``: what the service was asked for, how it ended, and what that has cost."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from rich.markup import escape

from app.commands import display
from app.jobs.store import JobStore
from app.jobs.tables import database_url
from app.jobs.types import Job, JobState
from app.report import words
from app.settings import StoreSettings, load
from app.terminal import Terminal

_REASON = 160
"""Characters of why a job did not succeed."""
_LOOKED_AT = 10_000
"""Jobs among which those of one repository are looked for."""


@click.command(name="jobs")
@click.option("-n", "--number", type=click.IntRange(1, 10_000), default=20, show_default=True, help="The newest ones.")
@click.option("--repository", default="", help="Only of this one: OWNER/NAME.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line, the newest first.")
def jobs_command(number: int, repository: str, as_json: bool) -> None:
    """List the jobs of the service on this machine: what was asked where and by whom, how it ended, what it cost.

    Reads the same settings as `graftsmith serve` (GRAFTSMITH_STATE_DIR, GRAFTSMITH_DATABASE_URL), and may be used while
    that runs. `graftsmith show ID` tells what happened in a job.
    """
    settings = load(StoreSettings)
    file = settings.state_dir / "database" / "jobs.sqlite"
    if settings.database_url is None and not file.exists():
        if not as_json:
            click.echo(f"No job has come to {settings.state_dir} yet.")
        return
    found = _newest(database_url(settings.database_url, settings.state_dir, "jobs"), number, repository.lower())
    if as_json:
        for job in found:
            click.echo(json.dumps(_told(job, settings.state_dir), ensure_ascii=False))
        return
    _show(Terminal(), found)


def _newest(url: str, number: int, repository: str) -> Sequence[Job]:
    with JobStore(url) as store:
        found = store.recent(_LOOKED_AT if repository else number)
    return [job for job in found if repository in ("", job.command.repository.lower())][:number]


def _told(job: Job, state_dir: Path) -> dict[str, Any]:
    command = job.command
    return {
        "id": job.id,
        "asked": datetime.fromtimestamp(job.created_at, UTC).isoformat(timespec="seconds"),
        "repository": command.repository,
        "number": command.number,
        "command": command.word.value,
        "by": command.requester,
        "state": job.state.value,
        "stage": job.stage,
        "outcome": job.ending.outcome.value if job.ending else None,
        "reason": job.ending.reason_in_full if job.ending else None,
        "pull": job.artefacts.pull_number,
        "seconds": _seconds(job),
        "usage": job.usage.model_dump(),
        "folder": str(state_dir / "jobs" / job.id),
    }


def _seconds(job: Job) -> float | None:
    """How long it has been worked on; ``None`` before it begins."""
    if job.started_at is None:
        return None
    return round((job.finished_at or time.time()) - job.started_at, 1)


def _show(console: Terminal, jobs: Sequence[Job]) -> None:
    for job in jobs:
        seconds, command = _seconds(job), job.command
        at = datetime.fromtimestamp(job.created_at).strftime("%Y-%m-%d %H:%M")
        pull = f" → #{job.artefacts.pull_number}" if job.artefacts.pull_number else ""
        what = escape(f"{command.repository}#{command.number}{pull}  {command.word.value} by {command.requester}: ")
        more = ", ".join((*([] if seconds is None else [words.duration(seconds)]), words.money(job.usage)))
        console.print(f"[dim]{at}[/]  {what}{_ending(job)}", soft_wrap=True)
        console.print(f"[dim]{'':16}  {more}; {job.id}[/]", soft_wrap=True)
    calls = sum(job.usage.calls for job in jobs)
    tokens = sum(job.usage.input_tokens + job.usage.output_tokens for job in jobs)
    dollars = sum(job.usage.dollars or 0.0 for job in jobs)
    unpriced = sum(1 for job in jobs if job.usage.calls and job.usage.dollars is None)
    console.print(
        f"{words.count(len(jobs), 'job')}: {words.count(calls, 'model call')}, {words.count(tokens, 'token')}, "
        f"${dollars:,.2f}" + (f" and {words.count(unpriced, 'job')} with a model of unknown price" if unpriced else ""),
        soft_wrap=True,
    )


def _ending(job: Job) -> str:
    if job.ending is not None:
        outcome = job.ending.outcome
        reason = "" if outcome in display.GOOD else f": {escape(' '.join(job.ending.reason[:_REASON].split()))}"
        return f"[dim]ignored{reason}[/]" if job.ending.silent else outcome.value.replace("_", " ") + reason
    return f"[yellow]{escape(job.stage or 'waiting')}[/]" if job.state is JobState.RUNNING else "[dim]waiting[/]"
