"""What every toolchain provides, and the values that pass between a toolchain and the harness.

A toolchain is a module that satisfies ``Toolchain``: it decides and never acts. It says what to run and reads what came
back; the harness runs it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from agent.verify.files import Files
from agent.verify.report import Report
from agent.verify.verdict import Exit

REPORTS = "/report"
"""Where a run's own, fresh report folder is seen inside the sandbox. It is never part of the checkout."""

WATCH = "/watch"
"""Where files of ours are seen that watch a run."""

ENVIRONMENT = "/environment"
"""Where installed dependencies are seen inside the sandbox; the same path in every phase, since tools record it."""

VENV = f"{ENVIRONMENT}/venv"
"""Python's part of it. Below and not at it, because ``venv`` refuses a place that is a link, which it is where nothing
can be mounted."""

NODE = f"{ENVIRONMENT}/node"
"""Where programs of npm are installed."""

BUILD = f"{ENVIRONMENT}/build"
"""Where a compiler's work on the base is kept; see :class:`Build`."""

SELECTION_LIMIT = 100_000
"""Bytes of selected ids on one command line; above it whole files are selected (Linux allows 128 KiB an argument)."""


@dataclass(frozen=True)
class TestPlan:
    """How the target is set up and tested."""

    __test__ = False

    toolchain: str
    line: str
    """One shell line that runs all tests."""
    reason: str
    """Where this comes from, for a person."""
    setup: tuple[str, ...] = ()
    """Shell lines that the configuration gives in place of the toolchain's own set-up."""
    before: str = ""
    """See ``Commands.dependencies_before``."""
    absent: str = ""
    """Why there is nothing to run; empty when there is."""
    first: bool = False
    """There are no tests yet: a change may bring the first ones."""
    without: tuple[str, ...] = ()
    """Tests that never end: left out where all are run. Only of a toolchain that names such a test."""


@dataclass(frozen=True)
class Build:
    """A compiler that can take up its own work. That on the base is done once, before any change is there, and every
    fresh checkout begins with a copy."""

    variable: str
    """Names the folder where the compiler keeps its work."""
    line: str
    """One shell line that builds what the tests and linters need, and runs no test."""
    env: Mapping[str, str]
    """Of this line, as when tests run."""


@dataclass(frozen=True)
class Invocation:
    """One call of the runner inside the sandbox, from the checkout's root."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    exits: Mapping[int, Exit] = field(default_factory=dict)
    structured: bool = True
    """False when no report may come, and the exit code then stands alone."""
    shown: tuple[str, ...] = ()
    """The same call for a person: relative ids, none of the options that only serve the report."""


@dataclass(frozen=True)
class Collected:
    """What a run left behind."""

    reports: Mapping[str, bytes]
    """Name → bytes of the regular files in the report folder."""
    output: bytes
    """stdout and stderr as they came, bounded."""
    views: tuple[str, ...] = ()
    """Where the checkout is inside; see ``files.from_root``."""

    def named(self, pattern: str) -> list[bytes]:
        """The reports whose whole names match, by name."""
        return [data for name, data in sorted(self.reports.items()) if re.fullmatch(pattern, name)]


@dataclass(frozen=True)
class Canary:
    """A test file of ours with one test that must pass and one that must fail, for one run beside others."""

    path: str
    content: bytes
    passing: str
    failing: str
    selected: str
    """What selects both."""


@dataclass(frozen=True)
class Step:
    """One command of the set-up, run in the checkout with a way to the package registries."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    required: bool = True
    """When False a failure is noted, and the tests themselves show whether it mattered."""
    reads: frozenset[str] | None = None
    """The only files of the repository that it may depend on: it can be run where nothing else is, and what it brings
    can be shared by all trees in which these are the same. ``None``: any."""
    network: bool = True
    """Whether it gets a way to the registries."""
    offline: tuple[str, ...] = ()
    """What does the same without a network where the steps before brought enough; tried first."""
    ahead: bool = False
    """Only brings what later steps need offline: left out where these have a network."""
    tools: bool = False
    """It brings what has to suit this machine's interpreter, and not the time of a commit."""

    @property
    def bare(self) -> bool:
        """What it brings comes of this machine alone, of no registry and no repository's file: all can share it."""
        return not self.network and self.reads == frozenset()


class Toolchain(Protocol):
    """One way of testing a project."""

    @property
    def NAME(self) -> str: ...

    @property
    def PROGRAMS(self) -> tuple[str, ...]:
        """What must be found on the machine, ``python3`` for example; the first one's version names the environment."""

    @property
    def INSTALLED(self) -> Mapping[str, str]:
        """Variables that lead to what ``prepare`` installs; set during the set-up and whenever its result is used."""

    def detect(self, files: Files) -> TestPlan | None:
        """The plan for this tree, or ``None`` when this toolchain has no business with it."""

    def resolve(self, line: str, files: Files) -> str | None:
        """The shell line that stands behind a configured test command (a script's text for ``npm test``), or ``None``
        when this toolchain does not know how to read its results."""

    def invoke(self, plan: TestPlan, files: Files, selection: Sequence[str], view: str) -> Invocation:
        """How to run all tests (empty ``selection``) or the selected ids and files."""

    def read(self, collected: Collected, files: Files) -> Report | None:
        """The report, or ``None`` when there is none. Raises ``Unreadable``."""

    def prepare(self, files: Files) -> tuple[Step, ...]:
        """The set-up of a fresh machine: installs dependencies below ``ENVIRONMENT`` or inside the checkout."""

    def probe(self, plan: TestPlan) -> tuple[str, ...]:
        """A quick command that succeeds when the runner is installed."""


def shell(script: str, *arguments: str) -> tuple[str, ...]:
    """``script`` as a command; ``arguments`` reach it as ``"$@"`` and are never part of its text."""
    return ("/bin/sh", "-c", script, "sh", *arguments)


def spoken(line: str, selection: Sequence[str] = ()) -> tuple[str, ...]:
    """A shell line as the shortest command that means the same."""
    if any(char in line for char in "|&;<>()$`\\\"'*?[#~=%\n"):
        return ("sh", "-c", " ".join((line, *map(shlex.quote, selection))))
    return (*line.split(), *selection)


def fits(selection: Sequence[str]) -> bool:
    return sum(len(s.encode("utf-8", "surrogateescape")) + 64 for s in selection) <= SELECTION_LIMIT
