"""What a repository says about itself in ``.graftsmith.toml``, read from the base commit only: for a pull
request, from its base branch's.

A change can therefore never alter the rules that it is judged by. Everything in the file is optional::

    [commands]
    setup = ["pip install -e .[test]"]      # shell lines; network, no secrets
    test = "pytest -q --junitxml={report}"  # one shell line; no network
    dependencies_before = "2022-05-01"      # for an old branch: pip, uv and npm take nothing newer

    [budget]                                # may lower the operator's limits, never raise them
    dollars = 2.0
    tokens = 300000
    minutes = 20
    steps = 60
    fix_rounds = 3

    [plan]
    approval = true                         # `/agent fix` ends with a plan, which waits for `/agent approve`

    [tools.lint]                            # a tool of that name for the model; as the test command, without arguments
    description = "The project's own style check."
    command = "make lint"
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field, ValidationError

from agent import toml
from agent.errors import UserError
from agent.tree import BaseTree
from agent.types import Budget, Commands, Value

FILE_NAME = ".graftsmith.toml"
_Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]  # TOML has words for infinity and for no number
_Count = Annotated[int, Field(ge=0)]


class BudgetLimits(Value):
    """The target's own limits; ``None`` leaves the operator's."""

    dollars: _Amount | None = None
    tokens: _Count | None = None
    minutes: _Amount | None = None
    steps: _Count | None = None
    fix_rounds: _Count | None = None


class PlanRules(Value):
    """What holds for plans."""

    approval: bool = False
    """Nothing is changed before a person has approved the plan."""


class OwnTool(Value):
    """A command that the model may run, as a tool of its own."""

    description: Annotated[str, Field(min_length=1, max_length=300)]
    """For the model: when to use it. Sent with every request."""
    command: Annotated[str, Field(min_length=1, max_length=4_000)]
    """One shell line; no network, on a throw-away copy of the files."""


ToolName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,39}$")]


class RepositoryConfig(Value):
    """The parsed file."""

    commands: Commands = Commands()
    budget: BudgetLimits = BudgetLimits()
    plan: PlanRules = PlanRules()
    tools: Annotated[Mapping[ToolName, OwnTool], Field(max_length=10)] = {}


def parse(data: bytes) -> RepositoryConfig:
    """Parse the file's bytes.

    Raises:
        UserError: not TOML, or a key or type that is not known.
    """
    try:
        said = toml.loads(data.decode("utf-8"))
    except ValueError as error:
        raise UserError(
            f"{FILE_NAME} can't be read", why=str(error), todo="Correct the file on the base branch"
        ) from error
    try:
        return RepositoryConfig.model_validate(said)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise UserError(
            f"{FILE_NAME} has a wrong entry: {where}", why=first["msg"], todo="Correct the file on the base branch"
        ) from error


def of_tree(base: BaseTree) -> RepositoryConfig:
    """What the base commit says; everything empty when it says nothing.

    Raises:
        UserError: the file is there and wrong.
    """
    return parse(base.content(FILE_NAME)) if FILE_NAME in base.entries else RepositoryConfig()


def lowered(budget: Budget, limits: BudgetLimits) -> Budget:
    """``budget`` with each bound lowered to the repository's own, where that is lower."""
    changed = {
        name: limit
        for name, limit in limits.model_dump(exclude_none=True).items()
        if getattr(budget, name) is None or limit < getattr(budget, name)
    }
    return budget.model_copy(update=changed)


def merged(own: Commands, asked: Commands) -> Commands:
    """``asked`` (a person's explicit wish) first, then what the repository says."""
    before = asked.dependencies_before or own.dependencies_before
    return Commands(setup=asked.setup or own.setup, test=asked.test or own.test, dependencies_before=before)
