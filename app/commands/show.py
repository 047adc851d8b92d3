"""``graftsmith show``: a run's event log for a person."""

from __future__ import annotations

import json
from datetime import datetime
from glob import escape
from pathlib import Path
from typing import Any

import click

from agent.errors import UserError
from agent.record import EVENTS, events_file, read_events
from app.report import words
from app.settings import StoreSettings, load
from app.terminal import all_cleaned
from sandbox.text import shorten


@click.command(name="show")
@click.argument("run")
@click.option("--full", is_flag=True, help="Whole messages and results; without it, their beginning and end.")
def show_command(run: str, full: bool) -> None:
    """Print what happened in RUN as a story: stages, model calls, tools, test runs, decisions.

    RUN is the id of a run of yours, the id of a job (`graftsmith jobs` lists them; of its last run), a run's folder, or
    its events.jsonl. Example: graftsmith show 20260203-093000-1a2b3c
    """
    limit = None if full else 600
    for number, event in read_events(log_of(run)):
        text = _told(all_cleaned(event), limit)
        click.echo(f"{click.style(f'{number:4d} {_clock(event)}', dim=True)}  {text}")


def log_of(run: str) -> Path:
    """The event log of a run.

    Args:
        run: a log, a run's folder, or an id: of a run from the shell, or of a job, which stands for its last run.

    Raises:
        UserError: there is none.
    """
    if not run.strip():
        raise UserError("No run is named", todo="Name its id, its folder or its log")
    if Path(run).exists():
        return events_file(Path(run))
    state = load(StoreSettings).state_dir
    logs = [*(state / "local").glob(f"{escape(run)}/{EVENTS}"), *(state / "jobs").glob(f"{escape(run)}/run-*/{EVENTS}")]
    if not logs:
        raise UserError(
            f"There is no run {run}",
            why=f"It is no file or folder, and no id of a run or job in {state}",
            todo="Name a run's folder, or an id that `graftsmith jobs` lists",
        )
    return max(logs, key=lambda log: log.stat().st_mtime)


def _clock(event: dict[str, Any]) -> str:
    try:
        return datetime.fromtimestamp(float(event.get("at", 0))).strftime("%H:%M:%S")
    except (TypeError, ValueError, OverflowError, OSError):
        return "??:??:??"


def _told(event: dict[str, Any], limit: int | None) -> str:
    """A log of another version may lack what we look for: then it is shown as it is."""
    try:
        return _TELLERS[str(event.get("kind"))](event, limit)
    except (KeyError, TypeError, AttributeError, ValueError):
        return _other(event, limit)


def _stage(event: dict[str, Any], limit: int | None) -> str:
    return click.style(f"── {event['name']} ──", bold=True)


def _model_call(event: dict[str, Any], limit: int | None) -> str:
    lines = [click.style(f"model {event['model']}, {event['seconds']:.1f} s", fg="cyan")]
    lines += [_indented(f"{m['role']}: {m['content']}", limit) for m in event["messages"] if m["role"] != "assistant"]
    reply, error = event.get("reply"), event.get("error")
    if reply:
        usage = reply["usage"]
        lines.append(_indented(f"reply: {reply['text']}", limit))
        lines += [_indented(f"calls {c['name']} {c['arguments']}", limit) for c in reply["tool_calls"]]
        lines.append(f"        {usage['input_tokens']} tokens in, {usage['output_tokens']} out")
    if error:
        lines.append(_indented(f"failed: {error['what']} {error['why']}", limit))
    return "\n".join(lines)


def _tool_result(event: dict[str, Any], limit: int | None) -> str:
    mark = "" if event["ok"] else click.style(" refused", fg="yellow")
    return f"{event['name']}{mark}\n{_indented(event['text'], limit)}"


def _test_run(event: dict[str, Any], limit: int | None) -> str:
    run = event["run"]
    failed = f", failed: {', '.join(run['failed'][:5])}" if run["failed"] else ""
    kept = ", measured by an earlier run" if event.get("kept") else ""
    return (
        f"tests {run['status']}: {run['passed']} passed, {words.failures(run)} failed, {run['seconds']} s{failed}{kept}"
    )


def _check(event: dict[str, Any], limit: int | None) -> str:
    found = [f"        {f['path']}:{f['line']}: {f['rule']} {f['message']}" for f in event["found"]]
    told = event["silent"] or f"{len(found) + event['more']} new"
    return "\n".join((f"{event['tool']}: {told}", *found))


def _other(event: dict[str, Any], limit: int | None) -> str:
    told = {key: value for key, value in event.items() if key not in ("at", "kind", "stage")}
    return f"{event.get('kind')} {shorten(json.dumps(told, ensure_ascii=False), limit or 10**9)}"


_TELLERS = {
    "stage": _stage,
    "model_call": _model_call,
    "tool_result": _tool_result,
    "test_run": _test_run,
    "check": _check,
}


def _indented(text: str, limit: int | None) -> str:
    return "\n".join(f"        {line}" for line in shorten(text, limit).splitlines())
