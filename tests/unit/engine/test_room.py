"""A run whose conversation does not fit into the model's window."""

from __future__ import annotations

import json

import pytest

from agent.record import read_events
from tests.flow.world import EDIT, FINISH, WRITE, call, plan
from tests.unit.engine.conftest import Desk, MakeModel


def test_a_long_conversation_is_cut_back_and_replays(
    desk: Desk, scripted: MakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRAFTSMITH_CONTEXT_TOKENS", "16000")
    looks = [{"tool_calls": [call("run_command", command=f"seq {n} 1000")]} for n in range(8)]
    model = scripted(plan(), *looks, {"expect": "999", "tool_calls": [EDIT, WRITE, FINISH]})
    task = ("run", "--task", "Count every item", "--no-apply", "--json", "--test-command", desk.test)
    result = json.loads(desk.graftsmith(*task, model=model).out)
    assert (result["outcome"], result["proven"]) == ("proposed", True)
    (folder,) = desk.runs
    events = [event for _, event in read_events(folder / "events.jsonl")]
    cuts = [event["cut_back"] for event in events if "cut_back" in event]
    assert cuts
    assert all(cut["to"] < cut["from"] for cut in cuts)
    sent = [message["content"] for event in events if event["kind"] == "model_call" for message in event["messages"]]
    assert any("left out to save room" in content for content in sent)
    assert desk.graftsmith("replay", str(folder)).out.startswith("The same: 10 model calls")
