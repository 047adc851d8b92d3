"""``graftsmith doctor``: whether this machine can run code that nobody trusts."""

from __future__ import annotations

import json
from dataclasses import asdict

import click

from app.cli import ENDED, PROVEN
from sandbox import doctor


@click.command(name="doctor")
@click.option("--json", "as_json", is_flag=True, help="The same as one JSON object.")
def doctor_command(as_json: bool) -> int:
    """What this machine has, what is missing, and which package brings it.

    Ends with 0 when code under test can be isolated here, else with 1.
    """
    checks = doctor.examine()
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
