"""``graftsmith replay``: the same code says the same; other code is told where it differs."""

from __future__ import annotations

import json
import re
import shutil
import stat
from pathlib import Path

from agent.model.scripted import serve
from tests.flow.world import EDIT, FINISH, WRITE, call, plan
from tests.support.embeddings import embeddings
from tests.unit.engine.conftest import KEY, Desk, MakeModel

TOKEN = "ghp_" + "aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW3xY5"
STEPS = (
    plan(),
    {
        "tool_calls": [
            call("write", path="note.txt", content=f"a\n{TOKEN}\n"),
            call("read", path="note.txt"),
            call("run_tests"),
        ]
    },
    {"tool_calls": [EDIT, WRITE, FINISH]},
)
TASK = ("run", "--task", f"total leaves the first item out\n{TOKEN}", "--no-apply", "--json")


def _recorded(desk: Desk, model: str) -> Path:
    ran = desk.graftsmith(*TASK, "--test-command", desk.test, model=model)
    assert json.loads(ran.out)["outcome"] == "proposed", ran
    (folder,) = desk.runs
    return folder


def test_a_run_replays_exactly_without_an_endpoint(desk: Desk, scripted: MakeModel) -> None:
    folder = _recorded(desk, scripted(*STEPS))
    ran = desk.graftsmith("replay", str(folder))
    assert ran.code == 0, (ran.out, ran.err, ran.error)
    assert ran.out == "The same: 3 model calls, outcome proposed\n"

    # What is kept holds no key, and the seed only where nobody else can read it.
    spec = folder / "spec.json"
    assert stat.S_IMODE(spec.stat().st_mode) == 0o600
    assert json.loads(spec.read_text())["seed"] not in (folder / "events.jsonl").read_text()
    for file in folder.iterdir():
        assert not file.is_file() or KEY not in file.read_text()
    assert TOKEN not in (folder / "events.jsonl").read_text(), "a task, or a file, may hold somebody's"

    # A folder that was brought from elsewhere has no objects of its own.
    shutil.rmtree(folder / "repository.git")
    assert "--repo" in str(desk.graftsmith("replay", str(folder)).error)
    assert desk.graftsmith("replay", str(folder / "events.jsonl"), "--repo", str(desk.repository.path)).code == 0


def test_it_says_where_it_differs(desk: Desk, scripted: MakeModel) -> None:
    folder = _recorded(desk, scripted(*STEPS))
    log = folder / "events.jsonl"
    lines = log.read_text().replace("return sum(items[1:])\\\\n", "return sum(items[9:])\\\\n").splitlines()
    changed = [line.replace("1 passed, 0 failed", "7 passed, 0 failed") for line in lines]
    changed = [re.sub(r'"request": "\w+"', '"request": "another"', line) for line in changed]
    log.write_text("\n".join(changed) + "\n")
    ran = desk.graftsmith("replay", str(folder))
    assert ran.code == 1
    assert "Model call 1, message 1 differs" in ran.out
    assert "-ok: 7 passed, 0 failed" in ran.out
    assert "+ok: 1 passed, 0 failed" in ran.out


def test_a_record_that_breaks_off_differs(desk: Desk, scripted: MakeModel) -> None:
    folder = _recorded(desk, scripted(*STEPS))
    log = folder / "events.jsonl"
    kept = [line for line in log.read_text().splitlines() if '"number": 3' not in line]
    log.write_text("\n".join(kept) + "\n")
    ran = desk.graftsmith("replay", str(folder))
    assert ran.code == 1
    assert "Outcome: recorded proposed, replayed blocked" in ran.out


def test_a_conversation_replays_with_its_questions(desk: Desk, scripted: MakeModel) -> None:
    model = scripted({"content": "One: widget.py:2"}, {"expect": "And?", "content": "Two."})
    desk.graftsmith("ask", model=model, typed="Why?\nAnd?\n\n")
    (folder,) = desk.runs
    ran = desk.graftsmith("replay", str(folder))
    assert (ran.code, ran.out) == (0, "The same: 2 model calls, outcome answered\n"), ran


def test_what_was_found_by_meaning_replays_too(desk: Desk) -> None:
    order = {"name": "order", "when": "numbered places", "steps": [{"content": json.dumps({"order": [1, 0]})}]}
    sessions = {"sessions": [order, {"name": "work", "steps": list(STEPS)}]}
    with embeddings() as endpoint, serve(sessions) as model:
        ran = desk.graftsmith(
            *TASK, "--test-command", desk.test, model=model.base_url,
            embedding_model="m", embedding_base_url=endpoint.url, embedding_api_key="embedding-key-77", rerank="yes",
        )  # fmt: skip
        assert json.loads(ran.out)["outcome"] == "proposed", ran.out
        assert set(endpoint.keys) == {"Bearer embedding-key-77"}
        assert json.loads(ran.out)["usage"]["embedded_tokens"] > 0
        asked = endpoint.requests
    (folder,) = desk.runs
    assert '"kind": "meaning"' in (folder / "events.jsonl").read_text()
    replayed = desk.graftsmith("replay", str(folder))
    assert (replayed.code, replayed.out) == (0, "The same: 4 model calls, outcome proposed\n"), replayed
    assert endpoint.requests == asked
    for file in folder.iterdir():
        assert not file.is_file() or "embedding-key-77" not in file.read_text()
