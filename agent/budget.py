"""What a run may take: checked before each model call, and counted after it."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Mapping
from importlib.resources import files
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from agent.errors import OperatorError, UserError
from agent.types import Budget, CallUsage, ModelEndpoint, Price, Usage

NEARLY = 0.8


class BudgetReached(UserError):
    """A bound of the run's budget is reached; the work done so far is kept."""


# ── prices ───────────────────────────────────────────────────────────────────────────────────────────────────────


Prices = Mapping[str, Price]
"""Model name → price."""


def load_prices(path: Path | None = None) -> Prices:
    """The price table that ships, or the one at ``path``.

    Its form is ``{"models": {name: {"input", "cached", "output", "context"}}, ...}``, the last of them optional; see
    ``Price``.

    Raises:
        OperatorError: the file can't be read or has another form.
    """
    try:
        text = path.read_text("utf-8") if path else files("agent").joinpath("prices.json").read_text("utf-8")
        return TypeAdapter(dict[str, Price]).validate_python(json.loads(text)["models"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        why = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
        raise OperatorError(f"the price table {path} can't be used", why=why, todo="Correct it or unset it") from error


def cost(price: Price, usage: CallUsage) -> float:
    """Dollars of one call."""
    fresh = usage.input_tokens - usage.cached_tokens
    return (fresh * price.input + usage.cached_tokens * price.cached + usage.output_tokens * price.output) / 1e6


def price_of(model: str, prices: Prices) -> Price | None:
    """The price of ``model``. A prefix (``openai/``) and a date at the end (``-2025-08-07``) don't matter."""
    name = model.rsplit("/", 1)[-1]
    undated = re.sub(r"-\d{4}-?\d{2}-?\d{2}$", "", name)
    return next((prices[known] for known in (model, name, undated) if known in prices), None)


DEFAULT_ROOM = 64_000
"""Tokens of a request to a model of which nothing is known."""
LONGEST_ROOM = 128_000
"""Even where a model takes more: the history is sent, and paid for, with every call."""
_SURE = 0.8
"""Share of a model's window that is filled: our count is an estimate, and a reply has to fit in too."""


def room_of(model: ModelEndpoint, prices: Prices) -> int:
    """Tokens that a request to ``model`` may take: by the operator's word, else by the table, else a guess."""
    if model.context_tokens:
        return model.context_tokens
    price = price_of(model.model, prices)
    return min(LONGEST_ROOM, int(price.context * _SURE)) if price and price.context else DEFAULT_ROOM


# ── the meter ────────────────────────────────────────────────────────────────────────────────────────────────────


class Meter:
    """Counts the model calls of one run against its budget. Safe to use from several threads.

    Args:
        budget: the bounds; ``None`` in one of them means no such bound.
        spent: what earlier runs of the same job took, when this one continues them.
        prices: model → price. A model without one costs an unknown amount: never zero.
        clock: seconds, monotonic.
    """

    def __init__(
        self,
        budget: Budget,
        *,
        spent: Usage | None = None,
        prices: Prices | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._budget = budget
        self.prices = load_prices() if prices is None else prices
        self._clock = clock
        self._started = clock()
        self._lock = threading.Lock()
        self._usage = spent or Usage()
        self._known_dollars = self._usage.dollars or 0.0
        self._last: Mapping[str, float] = {}
        self._unpriced = (self._usage.calls > 0 or self._usage.embedded_tokens > 0) and self._usage.dollars is None

    def check(self, next_tokens: int = 0) -> None:
        """Refuse the next call when a bound is reached.

        Args:
            next_tokens: what the call's input will take; a call that can't fit any more is not made.

        Raises:
            BudgetReached: names the bound and what was used of it.
        """
        for unit, used, limit in self._rows(next_tokens):
            if used >= limit:
                before = used - next_tokens if unit == "tokens" else used
                more = f", and the next call takes about {next_tokens}" if before < limit else ""
                raise BudgetReached(
                    f"the budget of {_amount(limit, unit)} {unit} is reached",
                    why=f"{_amount(before, unit)} of {_amount(limit, unit)} {unit} are used{more}",
                    todo="Retry with a larger budget; the work so far is kept",
                )

    def record(self, call: CallUsage) -> None:
        """Count one finished call."""
        price = price_of(call.model, self.prices)
        with self._lock:
            dollars = 0.0 if price is None else cost(price, call)
            self._unpriced = self._unpriced or price is None
            self._known_dollars += dollars
            if not call.embedding:
                tokens = call.input_tokens + call.output_tokens
                self._last = {"dollars": dollars, "tokens": tokens, "model calls": 1}
            self._usage = _added(self._usage, call, None if self._unpriced else self._known_dollars)

    @property
    def usage(self) -> Usage:
        """What was used so far. ``dollars`` is ``None`` as soon as one call's price is unknown."""
        return self._usage

    def nearly_spent(self, next_tokens: int = 0) -> bool:
        """True from 80 % of any bound on, or when what is left is less than two calls.

        Args:
            next_tokens: what the next call will take, when it is more than the last one took.
        """
        each = {**self._last, "tokens": max(self._last["tokens"], next_tokens)} if self._last else {}
        return any(
            used >= NEARLY * limit or used + 2 * each.get(unit, 0) > limit for unit, used, limit in self._rows(0)
        )

    @property
    def left(self) -> str:
        """What is left of the bound that is used up most, and what the last call took of it; '' without a bound."""
        rows = self._rows(0)
        if not rows:
            return ""
        unit, used, limit = max(rows, key=lambda row: row[1] / row[2] if row[2] else 1.0)
        last = self._last.get(unit, 0)
        each = f"; the last call took {_amount(last, unit)}" if last and unit != "model calls" else ""
        return f"{_amount(max(0.0, limit - used), unit)} of {_amount(limit, unit)} {unit} are left{each}"

    @property
    def seconds_left(self) -> float | None:
        """Until the bound of minutes; ``None`` without one."""
        minutes = self._budget.minutes
        return None if minutes is None else max(0.0, minutes * 60 - (self._clock() - self._started))

    def _rows(self, next_tokens: int) -> list[tuple[str, float, float]]:
        """(unit, used, limit) for every bound there is."""
        usage, budget = self._usage, self._budget
        rows: list[tuple[str, float, float | None]] = [
            # Where a price is unknown this is what is known: the real cost is at least that.
            ("dollars", self._known_dollars, budget.dollars),
            ("tokens", usage.input_tokens + usage.output_tokens + next_tokens, budget.tokens),
            ("minutes", (self._clock() - self._started) / 60, budget.minutes),
            ("model calls", usage.calls, budget.steps),
        ]
        return [(unit, used, limit) for unit, used, limit in rows if limit is not None]


def _added(usage: Usage, call: CallUsage, dollars: float | None) -> Usage:
    """``usage`` with one call more; one that embedded text counts by its tokens alone."""
    counts = ("input_tokens", "cached_tokens", "output_tokens")
    more = (
        {"embedded_tokens": usage.embedded_tokens + call.input_tokens}
        if call.embedding
        else {"calls": usage.calls + 1, **{name: getattr(usage, name) + getattr(call, name) for name in counts}}
    )
    return usage.model_copy(update={**more, "dollars": dollars, "estimated": usage.estimated or call.estimated})


def _amount(value: float, unit: str) -> str:
    return f"{value:.2f}" if unit == "dollars" else f"{value:.1f}" if unit == "minutes" else f"{value:.0f}"
