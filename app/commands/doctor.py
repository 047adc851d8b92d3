"""``graftsmith doctor``: whether this machine can run code that nobody trusts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict

import click

from agent.errors import GraftsmithError
from app.cli import ENDED, PROVEN
from sandbox import doctor
from sandbox.doctor import Check


@click.command(name="doctor")
@click.option(
    "--app", "with_app", is_flag=True, help="Also what `graftsmith serve` needs: its settings, and GitHub's word."
)
@click.option("--json", "as_json", is_flag=True, help="The same as one JSON object.")
def doctor_command(with_app: bool, as_json: bool) -> int:
    """What this machine has, what is missing, and which package brings it.

    Ends with 0 when code under test can be isolated here (and the App can work, with --app), else with 1.
    """
    checks = [*doctor.examine(), *(_app() if with_app else ())]
    usable = all(check.ok for check in checks if check.needed)
    if as_json:
        click.echo(json.dumps({"usable": usable, "checks": [asdict(check) for check in checks]}))
    else:
        for check in checks:
            mark = (
                click.style("ok", fg="green") if check.ok else click.style("no" if check.needed else "--", fg="yellow")
            )
            click.echo(f"{mark}  {check.name}: {check.detail}" + (f"\n      {check.todo}" if check.todo else ""))
    return PROVEN if usable else ENDED


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
