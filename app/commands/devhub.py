"""``graftsmith devhub``: the embedded GitHub alone."""

from __future__ import annotations

from pathlib import Path

import click

from app.devhub.devhub import DevHub
from app.devhub.serving import run


@click.command(name="devhub")
@click.option(
    "--state-dir",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("devhub"),
    show_default=True,
    help="Where repositories, issues and deliveries are kept.",
)
@click.option("--port", default=8010, show_default=True, help="0 takes any free one.")
def devhub_command(state_dir: Path, port: int) -> None:
    """Run a stand-in for GitHub on this machine: REST, git over HTTP, webhooks and pages for a person.

    It listens on loopback only. It is for trying things out and for tests, never a place to keep work.
    """
    run(state_dir, port, on_ready=_say)


def _say(hub: DevHub) -> None:
    click.echo(f"pages: {hub.url}\nREST:  {hub.api_url}")
