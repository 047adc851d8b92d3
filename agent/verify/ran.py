"""One call of a test runner that is over, and what it comes to."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final

from agent.listing import listed
from agent.tree import Draft
from agent.types import SuiteStatus, TestRun
from agent.verify import verdict
from agent.verify.paths import is_test
from agent.verify.report import Report, Unreadable
from agent.verify.toolchains.base import Collected, Invocation, Toolchain
from sandbox.text import clean, sound
from sandbox.types import Finished

_LOG_TAIL: Final = 20_000
"""Characters of the output that a result keeps."""


@dataclass(frozen=True)
class Ran:
    """What is left of it."""

    invocation: Invocation
    finished: Finished
    collected: Collected
    unreadable: str
    """Why its reports can't be used; then there are none."""

    def measured(
        self, toolchain: Toolchain, draft: Draft, *, known: frozenset[str] | None, isolation: str
    ) -> tuple[TestRun, frozenset[str]]:
        """The run as it counts, and which of its ids no file of ``draft`` explains.

        Args:
            known: ids that need no file to explain them, since the base reported them too; ``None`` for all.
            isolation: its name.
        """
        report, unreadable = self._read(toolchain, draft)
        status, detail = verdict.of_run(
            self.finished,
            self.invocation.exits,
            report,
            unreadable,
            reports=self.invocation.structured,
            views=self.collected.views,
        )
        said = report or Report()
        counts = status.concludes
        if counts and known is not None and (made_up := said.unexplained - known):
            status, detail = SuiteStatus.INCONSISTENT, _of_no_file(made_up)
        elif status in (SuiteStatus.INCONSISTENT, SuiteStatus.NOT_RUN):
            detail += _untellable(draft)
        run = TestRun(
            command=self.invocation.shown or self.invocation.argv,
            status=status,
            outcomes=said.outcomes,
            messages=said.messages,
            exit_code=self.finished.exit_code,
            seconds=round(self.finished.seconds, 3),
            log=clean(self.finished.output, _LOG_TAIL),
            log_file=str(self.finished.log or ""),
            detail=detail,
            structured=report is not None or bool(unreadable) or self.invocation.structured,
            isolation=isolation,
        )
        return run, said.unexplained if counts else frozenset()

    def _read(self, toolchain: Toolchain, draft: Draft) -> tuple[Report | None, str]:
        """The report, or why what there is of it can't be used."""
        if self.unreadable:
            return None, self.unreadable
        collected, finished = self.collected, self.finished
        if finished.log is not None and finished.total_bytes > len(finished.output):
            collected = replace(collected, output=finished.log.read_bytes())
        try:
            return toolchain.read(collected, draft), ""
        except Unreadable as error:
            return None, str(error)


def _of_no_file(made_up: Collection[str]) -> str:
    return f"the report holds tests that no file explains: {', '.join(sorted(made_up)[:5])}"


def _untellable(draft: Draft) -> str:
    """What to think of where tests could not be told apart: a name that is no text stops most runners."""
    names = [path for path in draft.paths() if is_test(path) and sound(path) != path]
    if not names:
        return ""
    return f". The name of {listed(names, 3)} is no UTF-8, and many runners fail to write it down: give it another"
