"""What a repository may say about itself."""

from __future__ import annotations

import pytest

from agent import config
from agent.errors import UserError
from agent.types import Budget, Commands


def test_commands_and_limits_are_read() -> None:
    found = config.parse(b"[commands]\nsetup = ['pip install .']\ntest = 'pytest'\n[budget]\nsteps = 7\n")
    assert found.commands == Commands(setup=("pip install .",), test="pytest")
    assert config.lowered(Budget(steps=100), found.budget).steps == 7
    assert config.parse(b"") == config.RepositoryConfig()


def test_limits_are_only_lowered() -> None:
    limits = config.BudgetLimits(steps=200, dollars=1.0, tokens=5)
    lowered = config.lowered(Budget(steps=100, dollars=None, tokens=10), limits)
    assert (lowered.steps, lowered.dollars, lowered.tokens) == (100, 1.0, 5)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"\xff", "can't be read"),
        (b"[commands", "can't be read"),
        (b"[commands]\ntests = 'x'\n", "commands.tests"),
        (b"[budget]\nsteps = 'many'\n", "budget.steps"),
    ],
)
def test_a_wrong_file_is_named(data: bytes, says: str) -> None:
    with pytest.raises(UserError) as caught:
        config.parse(data)
    assert config.FILE_NAME in str(caught.value)
    assert says in str(caught.value)


def test_what_a_person_asked_for_comes_first() -> None:
    own = Commands(setup=("make deps",), test="make test")
    assert config.merged(own, Commands()) == own
    assert config.merged(own, Commands(test="pytest")) == Commands(setup=("make deps",), test="pytest")
