"""``graftsmith doctor``: whether this machine can run code that nobody trusts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict

import click

from agent.errors import GraftsmithError
from app.cli import ENDED, PROVEN
from app.machine import search_path
from app.settings import environment
from app.terminal import Terminal, cleaned
from sandbox import doctor
from sandbox.doctor import Check

_PATIENCE_S = 90.0
"""For the model's answer; one on a slow machine has to be loaded first."""


@click.command(name="doctor")
@click.option(
    "--app", "with_app", is_flag=True, help="Also what `graftsmith serve` needs: its settings, and GitHub's word."
)
@click.option("--model", "with_model", is_flag=True, help="Also whether the model answers: one call of a few tokens.")
@click.option("--json", "as_json", is_flag=True, help="The same as one JSON object.")
def doctor_command(with_app: bool, with_model: bool, as_json: bool) -> int:
    """What this machine has, what is missing, and which package brings it.

    Exit codes: 0 code under test can be isolated here, and what else was asked for works · 1 it does not
    """
    checks = [
        *doctor.examine(search_path(environment())),
        *(_app() if with_app else ()),
        *(_model() if with_model else ()),
    ]
    usable = all(check.ok for check in checks if check.needed)
    if as_json:
        click.echo(json.dumps({"usable": usable, "checks": [asdict(check) for check in checks]}))
    else:
        for check in checks:
            mark = (
                click.style("ok", fg="green") if check.ok else click.style("no" if check.needed else "--", fg="yellow")
            )
            said = cleaned(check.detail) + (f"\n      {cleaned(check.todo)}" if check.todo else "")
            click.echo(f"{mark}  {check.name}: {said}")
    return PROVEN if usable else ENDED


def _model() -> Iterator[Check]:
    """Whether the endpoint, the key and the model's name belong together."""
    from agent.model.client import ModelClient
    from agent.model.link import CallLimits
    from agent.model.types import Message
    from app.local_run import settings

    try:
        endpoint = settings(Terminal(stderr=True)).provider
        with ModelClient(endpoint, limits=CallLimits(total_s=_PATIENCE_S)) as model:
            model.complete([Message.user("Are you there? Answer with one word.")])
    except GraftsmithError as error:
        yield Check("model", False, True, error.reason, error.todo)
        return
    yield Check("model", True, True, f"{endpoint.model} at {endpoint.base_url} answers")


def _app() -> Iterator[Check]:
    """The App's settings, and what GitHub says of it."""
    from app.greeting import asked, lacks, needs
    from app.settings import Settings, load
    from app.wiring import github_app

    try:
        settings = load(Settings)
        yield Check("settings", True, True, "complete")
        facts = asked(github_app(settings))
    except GraftsmithError as error:
        yield Check("GitHub App", False, True, error.reason, error.todo)
        return
    lacking = "\n      ".join(lacks(facts, needs(settings)))
    yield Check("GitHub App", not lacking, True, f"{facts.slug}, number {facts.id}", lacking)
