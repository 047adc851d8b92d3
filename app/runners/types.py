"""What a runner is: the place where a run happens."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from agent.types import RunResult, RunSpec, Usage

GRACE_S = 300.0
"""Beyond the budget's minutes and one command: set-up of the sandbox, writing the result."""


@dataclass(frozen=True)
class Errand:
    """A run that is to be carried out for a job.

    Args:
        installation_id, repository_id: GitHub's numbers of where the job is.
        on_event: gets each event of the run soon after it was written.
        cancelled: asked a few times a second; the run then ends as ``cancelled``, with its work kept.
        spent: what the model calls of the run took so far, as our endpoint has counted them.
    """

    job_id: str
    installation_id: int
    repository_id: int
    spec: RunSpec
    on_event: Callable[[Mapping[str, Any]], None]
    cancelled: Callable[[], bool]
    spent: Callable[[], Usage]


class Runner(Protocol):
    """Carries runs out. A finished run is not repeated: its stored result is returned, unless it was stopped."""

    @property
    def model_url(self) -> str:
        """Where its runs reach our model endpoint."""

    def get_ready(self, job_id: str) -> None:
        """The job will soon have a run; may be called again. Waits for nothing."""

    def let_go(self, job_id: str) -> None:
        """The job is over. Waits for nothing."""

    async def run(self, errand: Errand) -> RunResult:
        """Carry out a run to its end.

        Raises:
            RetryLater: it was ended from outside, and can be begun anew.
            UserError, OperatorError: it can't be carried out there; says who has to act.
            BugError: it ended without a result.
        """


def longest_s(spec: RunSpec) -> float:
    """Seconds after which a run that has not ended by itself is ended."""
    minutes = spec.budget.minutes
    return float("inf") if minutes is None else minutes * 60 + spec.command_timeout_s + GRACE_S
