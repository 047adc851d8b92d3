"""``graftsmith devhub``: the embedded GitHub alone."""

from __future__ import annotations

import shutil
import sys
from functools import partial
from importlib.resources import as_file, files
from pathlib import Path

import click

from agent.files import replace_file
from app.devhub.devhub import DevHub
from app.devhub.serving import run

_OWNER, _REPOSITORY = "acme", "ledger"


@click.command(name="devhub")
@click.option(
    "--state-dir",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("devhub"),
    show_default=True,
    help="Where repositories, issues and deliveries are kept.",
)
@click.option("--port", type=click.IntRange(0, 65_535), default=8010, show_default=True, help="0 takes any free one.")
@click.option(
    "--webhook-url",
    default="http://127.0.0.1:8000/webhooks",
    show_default=True,
    help="Where `graftsmith serve` listens; counts at the first start.",
)
def devhub_command(state_dir: Path, port: int, webhook_url: str) -> None:
    """Run a stand-in for GitHub on this machine: REST, git over HTTP, webhooks and pages for a person.

    The first start makes a repository and an App that is installed on it, and writes the settings with which
    `graftsmith serve` is that App. It listens on loopback only. It is for trying things out and for tests, never a
    place to keep work.
    """
    run(state_dir, port, partial(_ready, state_dir, webhook_url))


def _ready(state_dir: Path, webhook_url: str, hub: DevHub) -> None:
    settings = state_dir / ".env"
    if not settings.exists():
        furnish(hub, settings, webhook_url)
    program = shutil.which("graftsmith") or Path(sys.argv[0]).absolute()
    click.echo(
        f"pages: {hub.url}/{_OWNER}/{_REPOSITORY}/issues\nREST:  {hub.api_url}\n"
        f"App:   start it with OPENAI_API_KEY and OPENAI_MODEL set: cd {state_dir.absolute()} && {program} serve"
    )


def furnish(hub: DevHub, settings: Path, webhook_url: str) -> None:
    """Make a repository with code and tests, and an App that is installed there.

    Args:
        settings: a file for the App's settings, in the form of ``.env``; its key is written beside it.
        webhook_url: where the App listens.
    """
    with as_file(files("app.demo").joinpath("repository")) as source:
        hub.create_repository(f"{_OWNER}/{_REPOSITORY}", source, private=False)  # strangers can be tried too
    app = hub.create_app(webhook_url=webhook_url)
    hub.install(app.id, _OWNER)
    key = settings.with_name("app.pem").absolute()
    replace_file(key, app.private_key.encode())
    values = {
        "APP_ID": app.id,
        "PRIVATE_KEY_PATH": key,
        "WEBHOOK_SECRET": app.webhook_secret,
        "GITHUB_API_URL": hub.api_url,
        "GRAFTSMITH_STATE_DIR": settings.with_name("graftsmith").absolute(),
    }
    replace_file(settings, "".join(f"{name}={value}\n" for name, value in values.items()).encode())
