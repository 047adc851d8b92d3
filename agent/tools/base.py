"""What a tool is: a name, a description, typed arguments and a function on values. No tool touches a file system."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, Generic, TypeVar

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from agent.context.semantic import Meaning
from agent.edit.syntax import Syntax
from agent.index.index import Index
from agent.steps import Checkpoints, Progress
from agent.tree import Draft
from agent.types import FileReason, Plan

COMMAND_SECONDS = 120
"""After which a command that the model runs is stopped; its description says so."""


class Claim(StrEnum):
    """What the model concludes; the harness checks each."""

    DONE = "done"
    NO_CHANGE = "no_change"
    ALREADY_FIXED = "already_fixed"
    NOT_REPRODUCED = "not_reproduced"
    NEEDS_INPUT = "needs_input"
    BLOCKED = "blocked"


@dataclass(frozen=True)
class Conclusion:
    """The model's own account, as it called ``finish``."""

    claim: Claim
    summary: str
    reasons: tuple[FileReason, ...] = ()
    question: str = ""


@dataclass(frozen=True)
class StepDone:
    """The model marks the present step of its plan as done."""

    tests: tuple[str, ...] = ()
    """What must pass then, in the model's own words: ids or files."""


@dataclass(frozen=True)
class ToolResult:
    """What a call led to."""

    text: str
    """For the model: plain and short."""
    ok: bool = True
    """False: nothing was done; the text says what to do instead."""
    draft: Draft | None = None
    """The files after the call, when it changed any."""
    said: Conclusion | StepDone | None = None
    """What the harness has to judge now; it gives the call's answer."""


@dataclass(frozen=True)
class Limits:
    """How much one result may show; each is said in the result that reaches it."""

    result_chars: int = 24_000
    """About 6,000 tokens."""
    line_chars: int = 500
    matches: int = 40
    entries: int = 200
    argument_bytes: int = 1_000_000


@dataclass
class ToolContext:
    """What tools work with. ``draft`` is the state of the files; whoever calls the tools moves it on."""

    draft: Draft
    index: Index
    """Of the base; files that were edited since are read from the draft."""
    run_tests: Callable[[Draft, tuple[str, ...]], str]
    """Runs the named tests (none: all) on a draft and says what came of it, for the model."""
    run_command: Callable[[Draft, str], str]
    """Runs a shell line on a throw-away copy of a draft and says what came of it, for the model."""
    meaning: Meaning | None = None
    """One more signal for searches."""
    plan: Plan | None = None
    approved: bool = False
    """A person has approved the plan, word for word."""
    plan_first: bool = False
    """Nothing is done before there is a plan."""
    syntax: Syntax = field(default_factory=Syntax)
    checkpoints: Checkpoints = field(init=False)
    told_unchanged: bool = False
    """The model was told that it finished without a change; when it insists, that is its conclusion."""
    view: str = ""
    """Where the checkout appears in test output; paths below it are understood."""
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        self.checkpoints = Checkpoints(self.draft.base.draft())

    @property
    def progress(self) -> Progress:
        """How far the plan is carried out."""
        return Progress.of(self.plan, self.checkpoints)


class Arguments(BaseModel):
    """Base of every tool's arguments."""

    model_config = ConfigDict(frozen=True, extra="forbid")


# Models mix up the names of other products' tools; the meaning is clear, so a turn is not spent on it.
Path = Annotated[str, Field(validation_alias=AliasChoices("path", "file_path", "file", "filename"))]

A = TypeVar("A", bound=Arguments)


@dataclass(frozen=True)
class Tool(Generic[A]):
    """One tool. ``run`` may raise GraftsmithError: the message becomes the result."""

    name: str
    description: str
    arguments: type[A]
    run: Callable[[ToolContext, A], ToolResult]


Registry = dict[str, Tool[Any]]
