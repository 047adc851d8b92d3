"""Whose budget a model call is taken from."""

from __future__ import annotations

from typing import Protocol

from agent.budget import Meter, Prices, load_prices
from agent.types import Budget, CallUsage, Usage


class Runs(Protocol):
    """Which runs are under way."""

    async def running(self, run_id: str) -> bool: ...


class Ledger(Protocol):
    """Budgets and usage of runs."""

    async def admit(self, run_id: str, tokens: int) -> None:
        """Called before each call; ``tokens`` is a low estimate of its input.

        Raises:
            BudgetReached: the call may not be made.
        """
        ...

    async def record(self, run_id: str, usage: CallUsage) -> None:
        """Called once for each call that the provider began to answer, also when it broke off."""
        ...


class RunMeters:
    """Both of the above in this process's memory: for a server whose runs all end with it."""

    def __init__(self, prices: Prices | None = None) -> None:
        self.prices = load_prices() if prices is None else prices
        self._meters: dict[str, Meter] = {}

    def open(self, run_id: str, budget: Budget, spent: Usage | None = None) -> None:
        """From now on ``run_id`` may make calls; ``spent`` is what earlier runs of its job took."""
        self._meters[run_id] = Meter(budget, spent=spent, prices=self.prices)

    def close(self, run_id: str) -> Usage:
        """``run_id`` may make no more calls; what it took is the result."""
        meter = self._meters.pop(run_id, None)
        return meter.usage if meter else Usage()

    def usage(self, run_id: str) -> Usage:
        """What ``run_id``, while it is open, took so far."""
        return self._meters[run_id].usage

    async def running(self, run_id: str) -> bool:
        return run_id in self._meters

    async def admit(self, run_id: str, tokens: int) -> None:
        self._meters[run_id].check(tokens)

    async def record(self, run_id: str, usage: CallUsage) -> None:
        if run_id in self._meters:
            self._meters[run_id].record(usage)
