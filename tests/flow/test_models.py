"""What an operator says of models reaches the run: prices of their own, and a second model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent.record import read_events
from agent.types import Outcome
from app.devhub.devhub import DevHub
from app.devhub.serving import serving
from tests.flow.world import BUG, EDIT, FINISH, WRITE, outcome, plan, world

SCRIPT = {
    "model": "spare",
    "only": True,
    "sessions": [{"name": "any", "steps": [plan(), {"tool_calls": [EDIT, WRITE, FINISH]}]}],
}
PRICES = {"models": {"spare": {"input": 100.0, "cached": 100.0, "output": 1000.0}}}


def test_a_second_model_goes_on_at_its_own_price(open_tmp_path: Path, app_key: str) -> None:
    table = open_tmp_path / "prices.json"
    table.write_text(json.dumps(PRICES))
    hub = DevHub(open_tmp_path / "hub")
    settings = {"OPENAI_FALLBACK_MODEL": "spare", "GRAFTSMITH_PRICES": str(table)}
    with serving(hub), world(open_tmp_path, hub, SCRIPT, app_key, **settings) as flow:
        repo = flow.repository("second")
        repo.add_label(repo.open_issue(BUG, by="maria"), "agent", by="maria")
        job = flow.ended(repo)
        assert outcome(job) is Outcome.PROPOSED, job.ending
        usage = flow.result(job).usage
        (pull,) = flow.pulls(repo)
        log = Path(flow.service.settings["GRAFTSMITH_STATE_DIR"]) / "jobs" / job.id / "run-1" / "events.jsonl"
        calls = [event for _, event in read_events(log) if event["kind"] == "model_call"]
    hub.close()
    assert [call["model"] for call in calls] == ["spare", "spare"]
    assert any("going on with spare" in attempt for attempt in calls[0]["attempts"])
    dollars = usage.input_tokens * 100e-6 + usage.output_tokens * 1000e-6
    assert usage.dollars == pytest.approx(dollars)
    assert job.usage.dollars == pytest.approx(dollars), "the server's own count"
    assert f"${dollars:.2f}" in (pull.body or "")
