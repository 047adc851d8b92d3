"""``graftsmith serve``: the GitHub App."""

from __future__ import annotations

import logging

import click

from app import server, wiring
from app.greeting import greet, needs
from app.logs import set_up_logging
from app.machine import search_path
from app.settings import Settings, environment, load
from sandbox import doctor

_log = logging.getLogger("app.serve")


@click.command(name="serve")
def serve_command() -> None:
    """Run the GitHub App: webhooks in, pull requests out.

    \b
    Settings, from the environment or .env (all of them: docs/operating.md):
      APP_ID, PRIVATE_KEY or PRIVATE_KEY_PATH, WEBHOOK_SECRET     from the App's page on GitHub
      OPENAI_API_KEY, OPENAI_BASE_URL, OPENAI_MODEL               any OpenAI-compatible endpoint
      OPENAI_FALLBACK_MODEL                                       a second model at the same endpoint
      GITHUB_API_URL                                              only for an Enterprise server
      GRAFTSMITH_HOST, GRAFTSMITH_PORT, GRAFTSMITH_STATE_DIR      where to listen, where to keep things

    Webhooks go to /webhooks; /healthz and /readyz say how it is. The log is JSON lines on standard error. SIGTERM
    drains: running jobs go on after the next start. `graftsmith doctor --app --model` checks all this beforehand.
    """
    settings = load(Settings)
    set_up_logging(settings.log_level)
    service = wiring.build(settings, port=settings.port)
    if settings.runner == "local":
        _tell_machine()
    greet(service.github, needs(settings))
    server.serve(service.app, host=settings.host, port=settings.port)


def _tell_machine() -> None:
    """Nobody should learn from the first job's report that commands are not isolated here, or that git is missing."""
    for check in doctor.examine(search_path(environment())):
        level = logging.INFO if check.ok else logging.ERROR if check.needed else logging.WARNING
        _log.log(level, "%s: %s%s", check.name, check.detail, f" ({check.todo})" if check.todo else "")
