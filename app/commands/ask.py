"""``graftsmith ask``: a question about the code of a local checkout, or a conversation."""

from __future__ import annotations

import json
from pathlib import Path

import click

from agent.ask import Asker
from agent.errors import UserError
from agent.types import Outcome, RunResult, Task
from app import local_run
from app.cli import ENDED, OUR_BUG, PROVEN
from app.commands import display
from app.commands.run import Stop
from app.terminal import Terminal, cleaned, heard
from sandbox.text import sound

_PROMPT = "? "


@click.command(name="ask")
@click.argument("question", required=False, default="")
@click.option(
    "--repo",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=Path(),
    show_default="this folder",
    help="The checkout; its last commit is what is asked about.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def ask_command(question: str, repo: Path, as_json: bool) -> int:
    """Answer QUESTION about the code of a checkout, naming the lines that show it. Nothing is changed or run.

    Without a question it is a conversation: one question a line, an empty line ends it. `-` reads one from standard
    input.

    Example: graftsmith ask "Where are retries counted?"

    \b
    Exit codes: 0 answered · 1 ended without an answer, with the outcome named · 2 usage or configuration · 3 our bug
    \b
    Settings, from the environment or .env: OPENAI_API_KEY, OPENAI_BASE_URL, OPENAI_MODEL; all: docs/operating.md
    """
    console = Terminal(stderr=True)
    settings = local_run.settings(console)
    conversing = not question
    if conversing and as_json:
        raise UserError("--json wants a question", todo='Give it: ask "Where is …?" --json')
    question = heard(question) if question else _next_question()
    if not question:
        return PROVEN
    seen = _Seen(console, quiet=as_json)
    asker = Asker(hear=seen.hear, more=seen.more if conversing else lambda answer: "")
    run = local_run.run(
        settings,
        repo,
        local_run.Wish(Task(title=question), mode="ask"),
        listeners=(seen.event,),
        cancelled=Stop(),
        asker=asker,
    )
    if as_json:
        click.echo(json.dumps({**run.result.model_dump(mode="json"), "folder": str(run.folder)}))
    else:
        _close(console, run.result)
    if run.result.our_fault:
        return OUR_BUG
    return PROVEN if run.result.outcome is Outcome.ANSWERED else ENDED


def _next_question() -> str:
    try:
        return sound(click.prompt("", prompt_suffix=_PROMPT, default="", show_default=False, err=True)).strip()
    except click.Abort:
        return ""


class _Seen:
    """Writes the answer as it comes, and beside it what the model looks at."""

    def __init__(self, console: Terminal, *, quiet: bool) -> None:
        self._console = console
        self._quiet = quiet

    def hear(self, text: str) -> None:
        if not self._quiet:
            # A piece may end in the middle of what a filter would take out; single signs are all that can do harm.
            click.echo(cleaned(text), nl=False)

    def more(self, answer: str) -> str:
        click.echo()
        return _next_question()

    def event(self, event: dict[str, object]) -> None:
        if event["kind"] == "tool_result" and not self._quiet:
            self._console.print(f"· {event['name']}", style="dim", markup=False)


def _close(console: Terminal, result: RunResult) -> None:
    click.echo()
    if result.outcome is not Outcome.ANSWERED:
        told = f"{result.outcome.value}: {result.reason} {result.next_step}".rstrip()
        console.print(told, style="yellow", markup=False, highlight=False)
    for note in result.notes:
        console.print(f"note: {note}", style="dim", markup=False, highlight=False)
    console.print(display.spent(result.usage), style="dim", highlight=False)
