"""``graftsmith tools``: the tool list, documented from the registry itself."""

from __future__ import annotations

import json

import click

from agent.tools import REGISTRY, specs


@click.command(name="tools")
@click.option("--json", "as_json", is_flag=True, help="The specifications that a model gets.")
def tools_command(as_json: bool) -> None:
    """The tools that the model has, with their arguments."""
    if as_json:
        click.echo(json.dumps(specs(REGISTRY), indent=2))
        return
    for tool in REGISTRY.values():
        click.secho(tool.name, bold=True)
        click.echo(click.wrap_text(tool.description, 100, "  ", "  ", preserve_paragraphs=True))
        schema = tool.arguments.model_json_schema()
        required = set(schema.get("required", ()))
        for name, field in schema.get("properties", {}).items():
            need = "" if name in required else " (optional)"
            told = f": {field['description']}" if field.get("description") else ""
            click.echo(f"    {name}{need}{told}")
        click.echo()
