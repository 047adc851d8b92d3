"""``graftsmith run``: the engine on a local checkout."""

from __future__ import annotations

import json
import os
import re
import signal
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import click

from agent.errors import UserError
from agent.types import Outcome, RunResult, Task
from app import local_run
from app.cli import ENDED, OUR_BUG, PROVEN
from app.commands import display
from app.settings import EngineSettings
from app.terminal import Terminal, heard, say


@click.command(name="run")
@click.option(
    "--repo",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=Path(),
    show_default="this folder",
    help="The checkout; its last commit is the base.",
)
@click.option("--task", default="", help="What to do. The first line is the title; `-` reads standard input.")
@click.option("--plan-only", is_flag=True, help="End when the plan is made; go on with --resume.")
@click.option(
    "--resume",
    metavar="RUN",
    default=None,
    help="Go on with an earlier run (its id or folder): carry out its plan, from its work if it was broken off.",
)
@click.option("--revise", metavar="TEXT", default="", help="With --resume: make the plan anew, with this remark.")
@click.option(
    "--test-command", default="", help="One shell line that runs the tests; `{report}` in it is a path for JUnit XML."
)
@click.option(
    "--apply/--no-apply",
    "apply",
    default=None,
    help="Change your files also when unproven / never. Without either: only when proven.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="One JSON object on standard output; progress goes to standard error."
)
def run_command(
    repo: Path,
    task: str,
    plan_only: bool,
    resume: str | None,
    revise: str,
    test_command: str,
    apply: bool | None,
    as_json: bool,
) -> int:
    """Carry out a task on a copy of a checkout, prove it, and bring the change into your files.

    Your files change only when the change is proven, or with --apply; uncommitted work is never touched. A test
    command that needs a virtual environment, node_modules or a toolchain of yours finds it, read-only.

    \b
    Examples:
      graftsmith run --task "Fix the crash when the file is empty"
      graftsmith run --task "Drop Python 3.8" --plan-only       then: graftsmith run --resume RUN
      graftsmith run --task - --test-command "pytest -q --junitxml={report}" < issue.md
    \b
    Exit codes: 0 proven (or planned) · 1 ended without success, with the outcome named
      2 usage, settings or machine (a full disk, a missing program) · 3 our bug
    \b
    Settings, from the environment or .env: OPENAI_API_KEY, OPENAI_BASE_URL, OPENAI_MODEL; all: docs/operating.md
    """
    console = Terminal(stderr=True)
    settings = local_run.settings(console)
    if resume is not None:
        wish = _resumed(settings, resume, task, revise, plan_only)
    elif revise:
        raise UserError("--revise changes the plan of an earlier run", todo="Name it with --resume")
    else:
        wish = local_run.Wish(_task(task), mode="plan" if plan_only else "work")
    wish = replace(wish, test_command=test_command or wish.test_command)
    stop, code = Stop(), list[int]()

    def tell(run: local_run.LocalRun) -> None:
        code.append(_told(run, repo, apply, as_json=as_json))
        stop.leaves(code[0])
        listener.clearing_up()

    with display.progress(console) as listener:
        local_run.run(settings, repo, wish, listeners=(listener,), cancelled=stop, tell=tell)
    return code[0]


def _told(run: local_run.LocalRun, repo: Path, apply: bool | None, *, as_json: bool) -> int:
    """Bring the change in, print how the run ended, and give the exit code."""
    applied, trouble = _bring_in(run, repo, apply)
    if as_json:
        click.echo(_json(run, applied))
    else:
        display.result(Terminal(), run.result, run.folder, applied, trouble)
    if trouble is not None:
        say(f"graftsmith: {trouble}", err=True)
    if run.result.our_fault:
        return OUR_BUG
    done = run.result.outcome in (Outcome.PLANNED, Outcome.ANSWERED) or run.result.proven
    return PROVEN if done and trouble is None else ENDED


def _resumed(settings: EngineSettings, run: str, task: str, revise: str, plan_only: bool) -> local_run.Wish:
    if task or (plan_only and not revise):
        raise UserError("A resumed run has its task and its plan already", todo='To change the plan: --revise "…"')
    wish = local_run.resumed(settings, run)
    if not revise:
        return wish
    return replace(wish, mode="plan", kept=None, task=wish.task.model_copy(update={"request": heard(revise)}))


class Stop:
    """The first Ctrl-C ends the run with its work kept, and so does a terminal that closes or whoever ends us politely;
    the second ends us. Once all is told, the first one does."""

    def __init__(self) -> None:
        self._asked = False
        self._code: int | None = None
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._on_signal)

    def __call__(self) -> bool:
        return self._asked

    def leaves(self, code: int) -> None:
        """All is told and kept: from now on a signal ends us with this code, whatever is still being cleared away."""
        self._code = code

    def _on_signal(self, number: int, frame: object) -> None:
        if self._code is not None:
            os._exit(self._code)
        if self._asked:
            raise KeyboardInterrupt
        self._asked = True
        with suppress(OSError):  # not by the console: it may be in the middle of a line of its own
            os.write(2, b"Stopping; the work so far is kept. Ctrl-C again to stop at once.\n")


def _task(text: str) -> Task:
    title, _, body = heard(text).strip().partition("\n")
    if not title:
        raise UserError("The task is empty", todo='Say what to do: --task "Fix the …"')
    return Task(title=title.strip(), body=re.sub(r"\A\s*\n", "", body))  # its first line may be indented code


def _bring_in(run: local_run.LocalRun, repo: Path, apply: bool | None) -> tuple[tuple[str, ...], UserError | None]:
    wanted = run.result.proven if apply is None else apply
    if not wanted or not run.result.change_set:
        return (), None
    try:
        return local_run.apply_change(run, repo), None
    except UserError as error:
        return (), error


def _json(run: local_run.LocalRun, applied: tuple[str, ...]) -> str:
    result: RunResult = run.result
    return json.dumps(
        {
            **result.model_dump(mode="json"),
            "proven": result.proven,
            "applied": list(applied),
            "folder": str(run.folder),
            "patch": str(run.patch) if run.patch else None,
        }
    )
