"""The estimate against counts that were made with real tokenizers (cl100k and o200k)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent.model.tokens import estimate_tokens

SAMPLES = json.loads(Path("tests/data/tokens.json").read_text("utf-8"))


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_the_estimate_is_near(name: str) -> None:
    sample = SAMPLES[name]
    counts = sample["cl100k"], sample["o200k"]
    estimate = estimate_tokens(sample["text"] * sample.get("times", 1))
    assert min(counts) * sample["low"] <= estimate <= max(counts) * sample["high"]


def test_nothing_is_nothing() -> None:
    assert estimate_tokens("") == 0


def test_grows_with_the_text() -> None:
    text = "def f(x):\n    return x + 1\n"
    assert estimate_tokens(text * 10) == pytest.approx(10 * estimate_tokens(text), abs=10)
