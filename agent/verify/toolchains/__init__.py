"""The toolchains, and which one tests a given tree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from agent.types import Commands
from agent.verify.files import Files
from agent.verify.toolchains import command, python_pytest
from agent.verify.toolchains.base import TestPlan, Toolchain

# Detection asks in this order: the most specific sign first, a Makefile's target last.
TOOLCHAINS: Final[Mapping[str, Toolchain]] = {
    toolchain.NAME: toolchain
    for toolchain in (
        python_pytest,
        command,
    )
}


def detect(files: Files, commands: Commands) -> TestPlan:
    """How the tree is tested: as configured, else as its files say. Reads files, runs nothing."""
    if commands.test.strip():
        toolchain = next(t for t in TOOLCHAINS.values() if t.recognises(commands.test, files))
        return TestPlan(
            toolchain.NAME, commands.test.strip(), "the configured test command", commands.setup, configured=True
        )
    found = [plan for plan in (t.detect(files) for t in TOOLCHAINS.values()) if plan is not None]
    runnable = [plan for plan in found if not plan.absent]
    if runnable or found:
        chosen = (runnable or found)[0]
        return TestPlan(chosen.toolchain, chosen.line, chosen.reason, commands.setup, chosen.absent)
    return TestPlan(command.NAME, "", "no file says how", commands.setup, absent="no tests were found in the tree")
