"""Any other command: its exit code, and a JUnit file where the configuration names one with ``{report}``."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Final

from agent.verify import junit, report
from agent.verify.files import Files, text
from agent.verify.report import Entry, Report
from agent.verify.toolchains import python_pytest
from agent.verify.toolchains.base import REPORTS, Collected, Invocation, Step, TestPlan, shell, spoken
from agent.verify.verdict import GENERIC_EXITS

NAME: Final = "command"
PROGRAMS: Final = ("make",)
INSTALLED: Final = python_pytest.INSTALLED
PLACEHOLDER: Final = "{report}"


def detect(files: Files) -> TestPlan | None:
    for name in ("GNUmakefile", "makefile", "Makefile"):
        target = re.search(r"(?m)^(test|check)[ \t]*:(?!=)", text(files, name))
        if target:
            return TestPlan(NAME, f"make {target.group(1)}", f"{name} has a target `{target.group(1)}`")
    return None


def resolve(line: str, files: Files) -> str | None:
    return line


def invoke(plan: TestPlan, files: Files, selection: Sequence[str], view: str) -> Invocation:
    """Runs everything, whatever was selected. pytest below a wrapper still hears of its options by environment."""
    pytest = python_pytest.invoke(TestPlan(NAME, ":", ""), files, (), view)
    line = plan.line.replace(PLACEHOLDER, shlex.quote(f"{REPORTS}/report.xml"))
    return Invocation(
        shell(line), pytest.env, GENERIC_EXITS, structured=PLACEHOLDER in plan.line, shown=spoken(plan.line)
    )


def read(collected: Collected, files: Files) -> Report | None:
    by_pytest = python_pytest.read(collected, files)
    found = [by_pytest] if by_pytest else []
    found += [_plain(data, files) for data in collected.named(r"report\.xml")]
    return report.merge(found) if found else None


def _plain(data: bytes, files: Files) -> Report:
    naming = python_pytest.Naming.of(files.paths())
    return report.build(Entry(naming.node_id(case), case.outcome, case.message) for case in junit.cases(data))


def prepare(files: Files) -> tuple[Step, ...]:
    found = python_pytest.detect(files)
    return python_pytest.prepare(files) if found and not found.first else ()


def probe(plan: TestPlan) -> tuple[str, ...]:
    return shell(":")
