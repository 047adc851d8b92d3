"""How a run ends: every outcome with a reason and a next step, from what happened. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from agent.budget import BudgetReached
from agent.errors import BugError, GraftsmithError, RetryLater, UserError
from agent.listing import listed
from agent.loop import Stuck
from agent.model.errors import CallCancelled, ContentRefused, InvalidOutput
from agent.tools.base import Claim, Conclusion
from agent.types import Evidence, Outcome, Partial

_NAMED = 5
"""Files of a reason."""
_REPORT = "Report this with the run's event log; your repository was not changed."

# The first row that fits decides. What is not here is the operator's to mend, and ends as failed.
_BY_ERROR: tuple[tuple[type[GraftsmithError], Outcome], ...] = (
    (BudgetReached, Outcome.BUDGET_REACHED),
    (CallCancelled, Outcome.CANCELLED),
    (Stuck, Outcome.STUCK),
    (InvalidOutput, Outcome.STUCK),
    (ContentRefused, Outcome.NEEDS_INPUT),
    (RetryLater, Outcome.FAILED),
    (UserError, Outcome.BLOCKED),
)


@dataclass(frozen=True)
class Ending:
    """How a run ended, in words for a person."""

    outcome: Outcome
    reason: str
    next_step: str = ""
    our_fault: bool = False


def of_error(error: GraftsmithError) -> Ending:
    """The ending that an expected error leads to."""
    outcome = next((outcome for kind, outcome in _BY_ERROR if isinstance(error, kind)), Outcome.FAILED)
    return Ending(
        outcome, error.reason[:1].upper() + error.reason[1:], error.todo, our_fault=isinstance(error, BugError)
    )


# What a stop can look like: a command that was ended early has failed, and a measurement without an end says nothing.
_UNREACHED = frozenset({Outcome.BLOCKED, Outcome.TESTS_FAILING, Outcome.STUCK, Outcome.BUDGET_REACHED, Outcome.FAILED})


def when_stopped(ending: Ending) -> Ending:
    """The ending of a run that was stopped before this one: what the stop itself broke is not the project's fault."""
    if ending.outcome not in _UNREACHED or ending.our_fault:
        return ending
    return Ending(Outcome.CANCELLED, "The run was stopped. Somebody asked for it.")


def our_bug(error: Exception) -> Ending:
    """The ending that an error leads to which nobody expected."""
    return Ending(Outcome.FAILED, f"Graftsmith itself failed ({type(error).__name__}).", _REPORT, our_fault=True)


def planned() -> Ending:
    """The plan stands; nothing was changed."""
    return Ending(Outcome.PLANNED, "The plan is ready. Nothing was changed.")


def answered() -> Ending:
    """The question is answered; nothing was changed."""
    return Ending(Outcome.ANSWERED, "Answered from the code. Nothing was changed, and nothing was run.")


def blocked(why: str, *, by: str = "", too_long: bool = False) -> Ending:
    """The tests of the base can't be judged, so nothing could be proven.

    Args:
        by: what runs them, and why that.
    """
    name = "in .graftsmith.toml, or give --test-command."
    return Ending(
        Outcome.BLOCKED,
        f"The project's tests could not be run on the unchanged code: {why}",
        f"Name a command for a part of the tests that is enough, {name} Or allow more time: GRAFTSMITH_COMMAND_TIMEOUT."
        if too_long
        else f"{by}Name the commands that set up and test the project {name}",
    )


def without_change(conclusion: Conclusion) -> Ending | None:
    """The ending of a conclusion that needs no measuring; ``None`` for the others."""
    match conclusion.claim:
        case Claim.NEEDS_INPUT:
            return Ending(Outcome.NEEDS_INPUT, conclusion.question, "Answer, then ask again.")
        case Claim.NO_CHANGE:
            return Ending(Outcome.NO_CHANGE, conclusion.summary, "Say what should be different, then ask again.")
        case Claim.BLOCKED:
            return Ending(Outcome.BLOCKED, conclusion.summary, "Remove the obstacle, then ask again.")
        case _:
            return None


def accepted(claim: Claim, evidence: Evidence) -> Ending:
    """Everything that was measured bears the claim out."""
    match claim:
        case Claim.ALREADY_FIXED:
            return Ending(Outcome.ALREADY_FIXED, "A test of the reported behaviour passes on the unchanged code.")
        case Claim.NOT_REPRODUCED:
            return Ending(
                Outcome.NOT_REPRODUCED,
                "A test of the reported behaviour passes on the unchanged code.",
                "Add what is missing to reproduce it: version, input, environment.",
            )
    if evidence.partial:
        return Ending(Outcome.PROPOSED, _of_a_part(evidence, evidence.partial), _ALL_TESTS)
    if evidence.unbuilt:
        return Ending(Outcome.PROPOSED, _of_other_code(evidence), _BUILD)
    if evidence.touches_tests:
        return Ending(
            Outcome.PROPOSED,
            "What was tested before is tested in another way now, or not at all, as the plan says. Nothing else got "
            f"worse.{_complaints(evidence)}",
            "Look at each change to the tests: the change is ready only when somebody has acknowledged them.",
        )
    if not evidence.turned:
        return Ending(
            Outcome.PROPOSED,
            "No test got worse. The change is of a kind that no test can prove." + _complaints(evidence),
            "Review it with that in mind.",
        )
    return Ending(Outcome.PROPOSED, f"{_turned(evidence)}; no other test got worse.{_complaints(evidence)}")


def _turned(evidence: Evidence) -> str:
    count = len(evidence.turned)
    if count == 1:
        return "1 test fails without the change and passes with it"
    return f"{count} tests fail without the change and pass with it"


_ALL_TESTS = (
    "Have all tests run on it, by the CI for example, before it is merged. To have them run here: allow more time by "
    "GRAFTSMITH_COMMAND_TIMEOUT, or name a command for those that matter, in .graftsmith.toml or by --test-command."
)


_BUILD = (
    "Build it and run the tests before it is merged. To have that done here: let the test command build first, as in "
    "`python3 setup.py build_ext --inplace && pytest`, in .graftsmith.toml or by --test-command."
)


def _of_other_code(evidence: Evidence) -> str:
    return (
        f"{listed(evidence.unbuilt, _NAMED)} is compiled, and nothing built it: the tests saw it as it "
        f"was before, or not at all, and none of them got worse. {_shown(evidence)}"
    )


def _of_a_part(evidence: Evidence, part: Partial) -> str:
    return (
        f"Tests of {part.short} were run, the nearest to the change, and none of them got worse; nothing is known of "
        f"the others, since all of them do not end in their time. {_shown(evidence)}"
    )


def _shown(evidence: Evidence) -> str:
    shown = _turned(evidence) if evidence.turned else "No test shows the change"
    also = " What was tested before is tested in another way now, or not at all." if evidence.touches_tests else ""
    return f"{shown}.{also}{_complaints(evidence)}"


def _complaints(evidence: Evidence) -> str:
    """What is left when no round is."""
    tools = ", ".join(check.tool for check in evidence.complaints)
    return f" New findings of {tools} are left." if tools else ""


def stuck(problems: tuple[str, ...], claim: Claim) -> Ending:
    """The plan and its alternative have both failed."""
    ending = rejected(problems, claim)
    reason = f"The plan and its alternative have both failed. {ending.reason}"
    return Ending(Outcome.STUCK, reason, ending.next_step)


# A claim that only a test can show, in words for a person.
_CLAIMED = {Claim.ALREADY_FIXED: "right already", Claim.NOT_REPRODUCED: "not to be reproduced"}


def rejected(problems: tuple[str, ...], claim: Claim = Claim.DONE) -> Ending:
    """The rounds are used up.

    Args:
        problems: in words for the model.
        claim: what it concluded.
    """
    if claim in _CLAIMED:
        return Ending(
            Outcome.STUCK,
            f"The model says that this is {_CLAIMED[claim]}. It did not show that by a new test that passes on the "
            "unchanged code, with nothing else changed.",
            "Say in the issue how the fault can be seen, then ask again.",
        )
    first = problems[0].splitlines()[0].rstrip(":")
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return Ending(
        Outcome.TESTS_FAILING,
        f"The change could not be proven: {first}{more}",
        "Look at the change and its test log, then ask again with a hint.",
    )
