"""The table of states: where each attempt leads."""

from __future__ import annotations

import itertools
from functools import cache

import pytest

from agent.course import ENDS, TRANSITIONS, Course, Event, State


def test_every_state_that_goes_on_knows_every_event() -> None:
    assert set(TRANSITIONS) == set(itertools.product(set(State) - ENDS, Event))


def after(course: Course, attempt: str) -> Course:
    """``a`` accepted, ``f`` accepted but flawed, ``r`` rejected, ``u`` rejected untested, ``s`` a step that is done."""
    return course.after(
        course.event(rejected=attempt in "ru", flawed=attempt == "f", step=attempt == "s", tested=attempt != "u")
    )


def walk(attempts: str, rounds: int = 3, *, alternative: bool = True) -> list[State]:
    """States after each attempt."""
    course, seen = Course(rounds, alternative), []
    for attempt in attempts:
        course = after(course, attempt)
        seen.append(course.state)
        if course.state in ENDS:
            break
    return seen


PLAN, OTHER, POLISH = State.PLAN, State.ALTERNATIVE, State.POLISH


@pytest.mark.parametrize(
    ("attempts", "states"),
    [
        ("a", [State.DONE]),
        ("ra", [PLAN, State.DONE]),
        ("rrra", [PLAN, OTHER, OTHER, State.DONE]),
        ("rrrr", [PLAN, OTHER, OTHER, State.STUCK]),
        ("fa", [POLISH, State.DONE]),
        ("fr", [POLISH, State.DONE]),
        ("rff", [PLAN, POLISH, State.DONE]),
        ("srsra", [PLAN, PLAN, PLAN, PLAN, State.DONE]),
        ("srrsrra", [PLAN, PLAN, OTHER, OTHER, OTHER, State.STUCK]),
        ("srrsrsra", [PLAN, PLAN, OTHER, OTHER, OTHER, OTHER, OTHER, State.DONE]),
        ("fsa", [POLISH, POLISH, State.DONE]),
        ("uua", [PLAN, PLAN, State.DONE]),
        ("uuur", [PLAN, PLAN, PLAN, State.FAILING]),
        ("rura", [PLAN, PLAN, OTHER, State.DONE]),
        ("fu", [POLISH, State.DONE]),
    ],
)
def test_ways_through_it(attempts: str, states: list[State]) -> None:
    assert walk(attempts) == states


def test_without_another_way_the_rounds_are_used_up() -> None:
    assert walk("rrrr", alternative=False) == [PLAN, PLAN, PLAN, State.FAILING]
    assert walk("r", rounds=0) == [State.FAILING]
    assert walk("rr", rounds=1) == [PLAN, State.FAILING]
    assert walk("rrsrrsrrrr", alternative=False) == [PLAN] * 9 + [State.FAILING], "each step has its own"


@pytest.mark.parametrize("rounds", range(8))
@pytest.mark.parametrize("alternative", [True, False])
def test_it_always_ends(rounds: int, alternative: bool) -> None:
    @cache
    def longest(course: Course) -> int:
        return 0 if course.state in ENDS else 1 + max(longest(after(course, attempt)) for attempt in "afru")

    assert longest(Course(rounds, alternative)) <= rounds + 2, "each round, the first attempt, and polishing"
