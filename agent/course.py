"""How a run goes on after each attempt: a table of states, and nothing else. Pure.

The model works by its plan. Two failures switch to the plan's alternative, from the checkpoint before the work began;
two more end the run as stuck. An accepted change in which the review found something that must not stay is polished
once; when that fails, the accepted change stands. Every transition is an event of the run's log.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """What the model is doing, or how it ended."""

    PLAN = "plan"
    ALTERNATIVE = "alternative"
    POLISH = "polish"
    DONE = "done"
    FAILING = "failing"
    STUCK = "stuck"


ENDS = frozenset({State.DONE, State.FAILING, State.STUCK})


class Event(StrEnum):
    """What came of an attempt."""

    ACCEPTED = "accepted"
    FLAWED = "flawed"
    """Accepted by every measure, but the review found what must not stay."""
    REJECTED = "rejected"
    REJECTED_AGAIN = "rejected again"
    """The second time in the same state, and there is something else to try."""
    SPENT = "rejected, and no round is left"


TRANSITIONS: Mapping[tuple[State, Event], State] = {
    (State.PLAN, Event.ACCEPTED): State.DONE,
    (State.PLAN, Event.FLAWED): State.POLISH,
    (State.PLAN, Event.REJECTED): State.PLAN,
    (State.PLAN, Event.REJECTED_AGAIN): State.ALTERNATIVE,
    (State.PLAN, Event.SPENT): State.FAILING,
    (State.ALTERNATIVE, Event.ACCEPTED): State.DONE,
    (State.ALTERNATIVE, Event.FLAWED): State.POLISH,
    (State.ALTERNATIVE, Event.REJECTED): State.ALTERNATIVE,
    (State.ALTERNATIVE, Event.REJECTED_AGAIN): State.STUCK,
    (State.ALTERNATIVE, Event.SPENT): State.STUCK,
    (State.POLISH, Event.ACCEPTED): State.DONE,
    (State.POLISH, Event.FLAWED): State.DONE,
    (State.POLISH, Event.REJECTED): State.DONE,
    (State.POLISH, Event.REJECTED_AGAIN): State.DONE,
    (State.POLISH, Event.SPENT): State.DONE,
}

FAILURES = 2
"""In one state, before something else is tried."""


@dataclass(frozen=True)
class Course:
    """Where a run is.

    Args:
        rounds_left: attempts that are left after this one; polishing takes none.
        alternative: the plan names another way.
    """

    rounds_left: int
    alternative: bool
    state: State = State.PLAN
    failures: int = 0
    """In this state."""

    def event(self, *, rejected: bool, flawed: bool) -> Event:
        """What an attempt with this result is, from here."""
        if not rejected:
            return Event.FLAWED if flawed else Event.ACCEPTED
        if not self.rounds_left:
            return Event.SPENT
        other = self.alternative or self.state is not State.PLAN
        return Event.REJECTED_AGAIN if self.failures + 1 >= FAILURES and other else Event.REJECTED

    def after(self, event: Event) -> Course:
        """Where the run is then."""
        state = TRANSITIONS[self.state, event]
        failures = self.failures + 1 if state is self.state else 0
        used = event in (Event.REJECTED, Event.REJECTED_AGAIN)
        return Course(self.rounds_left - used, self.alternative, state, failures)
