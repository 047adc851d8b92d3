"""What a repository says about itself."""

from __future__ import annotations

import pytest

from agent import config
from agent.errors import UserError
from agent.types import Budget, Commands


def test_everything_is_optional() -> None:
    assert config.parse(b"") == config.RepositoryConfig()
    own = config.parse(b'[commands]\nsetup = ["a", "b"]\ntest = "pytest -q"\n[budget]\nminutes = 5\n')
    assert own.commands == Commands(setup=("a", "b"), test="pytest -q")
    assert own.budget.minutes == 5


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"\xff", "can't be read"),
        (b"[commands", "can't be read"),
        (b"a = " + b"[" * 100_000, "can't be read"),
        (b"[commands]\nshell = 'x'", "commands.shell"),
        (b"[commands]\ntest = " + b"1" * 5000, "can.t be read"),
        (b"[" * 90_000, "can.t be read"),
        (b"[budget]\ndollars = nan", "budget.dollars"),
        (b"[budget]\nminutes = inf", "budget.minutes"),
        (b"[budget]\nsteps = -1", "budget.steps"),
        (b"[secrets]\nx = 1", "secrets"),
        (b"[tools.Lint]\ndescription = 'd'\ncommand = 'c'", "tools.Lint"),
        (b"[tools.lint]\ncommand = 'c'", "tools.lint.description"),
        (b"[tools.lint]\ndescription = 'd'\ncommand = ''", "tools.lint.command"),
        (b"[tools.lint]\ndescription = 'd'\ncommand = 'c'\nnetwork = true", "tools.lint.network"),
    ],
)
def test_what_is_wrong_is_named(text: bytes, says: str) -> None:
    with pytest.raises(UserError, match=says) as error:
        config.parse(text)
    assert "base branch" in error.value.todo


def test_a_budget_is_lowered_and_never_raised() -> None:
    budget = Budget(dollars=1.0, tokens=1000, minutes=None, steps=10, fix_rounds=3)
    own = config.BudgetLimits(dollars=5.0, tokens=10, minutes=2.0, fix_rounds=0)
    assert config.lowered(budget, own) == Budget(dollars=1.0, tokens=10, minutes=2.0, steps=10, fix_rounds=0)


def test_a_persons_wish_comes_first() -> None:
    own, asked = Commands(setup=("own",), test="own"), Commands(test="asked")
    assert config.merged(own, asked) == Commands(setup=("own",), test="asked")
