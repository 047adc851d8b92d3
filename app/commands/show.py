"""``graftsmith show``: a run's event log for a person."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from agent.record import events_file, read_events
from app.report import words
from app.terminal import all_cleaned
from sandbox.text import shorten


@click.command(name="show")
@click.argument("file", type=click.Path(exists=True, path_type=Path))
@click.option("--full", is_flag=True, help="Whole messages and results; without it, their beginning and end.")
def show_command(file: Path, full: bool) -> None:
    """Print the event log FILE (or the run's folder) as a story: stages, model calls, tools, test runs, decisions."""
    limit = None if full else 600
    for number, event in read_events(events_file(file)):
        text = _told(all_cleaned(event), limit)
        click.echo(f"{click.style(f'{number:4d} {_clock(event)}', dim=True)}  {text}")


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
