"""Bounds are checked before a call, and a price that is not known is never zero."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.budget import DEFAULT_ROOM, LONGEST_ROOM, BudgetReached, Meter, cost, load_prices, price_of, room_of
from agent.errors import OperatorError
from agent.types import Budget, CallUsage, ModelEndpoint, Price, Usage

PRICES = {"m": Price(input=2.0, cached=0.5, output=8.0)}
FREE = Budget(dollars=None, tokens=None, minutes=None, steps=None)


class Clock:
    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


def used(tokens_in: int = 0, out: int = 0, cached: int = 0, model: str = "m", estimated: bool = False) -> CallUsage:
    return CallUsage(model=model, input_tokens=tokens_in, cached_tokens=cached, output_tokens=out, estimated=estimated)


def test_counts_everything() -> None:
    meter = Meter(FREE, prices=PRICES)
    meter.record(used(1_000_000, out=100_000, cached=400_000))
    meter.record(used(10, out=5, estimated=True))
    assert meter.usage.dollars == pytest.approx(1.2 + 0.2 + 0.8, abs=1e-3)
    assert (meter.usage.calls, meter.usage.input_tokens, meter.usage.estimated) == (2, 1_000_010, True)
    meter.check(10**9)


@pytest.mark.parametrize(
    ("budget", "call", "says"),
    [
        (Budget(tokens=100), used(60, out=40), "budget of 100 tokens is reached"),
        (Budget(dollars=0.01), used(5000), r"0.01 of 0.01 dollars"),
        (Budget(steps=1), used(), "1 of 1 model calls"),
    ],
)
def test_a_bound_stops_the_next_call(budget: Budget, call: CallUsage, says: str) -> None:
    meter = Meter(budget, prices=PRICES)
    meter.check()
    meter.record(call)
    with pytest.raises(BudgetReached, match=says):
        meter.check()


def test_minutes_run_whether_or_not_calls_are_made() -> None:
    clock = Clock()
    meter = Meter(Budget(minutes=2), prices=PRICES, clock=clock)
    clock.seconds += 96
    assert meter.nearly_spent() and meter.seconds_left == 24
    clock.seconds += 24
    with pytest.raises(BudgetReached, match=r"2\.0 minutes"):
        meter.check()


def test_a_call_that_cant_fit_is_not_made() -> None:
    meter = Meter(Budget(tokens=1000), prices=PRICES)
    meter.record(used(500))
    meter.check(499)
    with pytest.raises(BudgetReached):
        meter.check(500)


def test_nearly_spent_from_four_fifths_on() -> None:
    meter = Meter(Budget(tokens=1000, steps=None), prices=PRICES)
    for _ in range(7):
        meter.record(used(100))
    meter.record(used(99))
    assert not meter.nearly_spent()
    meter.record(used(1))
    assert meter.nearly_spent()
    assert meter.left == "200 of 1000 tokens are left; the last call took 1"


def test_nearly_spent_when_two_calls_more_do_not_fit() -> None:
    meter = Meter(Budget(tokens=1000, steps=None), prices=PRICES)
    meter.record(used(300))
    assert not meter.nearly_spent()
    meter.record(used(200))
    assert not meter.nearly_spent()
    assert meter.nearly_spent(next_tokens=300)
    meter.record(used(200))
    assert meter.nearly_spent()
    with pytest.raises(BudgetReached, match="700 of 1000 tokens are used, and the next call takes about 400"):
        meter.check(400)


def test_an_unknown_price_is_unknown_but_what_is_known_still_counts() -> None:
    meter = Meter(Budget(dollars=1.0), prices=PRICES)
    meter.record(used(100, model="local"))
    assert meter.usage.dollars is None
    meter.record(used(1_000_000))
    assert meter.usage.dollars is None
    with pytest.raises(BudgetReached, match="dollars"):
        meter.check()


def test_goes_on_from_what_earlier_runs_took() -> None:
    meter = Meter(Budget(tokens=100), spent=Usage(calls=3, input_tokens=90, dollars=0.5), prices=PRICES)
    meter.record(used(10))
    assert (meter.usage.calls, meter.usage.dollars) == (4, pytest.approx(0.50002))
    with pytest.raises(BudgetReached):
        meter.check()
    assert Meter(FREE, spent=Usage(calls=1), prices=PRICES).usage.dollars is None


def test_a_free_model_costs_nothing_and_says_so() -> None:
    meter = Meter(FREE, prices={"local": Price(input=0, cached=0, output=0)})
    meter.record(used(100, model="local"))
    assert meter.usage.dollars == 0.0


@pytest.mark.parametrize("model", ["m", "provider/m", "m-2026-01-31", "provider/m-20260131"])
def test_names_of_one_model(model: str) -> None:
    assert price_of(model, PRICES) == PRICES["m"]


@pytest.mark.parametrize("model", ["m-mini", "m2", "n", "m-2026"])
def test_names_of_other_models(model: str) -> None:
    assert price_of(model, PRICES) is None


def test_the_table_that_ships_is_sound() -> None:
    prices = load_prices()
    assert len(prices) > 20
    assert all(price.cached <= price.input <= price.output for price in prices.values())


def test_a_table_of_ones_own(tmp_path: Path) -> None:
    file = tmp_path / "prices.json"
    file.write_text('{"models": {"mine": {"input": 1, "cached": 0.1, "output": 2}}}')
    assert cost(load_prices(file)["mine"], used(1_000_000)) == 1.0


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"models": {"a": {"input": -1, "cached": 0, "output": 0}}}'])
def test_a_table_that_cant_be_used_is_named(tmp_path: Path, text: str) -> None:
    file = tmp_path / "prices.json"
    file.write_text(text)
    with pytest.raises(OperatorError, match="price table"):
        load_prices(file)


@pytest.mark.parametrize(
    ("context", "said", "room"),
    [
        (10_000, None, 8_000),
        (1_000_000, None, LONGEST_ROOM),
        (None, None, DEFAULT_ROOM),
        (10_000, 50_000, 50_000),
        (None, 1_000_000, 1_000_000),
    ],
)
def test_how_long_a_request_may_get(context: int | None, said: int | None, room: int) -> None:
    prices = {"m": Price(input=1, cached=1, output=1, context=context)}
    model = ModelEndpoint(base_url="http://127.0.0.1/v1", api_key="k", model="provider/m", context_tokens=said)
    assert room_of(model, prices) == room
    assert room_of(model.model_copy(update={"model": "other", "context_tokens": None}), prices) == DEFAULT_ROOM


def test_the_windows_that_ship_are_sound() -> None:
    talking = [price for name, price in load_prices().items() if "embedding" not in name]
    assert all(price.context and price.context >= 32_000 for price in talking)
