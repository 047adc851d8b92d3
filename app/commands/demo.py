"""``graftsmith demo``: the whole path on this machine, from a labelled issue to a proven pull request."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import click
from rich.markdown import Markdown
from rich.markup import escape

from agent.errors import RetryLater
from agent.types import Outcome, RunResult
from app.cli import ENDED, OUR_BUG, PROVEN
from app.commands import display
from app.demo.scene import LABEL, Scene, scene
from app.devhub.seen import SeenPull
from app.jobs.types import Job, JobState
from app.settings import EngineSettings, default_state_dir, load
from app.terminal import Terminal, cleaned

_PATIENCE_S = 900.0
_TICK_S = 0.05


@click.command(name="demo")
@click.option(
    "--json", "as_json", is_flag=True, help="One JSON object as the last line; progress goes to standard error."
)
@click.option("--keep", is_flag=True, help="Leave the pages up afterwards, until Ctrl-C.")
@click.option(
    "--real-model",
    is_flag=True,
    help="Ask the model of your OPENAI_* settings instead of following the shipped script.",
)
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the demo keeps its things; emptied at the start.",
)
def demo_command(as_json: bool, keep: bool, real_model: bool, folder: Path | None) -> int:
    """Label an issue on the embedded GitHub, and watch it become a proven pull request.

    Everything but GitHub and the model is the real thing: webhook, job, git, sandbox, tests, proof, publishing. The
    model follows a script, in which its first change is wrong and the project's tests make it repair that.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):  # as Ctrl-C: the service beside us must end too
        if signal.getsignal(number) is not signal.SIG_IGN:  # unless it was started by nohup
            signal.signal(number, signal.default_int_handler)
    console = Terminal(stderr=as_json)
    model = load(EngineSettings).provider if real_model else None
    with scene(folder or default_state_dir() / "demo", model=model) as stage:
        issue = stage.open_issue()
        console.print(f"An issue is open: {stage.hub.url}/{stage.repo.full_name}/issues/{issue}", soft_wrap=True)
        started = time.monotonic()
        stage.repo.add_label(issue, LABEL)
        console.print(f"It now has the label [bold]{LABEL}[/]. A signed webhook is on its way.\n")
        job = _watch(console, stage, issue)
        seconds = time.monotonic() - started
        result, pull = stage.result(job), stage.pull(job)
        if as_json:
            click.echo(_json(job, result, pull, seconds))
        else:
            _show(console, stage, job, result, pull, seconds)
        if keep:
            _keep(console)
    if result is not None and result.our_fault:
        return OUR_BUG
    return PROVEN if job.ending and job.ending.outcome is Outcome.PROPOSED else ENDED


def _watch(console: Terminal, stage: Scene, issue: int) -> Job:
    """Wait for the job's end; show its status comment's changes as they come."""
    deadline, shown = time.monotonic() + _PATIENCE_S, ""
    with console.status("Waiting for the job"):
        while time.monotonic() < deadline:
            job = stage.job()
            if job is not None and job.stage != shown:
                shown = job.stage
                console.print(f"  job: {escape(shown or 'queued')}")
            if job is not None and job.state is JobState.DONE:
                return job
            time.sleep(_TICK_S)
    raise RetryLater(
        "The job did not end", why=f"waited {_PATIENCE_S:.0f} s", todo=f"See {stage.service_dir.parent / 'service.log'}"
    )


def _show(
    console: Terminal, stage: Scene, job: Job, result: RunResult | None, pull: SeenPull | None, seconds: float
) -> None:
    ending = job.ending
    assert ending is not None
    console.print(f"\n[bold]{ending.outcome.value}[/] after {seconds:.1f} s: {escape(ending.reason)}")
    if result is not None:
        display.evidence(console, result.evidence)
    if pull is not None:
        console.print(
            f"\nPull request #{pull.number}: {stage.hub.url}/{stage.repo.full_name}/pull/{pull.number}", soft_wrap=True
        )
        console.rule(escape(pull.title))
        console.print(Markdown(cleaned(pull.body or "")))
        console.rule()


def _keep(console: Terminal) -> None:
    console.print("The pages stay up until you press Ctrl-C.")
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        return


def _json(job: Job, result: RunResult | None, pull: SeenPull | None, seconds: float) -> str:
    assert job.ending is not None
    measured = result.model_dump(mode="json") if result else {}
    return json.dumps(
        {
            "outcome": job.ending.outcome,
            "reason": job.ending.reason,
            "pull_request": None
            if pull is None
            else {
                "number": pull.number,
                "title": pull.title,
                "body": pull.body,
                "head_sha": pull.head_sha,
                "draft": pull.draft,
            },
            "evidence": measured.get("evidence"),
            "usage": measured.get("usage"),
            "seconds": {**measured.get("seconds", {}), "label_to_pull_request": round(seconds, 3)},
        }
    )
