"""``graftsmith runner``: one run of a service, carried out inside a job of GitHub Actions."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from threading import Event
from typing import Any

import click

from app.machine import this_machine
from app.runners.client import Gone, Identity
from app.runners.elsewhere import carry_out
from app.settings import RunnerSettings, load


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
    stop = Event()
    for number in (signal.SIGINT, signal.SIGTERM):  # a job that is cancelled gets one after the other, in ten seconds
        signal.signal(number, lambda *_: stop.set())
    try:
        result = carry_out(url.rstrip("/"), run, identity, this_machine(settings), settings.state_dir, _say, stop)
    except Gone as gone:
        click.echo(str(gone))
    else:
        click.echo(f"The run has ended as {result.outcome.value}. The service has its result.")


def _say(event: Mapping[str, Any]) -> None:
    """The stages alone: what else an event holds may be anybody's words, and this log obeys some."""
    if event.get("kind") == "stage":
        click.echo(f"stage: {event['name']}")
