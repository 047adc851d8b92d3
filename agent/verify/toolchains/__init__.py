"""The toolchains, and which one tests a given tree."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from agent.types import Commands
from agent.verify.files import Files
from agent.verify.toolchains import (
    command,
    ctest,
    deno_bun,
    go,
    java,
    node,
    php,
    python_pytest,
    python_trial,
    python_unittest,
    ruby,
    rust,
)
from agent.verify.toolchains.base import Build, Canary, TestPlan, Toolchain

# Detection asks in this order: the most specific sign first, a Makefile's target last.
TOOLCHAINS: Final[Mapping[str, Toolchain]] = {
    toolchain.NAME: toolchain
    for toolchain in (
        python_pytest,
        python_unittest,
        python_trial,
        go,
        rust,
        java,
        php,
        ruby,
        deno_bun,
        node,
        ctest,
        command,
    )
}


_BUILDS: Final[Mapping[str, Callable[[TestPlan], Build]]] = {go.NAME: go.build, rust.NAME: rust.build}


def build_of(plan: TestPlan) -> Build | None:
    """How the work of the plan's compiler is kept, where it has one that takes up its own."""
    return _BUILDS[plan.toolchain](plan) if plan.toolchain in _BUILDS else None


_CANARIES: Final[Mapping[str, Callable[[TestPlan, Files, str, str], Canary | None]]] = {
    toolchain.NAME: toolchain.canary for toolchain in (python_pytest, python_unittest, python_trial, node)
}


def canary_of(plan: TestPlan, files: Files, test: str, token: str) -> Canary | None:
    """A canary that is collected as ``test`` is, where the plan's toolchain has one.

    Args:
        token: a hex number that nobody can guess.
    """
    return _CANARIES[plan.toolchain](plan, files, test, token) if plan.toolchain in _CANARIES else None


LEAVES_OUT: Final = frozenset({python_pytest.NAME})
"""Those that heed ``TestPlan.without``."""


def stub(line: str) -> str:
    """Why a test command is no test command: what ``npm init`` writes, and its kin that only print or do nothing."""
    if re.search(r"no tests? specified", line, re.IGNORECASE) or re.fullmatch(
        r"\s*(true|:|(exit|echo)\b[^;&|]*)(\s*(&&|;)\s*(true|:|exit( \d+)?))*\s*", line
    ):
        return "no tests defined: the test command only prints or does nothing"
    return ""


def detect(files: Files, commands: Commands) -> TestPlan:
    """How the tree is tested: as configured, else as its files say. Reads files, runs nothing."""
    return replace(_detected(files, commands), setup=commands.setup, before=commands.dependencies_before)


def _detected(files: Files, commands: Commands) -> TestPlan:
    if commands.test.strip():
        line = commands.test.strip()
        resolved = ((t.NAME, t.resolve(line, files)) for t in TOOLCHAINS.values())
        name, behind = next((name, behind) for name, behind in resolved if behind is not None)
        return TestPlan(name, behind, "the configured test command", absent=stub(behind))
    found = [plan for plan in (t.detect(files) for t in TOOLCHAINS.values()) if plan is not None]
    if found:
        return min(found, key=lambda plan: (plan.absent != "", plan.first))
    return TestPlan(command.NAME, "", "no file says how", absent=_NONE)


_NONE: Final = (
    "no tests of a kind that is recognised were found in the tree. Where there are some, give their command as `test` "
    "in .graftsmith.toml or with --test-command, with {report} where it can write a JUnit XML file"
)
