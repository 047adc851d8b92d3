"""Runs the target's tests in the sandbox and reports what was measured.

Every run gets a fresh report folder outside the checkout. A status is given only where the report, the exit code and
the ids that the tree can hold agree; see ``verdict``.
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Final

from agent.disk import check_room
from agent.events import Events
from agent.tree import Draft
from agent.types import SuiteStatus, TestOutcome, TestRun
from agent.verify.checkouts import Checkouts
from agent.verify.environment import COMMON, Environment, Machine
from agent.verify.installer import Installer
from agent.verify.ran import Ran
from agent.verify.report import Unreadable
from agent.verify.report_folder import ReportFolder
from agent.verify.set_up import SetUp
from agent.verify.store import SCRATCH, SetupFailed, Store
from agent.verify.toolchains import TOOLCHAINS, build_of
from agent.verify.toolchains.base import BUILD, REPORTS, WATCH, Collected, Invocation, TestPlan, shell
from agent.workspace import Checkout, Workspace
from sandbox.text import clean, sound
from sandbox.types import Cancelled, Command, End, Finished, Limits, Mount, Sandbox

_BUILD_FOLDER: Final = ".graftsmith-build"
"""In a checkout: what a compiler keeps of its work there."""
_PLACE: Final = "place"
_TELL_PLACE: Final = 'pwd -P > "$1"; shift; exec "$@"'
"""Where the checkout really is: in a sandbox /var/tmp is a link, and without namespaces the whole checkout is one."""
_TAKE_UP: Final = 'to=$1 from=$2; shift 2; [ -e "$to" ] || cp -a "$from" "$to" 2>/dev/null; exec "$@"'
_QUIET_S: Final = 240.0
"""Nobody waits so long for anything where there is no network and nothing else runs."""


@dataclass(frozen=True)
class Aside:
    """How a command ended, and which files of the draft it changed or removed in its copy."""

    finished: Finished
    altered: tuple[str, ...]


@dataclass(frozen=True)
class Watch:
    """What is added to a run of the tests to see more of it."""

    files: Mapping[str, bytes]
    """Name → content of what is seen in the folder ``WATCH``."""
    env: Mapping[str, str]
    paths: Mapping[str, str]
    """Variables that hold a search path → the folder that comes first in them."""
    line: str = ""
    """What runs the tests in place of the plan's own line; empty where that does."""


class Harness:
    """Tests drafts of one workspace by one plan.

    Args:
        plan: from ``toolchains.detect`` on the base commit, so that a change can't alter how it is judged.
        machine: what the caller knows of this machine.
        limits: of each command.
    """

    def __init__(
        self,
        workspace: Workspace,
        sandbox: Sandbox,
        plan: TestPlan,
        events: Events,
        *,
        machine: Machine,
        limits: Limits,
        cancelled: Cancelled | None = None,
    ) -> None:
        self.workspace = workspace
        self.sandbox = sandbox
        self.plan = plan
        self._events = events
        self.limits = limits
        self._cancelled = cancelled
        self._store = Store(Path(workspace.spec.cache_dir) / "environments")
        self._checkouts = Checkouts(workspace)
        set_up = SetUp(workspace, sandbox, machine.registries, events, limits, cancelled)
        self._installer = Installer(workspace, self._checkouts.base_as_new, plan, machine, set_up, self._store)
        self._build = build_of(plan)
        self._environment: Environment | None = None
        self.unexplained: frozenset[str] = frozenset()
        """Ids that the base reported though no file explains them: a change may report them too."""
        self._folder = Path(workspace.spec.work_dir) / "tests"
        self._folder.mkdir(parents=True, exist_ok=True)

    def check_out(self) -> None:
        """Write the base's files, which set-up and tests begin with. Done once; they do it when it was not."""
        if not self.plan.absent:
            self._checkouts.prepare()

    def setup(self) -> None:
        """Find or install what the tests need. Done once; ``run`` does it when it was not.

        Raises:
            SetupFailed: nothing can be tested.
        """
        if self._environment is None:
            self._use(self._installed())

    def install(self) -> bool:
        """Take an installed environment in place of the user's own; false where there is none, and nothing changes."""
        before = self.environment
        if before.source != "yours" or self.plan.absent:
            return False
        try:
            found = self._installer.find(own=False)
        except SetupFailed as error:
            self._environment = replace(before, notes=(*before.notes, str(error)))
            self._tell(self._environment)
            return False
        if found.source == "none":
            return False
        self._use(found)
        return True

    def astray(self) -> str:
        """From where else the tests would import the project, in the user's own environment; empty mostly."""
        return "" if self.plan.absent else self._installer.astray(self.environment)

    def _use(self, environment: Environment) -> None:
        """From here on. What the tests may see of a set-up is in there, and not in the checkout."""
        self._environment = environment
        self._checkouts.tidy()
        self._tell(environment)

    def _tell(self, environment: Environment) -> None:
        self._events.emit("note", text="test environment", source=environment.source, notes=environment.notes)

    def _installed(self) -> Environment:
        if self.plan.absent:
            return Environment()
        try:
            return self._installer.find()
        except SetupFailed as error:
            if not self.plan.first:
                raise
            self._give_up(str(error))
            return Environment()

    def _give_up(self, why: str) -> None:
        """Nothing is lost: there is no test yet that could have been run."""
        self.plan = replace(self.plan, absent=f"there are no tests yet, and nothing could run new ones: {why}")

    @property
    def environment(self) -> Environment:
        self.setup()
        assert self._environment is not None
        return self._environment

    def run(
        self,
        draft: Draft,
        selection: Sequence[str] = (),
        name: str = "tests",
        *,
        fresh: bool = False,
        wall_s: float | None = None,
    ) -> TestRun:
        """Run all tests, or the selected ids and files, on ``draft``.

        Args:
            name: of the run, for logs.
            fresh: in a checkout that is as if no run had touched it: contents, modes and ages, and nothing besides.
            wall_s: seconds after which it is stopped, where these are fewer than a command has.
        """
        self.setup()
        if self.plan.absent:
            return self._without_run(SuiteStatus.NO_TESTS, self.plan.absent)
        strange = [test for test in selection if test.startswith("-")]
        if strange:  # they come from a model, and a runner would take them for options
            return self._without_run(SuiteStatus.NOT_RUN, f"{strange[0]!r} is no test id and no test file")
        try:
            environment = self._fitting(draft)
        except SetupFailed as error:
            return self._without_run(SuiteStatus.NOT_RUN, error.what, log=error.why)
        invocation = TOOLCHAINS[self.plan.toolchain].invoke(self.plan, draft, selection, self._view)
        place, checkout = self._place(name), self._checkout(draft, fresh=fresh)
        ran = self._execute(invocation, environment, checkout, place, limits=self._within(wall_s))
        run, unexplained = ran.measured(
            TOOLCHAINS[self.plan.toolchain],
            draft,
            known=self.unexplained if draft.edits else None,
            isolation=self.sandbox.isolation.name,
        )
        if not draft.edits:
            self.unexplained |= unexplained
        if self.plan.without and not selection:
            run = _with_endless(run, self.plan.without)
        self._events.emit("test_run", name=name, selection=tuple(selection), run=run.summary)
        if self.plan.first and not draft.edits and not (run.status.concludes or run.status is SuiteStatus.NO_TESTS):
            self._give_up(run.detail)
            return self._without_run(SuiteStatus.NO_TESTS, self.plan.absent)
        return run

    def leave_out(self, tests: Collection[str]) -> None:
        """From now on these never-ending tests are not run where all are; each counts as one that fails."""
        self.plan = replace(self.plan, without=(*self.plan.without, *tests))

    def recall(self, run: TestRun, unexplained: Collection[str]) -> None:
        """Take what an earlier run measured of the base for a run of this one's.

        Args:
            unexplained: what that run found of the kind.
        """
        self.unexplained |= frozenset(unexplained)
        self._events.emit("test_run", name="baseline", selection=(), run=run.summary, kept=True)

    def watched(self, draft: Draft, selection: Sequence[str], watch: Watch, wall_s: float) -> Collected:
        """What ``watch`` left in the report folder during one more run of the tests, which itself decides nothing.

        Args:
            wall_s: seconds after which it is given up.

        Returns:
            No reports where the run was stopped.
        """
        environment = self._fitting(draft)
        plan = replace(self.plan, line=watch.line or self.plan.line)
        invocation = TOOLCHAINS[plan.toolchain].invoke(plan, draft, selection, self._view)
        place = self._place("watched")
        files = place / "watch"
        files.mkdir(mode=0o755)
        for name, content in watch.files.items():
            (files / name).write_bytes(content)
        known = {**environment.env, **invocation.env}
        paths = {name: ":".join(filter(None, (first, known.get(name)))) for name, first in watch.paths.items()}
        seeing = replace(invocation, env={**invocation.env, **watch.env, **paths})
        checkout, mounts = self._checkouts.pristine(draft), (Mount(files, WATCH),)
        ran = self._execute(seeing, environment, checkout, place, mounts, limits=self._within(wall_s))
        seen = {"status": ran.finished.end, "passed": 0, "failed": [], "seconds": round(ran.finished.seconds, 3)}
        self._events.emit("test_run", name="watched", selection=tuple(selection), run=seen)
        return ran.collected if ran.finished.end is End.EXITED else replace(ran.collected, reports={})

    def command(self, draft: Draft, argv: tuple[str, ...], wall_s: float, *, fresh: bool = False) -> Finished:
        """Run any other command on ``draft``, in the tests' environment.

        Args:
            wall_s: seconds after which it is stopped.
            fresh: see ``run``.
        """
        self.setup()
        checkout = self._checkout(draft, fresh=fresh)
        finished = self._run(argv, {}, self.environment, checkout, limits=self._within(wall_s))
        seconds, code = round(finished.seconds, 3), finished.exit_code
        self._events.emit("note", text="command", argv=argv, end=finished.end, exit_code=code, seconds=seconds)
        return finished

    def aside(self, draft: Draft, line: str, limits: Limits) -> Aside:
        """Run one shell line on ``draft`` in the tests' environment; what it changes in its fresh checkout is lost.

        Raises:
            SetupFailed: what is compiled of ``draft`` can't be built.
        """
        environment = self._fitting(draft)
        checkout = self._checkouts.pristine(draft)
        finished = self._run(shell(line), {}, environment, checkout, limits=limits)
        return Aside(finished, checkout.altered())

    def rebuilt(self, draft: Draft) -> bool:
        """Whether the tests of ``draft`` see what is compiled as it is built of it, and not of the base."""
        return self._fitting(draft) is not self.environment

    def shown(self, draft: Draft, selection: Sequence[str] = ()) -> tuple[str, ...]:
        """The command that runs the same tests, for a person in a checkout of their own."""
        invocation = TOOLCHAINS[self.plan.toolchain].invoke(self.plan, draft, selection, self._view)
        return tuple(map(sound, invocation.shown))

    def close(self) -> None:
        """Remove the checkouts, and let go of the environment."""
        self._checkouts.close()
        self._store.close()

    # ── inside ──

    @property
    def _view(self) -> str:
        return self.workspace.spec.view

    def _fitting(self, draft: Draft) -> Environment:
        """The environment, with what is compiled built of ``draft`` where that is installed and can be built again."""
        if not self.environment.id:  # what is not ours is not built again
            return self.environment
        return self._installer.rebuilt(draft, self._checkouts.pristine) or self.environment

    def _within(self, wall_s: float | None) -> Limits:
        return self.limits if wall_s is None else replace(self.limits, wall_s=min(self.limits.wall_s, wall_s))

    def _checkout(self, draft: Draft, *, fresh: bool) -> Checkout:
        return self._checkouts.pristine(draft) if fresh else self._checkouts.working(draft)

    def _place(self, name: str) -> Path:
        """A fresh folder for what one run leaves."""
        place = Path(tempfile.mkdtemp(prefix=f"{name[:40]}-", dir=self._folder))
        place.chmod(0o755)
        return place

    def _execute(
        self,
        invocation: Invocation,
        environment: Environment,
        checkout: Checkout,
        place: Path,
        more: tuple[Mount, ...] = (),
        *,
        limits: Limits,
    ) -> Ran:
        limits = replace(limits, quiet_s=limits.quiet_s or _QUIET_S)
        argv = shell(_TELL_PLACE, f"{REPORTS}/{_PLACE}", *invocation.argv)
        reports, unreadable = {}, ""
        with ReportFolder(place / "report", self.sandbox) as folder:
            mounts, log = (folder.mount, *more), place / "output.log"
            finished = self._run(argv, invocation.env, environment, checkout, mounts, limits=limits, log=log)
            try:
                reports = folder.take()
            except Unreadable as error:
                unreadable = str(error)
        really = clean(reports.pop(_PLACE, b"")).strip()
        views = (self._view, *([really] if really.startswith("/") else []))
        return Ran(invocation, finished, Collected(reports, finished.output, views), unreadable)

    def _run(
        self,
        argv: tuple[str, ...],
        env: Mapping[str, str],
        environment: Environment,
        checkout: Checkout,
        mounts: tuple[Mount, ...] = (),
        *,
        limits: Limits,
        log: Path | None = None,
    ) -> Finished:
        if self._build is not None:
            folder = f"{self._view}/{_BUILD_FOLDER}"
            argv, env = shell(_TAKE_UP, folder, BUILD, *argv), {self._build.variable: folder, **env}
        mounts = (*checkout.mounts, *environment.mounts, *mounts)
        command = Command(
            argv,
            cwd=self._view,
            env={**COMMON, **environment.env, **env},
            mounts=mounts,
            scratch=tuple(_scratch(mounts)),
            limits=limits,
        )
        finished = self.sandbox.run(command, cancelled=self._cancelled, log=log)
        if not finished.ok:
            check_room(checkout.path)
        return finished

    def _without_run(self, status: SuiteStatus, detail: str, log: str = "") -> TestRun:
        return TestRun(
            command=(self.plan.line,) if self.plan.line else (),
            status=status,
            detail=detail,
            log=log,
            isolation=self.sandbox.isolation.name,
        )


def _with_endless(run: TestRun, tests: Collection[str]) -> TestRun:
    """A run of all tests but these; what says nothing says nothing of them either."""
    if not run.status.concludes:
        return run
    outcomes = {**run.outcomes, **dict.fromkeys(tests, TestOutcome.ERROR)}
    messages = {**run.messages, **dict.fromkeys(tests, "it did not end, and is left out where all tests are run")}
    told = {"status": SuiteStatus.FAILING, "outcomes": outcomes, "messages": messages}
    return run.model_copy(update=told)


def _scratch(mounts: Sequence[Mount]) -> Iterator[str]:
    """Folders in what is installed that have to be written to, where they are there."""
    for mount in mounts:
        for name in () if mount.writable else SCRATCH.get(PurePosixPath(mount.target).name, ()):
            if (mount.source / name).is_dir() and not (mount.source / name).is_symlink():
                yield f"{mount.target}/{name}"
