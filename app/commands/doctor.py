"""``graftsmith doctor``: whether this machine can run code that nobody trusts."""

from __future__ import annotations

import click


@click.command(name="doctor")
@click.option("--json", "as_json", is_flag=True, help="The same as one JSON object.")
def doctor_command(as_json: bool) -> None:
    """What this machine has, what is missing, and which package brings it."""
    raise NotImplementedError
