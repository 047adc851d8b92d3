"""``graftsmith serve``: the GitHub App."""

from __future__ import annotations

import click

from app import server, wiring
from app.greeting import greet, needs
from app.logs import set_up_logging
from app.settings import Settings, load


@click.command(name="serve")
def serve_command() -> None:
    """Run the GitHub App: webhooks in, pull requests out.

    \b
    Settings, from the environment or .env:
      APP_ID, PRIVATE_KEY or PRIVATE_KEY_PATH, WEBHOOK_SECRET     from the App's page on GitHub
      OPENAI_API_KEY, OPENAI_BASE_URL, OPENAI_MODEL               any OpenAI-compatible endpoint
      OPENAI_FALLBACK_MODEL                                       a second model at the same endpoint
      GITHUB_API_URL                                              only for an Enterprise server
      GRAFTSMITH_HOST, GRAFTSMITH_PORT, GRAFTSMITH_STATE_DIR      where to listen, where to keep things

    Webhooks go to /webhooks. SIGTERM drains: running jobs go on after the next start.
    """
    settings = load(Settings)
    set_up_logging(settings.log_level)
    service = wiring.build(settings, port=settings.port)
    greet(service.github, needs(settings))
    server.serve(service.app, host=settings.host, port=settings.port)
