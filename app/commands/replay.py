"""``graftsmith replay``: a recorded run once more, offline, against a copy."""

from __future__ import annotations

import difflib
import tempfile
from pathlib import Path

import click

from agent import prompts, record
from agent.errors import UserError
from agent.local import clone_local
from agent.model.recorded import Divergence
from agent.replay import Replay, replay
from agent.secrets import redact
from agent.types import ChangeSet, RunResult, RunSpec
from app.cli import ENDED, PROVEN
from app.commands import display
from app.commands.run import Stop
from app.commands.show import log_of
from app.terminal import Terminal, say
from sandbox import remove_tree

_DIFF_LINES = 40


@click.command(name="replay")
@click.argument("run")
@click.option(
    "--repo",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A checkout that has the run's base commit; without it, the one that the run had.",
)
def replay_command(run: str, repo: Path | None) -> int:
    """Carry RUN out again and say where it differs from what was recorded. RUN is named as for `graftsmith show`.

    The model's replies come from the record, so nothing is asked of any endpoint and nothing is paid; everything else
    is done again, on a copy: index, tests, edits, proof.

    \b
    Exit codes: 0 the same · 1 it differs · 2 usage
    """
    log = log_of(run)
    events = [event for _, event in record.read_events(log)]
    spec, recorded = record.read_spec(log.parent), record.read_result(log.parent)
    console = Terminal(stderr=True)
    folder = Path(tempfile.mkdtemp(prefix="graftsmith-replay-"))
    folder.chmod(0o711)  # the sandbox's own user has to reach the checkouts in it
    try:
        moved = _moved(spec, folder, repo)
        with display.progress(console) as listener:
            done = replay(moved, events, event_file=folder / record.EVENTS, listeners=(listener,), cancelled=Stop())
    finally:
        remove_tree(folder)
    for line in _told(done, recorded):
        say(line)
    return PROVEN if done.same and _same_change(done, recorded) else ENDED


def _moved(spec: RunSpec, folder: Path, repo: Path | None) -> RunSpec:
    """The spec with folders that are there, and a copy of its own to work on."""
    cache = Path(spec.cache_dir) if Path(spec.cache_dir).is_dir() else folder / "cache"
    cache.mkdir(exist_ok=True, mode=0o711)
    git_dir = Path(spec.git_dir)
    origin = spec.origin
    if repo is not None:
        git_dir = folder / "repository.git"
        clone_local(repo.resolve(), git_dir)
        origin = str(repo.resolve()) if spec.origin else None
    if not git_dir.is_dir():
        raise UserError(f"The run's repository {git_dir} is gone", todo="Name a checkout with --repo")
    if origin is not None and not Path(origin).is_dir():
        origin = None
    return spec.model_copy(
        update={"git_dir": str(git_dir), "origin": origin, "work_dir": str(folder), "cache_dir": str(cache)}
    )


def _same_change(done: Replay, recorded: RunResult | None) -> bool:
    return recorded is None or _written(done.result.change_set) == _written(recorded.change_set)


def _written(change_set: ChangeSet) -> list[object]:
    """The change, but for the tokens that the log, from which the replay has it, does not hold."""
    changes = ((c.path, c.mode, c.content and redact(c.content.decode("latin-1"))) for c in change_set.changes)
    return [change_set.base_sha, *changes]


def _told(done: Replay, recorded: RunResult | None) -> list[str]:
    if done.same and _same_change(done, recorded):
        return [f"The same: {done.calls} model calls, outcome {done.result.outcome.value}"]
    lines = [_divergence(done.divergences[0], len(done.divergences))] if done.divergences else []
    if done.unused:
        lines.append(f"The record holds {done.unused} more model calls than the replay made")
    if done.outcome and done.outcome != done.result.outcome.value:
        lines.append(f"Outcome: recorded {done.outcome}, replayed {done.result.outcome.value}: {done.result.reason}")
    if not _same_change(done, recorded):
        lines.append("The change is another one than the recorded")
    if recorded is not None and recorded.prompt_version != prompts.version():
        lines.append(f"The prompts have changed since: {recorded.prompt_version}, now {prompts.version()}")
    return lines


def _divergence(first: Divergence, count: int) -> str:
    head = f"Model call {first.call}, message {first.message} differs"
    more = f" (and {count - 1} later calls)" if count > 1 else ""
    diff = list(
        difflib.unified_diff(
            first.recorded.splitlines(), first.replayed.splitlines(), "recorded", "replayed", lineterm="", n=1
        )
    )
    cut = [f"… {len(diff) - _DIFF_LINES} more lines"] if len(diff) > _DIFF_LINES else []
    return "\n".join([f"{head}{more}:", *diff[:_DIFF_LINES], *cut])
