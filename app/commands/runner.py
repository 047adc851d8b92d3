"""``graftsmith runner``: one run of a service, carried out inside a job of GitHub Actions."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from app.machine import this_machine
from app.runners.elsewhere import Gone, Identity, carry_out
from app.settings import RunnerSettings, load
from sandbox import remove_tree


@click.command(name="runner")
@click.option("--url", required=True, help="Address of the service: its GRAFTSMITH_PUBLIC_URL.")
@click.option("--run", required=True, help="The run that the workflow was started for.")
def runner_command(url: str, run: str) -> None:
    """Carry out one run of the service at URL, inside a job of GitHub Actions.

    The job proves by its identity token which workflow it is (`permissions: id-token: write`); it needs no secret and
    no other permission. docs/operating.md shows the workflow. Exit code 0: the result was brought to the service, or
    nobody waits for one any more.
    """
    settings = load(RunnerSettings, env_file=None)
    identity = Identity(settings.identity_url, settings.identity_token)
    settings.state_dir.mkdir(parents=True, exist_ok=True, mode=0o711)
    folder = Path(tempfile.mkdtemp(prefix="run-", dir=settings.state_dir))
    folder.chmod(0o711)  # the sandbox's own user passes through to its checkouts
    try:
        result = carry_out(url.rstrip("/"), run, identity, this_machine(settings), folder, _say)
        click.echo(f"The run has ended as {result.outcome.value}. The service has its result.")
    except Gone as gone:
        click.echo(str(gone))
    finally:
        remove_tree(folder)


def _say(event: Mapping[str, Any]) -> None:
    """The stages alone: what else an event holds may be anybody's words, and this log obeys some."""
    if event.get("kind") == "stage":
        click.echo(f"stage: {event['name']}")
