"""Whether an environment has the runner and not what the project needs, by what the tests said in it. Pure."""

from __future__ import annotations

import re
from typing import Final

from agent.types import SuiteStatus, TestOutcome, TestRun

_MODULE: Final = r"ModuleNotFound|[Cc]annot find (?:module|package)|cannot load such file"
_NO_MODULE: Final = re.compile(_MODULE)
_NOTHING_THERE: Final = re.compile(
    rf"{_MODULE}|ImportError|No module named|LoadError|not found|No such file|NoClassDefFound|ClassNotFound"
    r"|DistributionNotFound|PackageNotFound"
)
"""As a test may say of its own matters too."""


def lacking(run: TestRun) -> str:
    """What says so; empty where nothing does. That tests took too long or too much says nothing of it."""
    if run.status not in (SuiteStatus.FAILING, SuiteStatus.NOT_RUN, SuiteStatus.INCONSISTENT):
        return ""
    if not run.passed:
        return "No test passed" if may_lack(run) else ""
    without = sum(_NO_MODULE.search(message) is not None for message in run.messages.values())
    return "More tests lacked a module than passed" if without > len(run.passed) else ""


def may_lack(run: TestRun) -> bool:
    """Whether tests that did not pass may want something that the environment has not: none ran, one could not be set
    up or loaded, or what is missing is named."""
    ran, said = set(run.outcomes.values()), run.messages.values()
    return TestOutcome.FAILED not in ran or TestOutcome.ERROR in ran or any(map(_NOTHING_THERE.search, said))
