"""The engine on a local checkout, without GitHub: a copy is worked on, the user's tree changes only when told to."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from agent import pipeline, record
from agent.ask import NOBODY, Asker
from agent.budget import load_prices
from agent.disk import scatter
from agent.errors import UserError
from agent.events import Listener
from agent.files import replace_file
from agent.git import Git
from agent.local import apply, came_with_repository, clone_local
from agent.model.client import for_run
from agent.tree import BaseTree
from agent.types import BROKEN_OFF, ChangeSet, Commands, Mode, Plan, RunResult, RunSpec, Task
from agent.workspace import CHECKOUTS
from app.aging import DAY_S, older, remove_old
from app.machine import Machine, this_machine
from app.settings import EngineSettings, load
from app.terminal import Terminal
from sandbox import open_sandbox, remove_tree

PATCH = "change.patch"
_REMOVING_S = 600.0
"""A run that has told how it ended so long ago no longer removes anything itself."""


@dataclass(frozen=True)
class Wish:
    """What a person wants done with a checkout."""

    task: Task
    mode: Mode = "work"
    plan: Plan | None = None
    """See ``RunSpec.plan``."""
    kept: ChangeSet | None = None
    """See ``RunSpec.kept``."""
    base_sha: str | None = None
    """The commit to work on; the one that is checked out when ``None``."""
    test_command: str = ""


@dataclass(frozen=True)
class LocalRun:
    """A finished run, and where everything about it is kept."""

    folder: Path
    git_dir: Path
    result: RunResult
    patch: Path | None
    """The change as a patch; ``None`` when there is none."""


def settings(console: Terminal) -> EngineSettings:
    """The person's own settings. A ``.env`` that the checkout brought along could raise their budget or move their
    state, so it is not read.

    Raises:
        OperatorError: as ``app.settings.load``.
    """
    file = Path(".env")
    if not came_with_repository(file):
        return load(EngineSettings, env_file=file)
    console.print(
        "[yellow].env is not read:[/] git tracks it, so it is the repository's and not yours. "
        "Set what you need in the environment."
    )
    return load(EngineSettings, env_file=None)


def run(
    settings: EngineSettings,
    repository: Path,
    wish: Wish,
    *,
    listeners: tuple[Listener, ...] = (),
    cancelled: Callable[[], bool] = lambda: False,
    asker: Asker = NOBODY,
    tell: Callable[[LocalRun], None] = lambda run: None,
) -> LocalRun:
    """Carry out ``wish`` on a copy of ``repository``'s last commit.

    Args:
        asker: hears the answer to a question.
        tell: hears how it ended before the checkouts are removed, which takes a while on a slow disk. What is left of
            them where that is interrupted is removed by a later run.

    Raises:
        UserError: no git repository, no commit, or one that is too large.
        OperatorError: no sandbox starts here.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="sandbox") as beside:
        # To open one is mostly to wait for programs. A question needs none.
        sandbox = open_sandbox if wish.mode == "ask" else beside.submit(open_sandbox).result
        spec = _spec(settings, repository.resolve(), wish)
    folder = Path(spec.work_dir)
    record.keep_spec(folder, spec)
    told: list[LocalRun] = []

    def hand_over(result: RunResult) -> None:
        replace_file(folder / record.RESULT, result.model_dump_json(indent=2).encode())
        git_dir = Path(spec.git_dir)
        told.append(LocalRun(folder, git_dir, result, _keep_patch(folder, git_dir, result)))
        tell(told[0])

    pipeline.run(
        spec,
        make_model=partial(for_run, spec),
        sandbox=sandbox,
        event_file=folder / record.EVENTS,
        listeners=listeners,
        cancelled=cancelled,
        asker=asker,
        hand_over=hand_over,
    )
    _sweep(folder.parent)
    return told[0]


def _sweep(runs: Path) -> None:
    """Remove the checkouts of runs that were interrupted after they had told how they ended."""
    for left in runs.glob(f"*/{CHECKOUTS}/*"):
        if older(left.parents[1] / record.RESULT, _REMOVING_S):
            with suppress(OSError):
                remove_tree(left)


def _spec(settings: EngineSettings, origin: Path, wish: Wish) -> RunSpec:
    """The run's folders are made and its base is at hand."""
    run_id = f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(3)}"
    folder = runs_folder(settings) / run_id
    cache = settings.state_dir / "cache"
    if settings.keep_days:
        remove_old(runs_folder(settings), settings.keep_days * DAY_S)
    for place in (settings.state_dir, folder.parent, cache):
        # Others may pass through, but not look around: the sandbox's own user has to reach its checkouts.
        place.mkdir(parents=True, exist_ok=True, mode=0o711)
    scatter(folder.parent)
    folder.mkdir(mode=0o711)
    git_dir = folder / "repository.git"
    try:
        head = clone_local(origin, git_dir)
    except BaseException:  # nothing has begun that somebody could look at
        remove_tree(folder)
        raise
    # A question runs nothing: asking every package client of this machine would only keep the person waiting.
    machine = Machine("", {}) if wish.mode == "ask" else this_machine(settings)
    return RunSpec(
        run_id=run_id,
        task=wish.task,
        mode=wish.mode,
        plan=wish.plan,
        kept=wish.kept,
        review=settings.review,
        git_dir=str(git_dir),
        base_sha=wish.base_sha or head,
        view=str(origin),
        origin=str(origin),
        work_dir=str(folder),
        cache_dir=str(cache),
        commands=Commands(test=wish.test_command),
        search_path=machine.search_path,
        registries=machine.registries,
        budget=settings.budget,
        model=settings.provider,
        fallback=settings.fallback,
        prices=load_prices(settings.prices),
        embeddings=settings.embeddings,
        rerank=settings.rerank,
        seed=secrets.token_hex(16),
        command_timeout_s=settings.command_timeout_s,
    )


def runs_folder(settings: EngineSettings) -> Path:
    """Where local runs are kept, one folder each, named by their id."""
    return settings.state_dir / "local"


def resumed(settings: EngineSettings, run: str) -> Wish:
    """To carry out the plan that an earlier run ended with, on its commit; from its work, when it was broken off.

    Args:
        run: its id, or its folder.

    Raises:
        UserError: there is no such run, or it has no plan.
    """
    if not run.strip():  # an empty variable of a script: neither this folder nor a new run is meant
        raise UserError("No run is named", todo="Name its id or its folder")
    folder = Path(run) if Path(run).is_dir() else runs_folder(settings) / run
    spec, result = record.read_spec(folder), record.read_result(folder)
    if result is None or result.plan is None:
        why = "it has no result yet" if result is None else f"it ended as {result.outcome.value}: {result.reason}"
        raise UserError(f"The run {run} has no plan to go on from", why=why, todo="Start with: run --plan-only")
    kept = result.change_set if result.outcome in BROKEN_OFF and result.change_set else None
    return Wish(spec.task, "work", result.plan, kept, spec.base_sha, spec.commands.test)


def apply_change(run: LocalRun, repository: Path) -> tuple[str, ...]:
    """Write the change into the user's tree, all of it or nothing; returns the paths.

    Raises:
        NotApplied: a touched file differs from what the change was made for; the patch is kept and named.
    """
    with _base(run.git_dir, run.result) as base:
        return apply(repository.resolve(), run.result.change_set, base=base, patch=run.folder / PATCH)


def _keep_patch(folder: Path, git_dir: Path, result: RunResult) -> Path | None:
    if not result.change_set:
        return None
    with _base(git_dir, result) as base:
        replace_file(folder / PATCH, base.applied(result.change_set).diff(binary=True))
    return folder / PATCH


@contextmanager
def _base(git_dir: Path, result: RunResult) -> Iterator[BaseTree]:
    with Git(git_dir) as git:
        yield BaseTree.load(git, result.change_set.base_sha)
