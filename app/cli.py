"""The command line. A command's module is imported when the command is used, so that ``--help`` is instant."""

from __future__ import annotations

import json
import sys
import traceback
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING

import click

from app.entry import INTERRUPTED

if TYPE_CHECKING:
    from agent.errors import GraftsmithError
    from sandbox import SandboxError

PROVEN, ENDED, USAGE, OUR_BUG = 0, 1, 2, 3
"""Exit codes: proven · ended without success, with the outcome named · usage or configuration · a bug of ours."""


@dataclass(frozen=True)
class Entry:
    """One command: where it lives, and its line in ``--help``."""

    module: str
    help: str


SECTIONS: dict[str, dict[str, Entry]] = {
    "Change code": {
        "run": Entry("app.commands.run", "Carry out a task on a local checkout, with proof."),
    },
    "Know a repository": {
        "ask": Entry("app.commands.ask", "Answer a question about the code, with the lines that show it."),
        "index": Entry("app.cli_index", "Index a folder and say what was found."),
        "search": Entry("app.cli_index", "Find the files and functions that a text is about."),
        "symbols": Entry("app.cli_index", "Where a name is defined and used."),
        "map": Entry("app.cli_index", "An overview that fits a number of tokens."),
    },
    "Serve GitHub": {
        "setup": Entry("app.commands.setup", "Have GitHub make the App, and keep its key."),
        "serve": Entry("app.commands.serve", "Run the GitHub App: webhooks in, pull requests out."),
        "runner": Entry("app.commands.runner", "Carry out one run of a service inside a job of GitHub Actions."),
        "demo": Entry("app.commands.demo", "Label an issue on the embedded GitHub, watch it become a pull request."),
        "devhub": Entry("app.commands.devhub", "Run the embedded GitHub alone."),
    },
    "Look closer": {
        "jobs": Entry("app.commands.jobs", "What the service was asked for, how it ended, and what it cost."),
        "show": Entry("app.commands.show", "Print a run's event log for a person."),
        "replay": Entry("app.commands.replay", "Run a recorded run again, offline, and say where it differs."),
        "tools": Entry("app.commands.tools", "The tools that the model has, from the registry."),
        "doctor": Entry("app.commands.doctor", "What this machine has, and what is missing."),
    },
}
_COMMANDS = {name: entry for section in SECTIONS.values() for name, entry in section.items()}


class Commands(click.Group):
    """The commands of ``SECTIONS``, imported one at a time."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = _COMMANDS.get(cmd_name)
        if entry is None:
            return None
        command: click.Command = getattr(import_module(entry.module), f"{cmd_name}_command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, section in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name, entry.help) for name, entry in section.items()])


@click.command(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version("graftsmith"), prog_name="graftsmith")
def cli() -> None:
    """Turns an issue into one pull request that is proven by the project's own tests.

    \b
    First steps:
      graftsmith demo                                 see the whole path, offline
      graftsmith doctor --model                       can this machine isolate tests, does the model answer?
      graftsmith run --repo . --task "Fix the …"      work on a checkout of yours
      graftsmith setup --url https://YOUR-HOST        make the GitHub App; then: graftsmith serve

    \b
    Exit codes: 0 done · 1 ended without success · 2 usage or configuration · 3 our bug · 130 stopped by Ctrl-C
    With --json an error is an object on standard output as well: {"error": {"what", "why", "todo"}}
    """


def main() -> None:
    """Run the command line and exit; the one place that turns errors into exit codes."""
    from agent.errors import BugError, GraftsmithError

    try:
        code = cli.main(standalone_mode=False)
    except click.exceptions.Abort:
        click.echo("stopped", err=True)
        code = _failed(INTERRUPTED, "stopped")
    except click.ClickException as error:
        error.show()
        code = _failed(USAGE, error.format_message())
    except BugError as error:
        code = _told(OUR_BUG, error)
    except GraftsmithError as error:
        code = _told(USAGE, error)
    except BrokenPipeError:  # the reader of our output has gone: nothing is left to say
        sys.stderr.close()
        code = ENDED
    except Exception as error:  # the one catch-all of this process
        code = unexpected(error)
    sys.exit(code if isinstance(code, int) else PROVEN)


def _told(code: int, error: GraftsmithError | SandboxError) -> int:
    from app.terminal import say

    say(f"graftsmith: {error}", err=True)
    return _failed(code, error.what, error.why, error.todo)


def _failed(code: int, what: str, why: str = "", todo: str = "") -> int:
    """Who asked for ``--json`` reads standard output alone, so the error stands there too; returns ``code``."""
    if "--json" in sys.argv[1:]:
        with suppress(OSError):
            click.echo(json.dumps({"error": {"what": what, "why": why, "todo": todo}}))
    return code


def unexpected(error: Exception) -> int:
    """Tell an error that no part foresaw; returns the exit code."""
    from agent.errors import OperatorError, disk_full
    from sandbox import SandboxError

    if disk_full(error):
        return _told(USAGE, OperatorError("The disk is full", todo="Make room in GRAFTSMITH_STATE_DIR, then try again"))
    if isinstance(error, SandboxError):  # a program that we need is not there, or nothing isolates commands here
        return _told(USAGE, error)
    traceback.print_exception(error)
    click.echo("graftsmith: This is a bug of ours, not of your code. Please report it with the lines above.", err=True)
    return _failed(
        OUR_BUG, f"{type(error).__name__}: {error}", "This is a bug of ours", "Report it, with the traceback"
    )


if __name__ == "__main__":
    main()
