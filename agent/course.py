"""How a run goes on after each attempt: a table of states, and nothing else. Pure.

The model works by its plan, step by step. An attempt is a step that it marks as done, or the whole that it finishes.
Two failures switch to the plan's alternative, from the checkpoint before the step under way; two more end the run as
stuck. A step that is done gives the next one all its tries. An accepted change in which the review found something
that must not stay is polished once; when that fails, the accepted change stands. Every transition is an event of the
run's log.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
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

    ADVANCED = "step done"
    """A step meets its criteria, and another comes after it."""
    ACCEPTED = "accepted"
    FLAWED = "flawed"
    """Accepted by every measure, but the review found what must not stay."""
    UNTESTED = "rejected before the tests"
    """By a look at the code alone: no sign that the way is wrong."""
    REJECTED = "rejected"
    REJECTED_AGAIN = "rejected again"
    """The second time in the same state, and there is something else to try."""
    SPENT = "rejected, and no round is left"


TRANSITIONS: Mapping[tuple[State, Event], State] = {
    (State.PLAN, Event.ADVANCED): State.PLAN,
    (State.PLAN, Event.ACCEPTED): State.DONE,
    (State.PLAN, Event.FLAWED): State.POLISH,
    (State.PLAN, Event.UNTESTED): State.PLAN,
    (State.PLAN, Event.REJECTED): State.PLAN,
    (State.PLAN, Event.REJECTED_AGAIN): State.ALTERNATIVE,
    (State.PLAN, Event.SPENT): State.FAILING,
    (State.ALTERNATIVE, Event.ADVANCED): State.ALTERNATIVE,
    (State.ALTERNATIVE, Event.ACCEPTED): State.DONE,
    (State.ALTERNATIVE, Event.FLAWED): State.POLISH,
    (State.ALTERNATIVE, Event.UNTESTED): State.ALTERNATIVE,
    (State.ALTERNATIVE, Event.REJECTED): State.ALTERNATIVE,
    (State.ALTERNATIVE, Event.REJECTED_AGAIN): State.STUCK,
    (State.ALTERNATIVE, Event.SPENT): State.STUCK,
    (State.POLISH, Event.ADVANCED): State.POLISH,
    (State.POLISH, Event.ACCEPTED): State.DONE,
    (State.POLISH, Event.FLAWED): State.DONE,
    (State.POLISH, Event.UNTESTED): State.DONE,
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
        rounds: attempts that a step, or the whole, has after the first one; polishing takes none.
        alternative: the plan names another way.
    """

    rounds: int
    alternative: bool
    state: State = State.PLAN
    failures: int = 0
    """In this state and step."""
    used: int = 0
    """Rounds of the present step."""

    @property
    def rounds_left(self) -> int:
        return self.rounds - self.used

    def event(self, *, rejected: bool, flawed: bool = False, step: bool = False, tested: bool = True) -> Event:
        """What an attempt with this result is, from here.

        Args:
            step: it was one step, with others after it.
            tested: its tests were run before it was rejected.
        """
        if not rejected:
            return Event.ADVANCED if step else Event.FLAWED if flawed else Event.ACCEPTED
        if not self.rounds_left:
            return Event.SPENT
        if not tested:
            return Event.UNTESTED
        other = self.alternative or self.state is not State.PLAN
        return Event.REJECTED_AGAIN if self.failures + 1 >= FAILURES and other else Event.REJECTED

    def after(self, event: Event) -> Course:
        """Where the run is then."""
        state = TRANSITIONS[self.state, event]
        if event is Event.ADVANCED:
            return replace(self, state=state, failures=0, used=0)
        failures = self.failures + (event is not Event.UNTESTED) if state is self.state else 0
        used = self.used + (event in (Event.UNTESTED, Event.REJECTED, Event.REJECTED_AGAIN))
        return replace(self, state=state, failures=failures, used=used)
