"""``graftsmith ask``: an answer with places, from reading alone."""

from __future__ import annotations

import json

import pytest

from agent.ask import REGISTRY, places
from agent.git import Git
from agent.record import read_events, read_result
from agent.tree import BaseTree
from agent.types import Outcome, Place
from tests.flow.world import EDIT, call, plan
from tests.unit.engine.conftest import Desk, MakeModel

ANSWER = "It skips the first item: `widget.py:2`. There is also widget.py:99, and 10:30 is no place."


def test_an_answer_with_places_and_nothing_changed(desk: Desk, scripted: MakeModel) -> None:
    model = scripted(
        {"tool_calls": [call("read", path="widget.py")]}, {"expect": "2|    return sum(items[1:])", "content": ANSWER}
    )
    ran = desk.graftsmith("ask", "Why is total wrong?", "--json", model=model)
    assert ran.code == 0, (ran.err, ran.error)
    told = json.loads(ran.out)
    assert (told["outcome"], told["summary"]) == ("answered", ANSWER)
    assert told["places"] == [{"path": "widget.py", "start": 2, "end": 2}]
    assert told["change_set"]["changes"] == []
    assert any("widget.py:99" in note for note in told["notes"])
    assert desk.repository.git("status", "--porcelain") == ""
    assert told["evidence"]["baseline"] is None, "no test was run"


def test_the_answer_is_written_as_it_comes(desk: Desk, scripted: MakeModel) -> None:
    ran = desk.graftsmith("ask", "Why?", model=scripted({"content": f"\x1b]0;evil\x07{ANSWER}"}))
    assert ran.code == 0
    assert ANSWER in ran.out
    assert "\x1b" not in ran.out + ran.err


def test_a_conversation_is_one_run(desk: Desk, scripted: MakeModel) -> None:
    desk.repository.commit({"large.txt": "A line of a large file.\n" * 100})
    model = scripted(
        {"tool_calls": [call("read", path="large.txt")]},
        {"content": "The first item: widget.py:2"},
        {"expect": "And double?", "content": "It doubles: widget.py:6"},
        {"expect": "And then?", "content": "Nothing."},
    )
    ran = desk.graftsmith("ask", model=model, typed="What does total skip?\nAnd double?\nAnd then?\n\n")
    assert ran.code == 0, (ran.err, ran.error)
    assert "widget.py:2" in ran.out
    assert "widget.py:6" in ran.out
    (folder,) = desk.runs
    result = read_result(folder)
    assert result is not None
    assert (result.outcome, result.usage.calls) == (Outcome.ANSWERED, 4)
    events = [event for _, event in read_events(folder / "events.jsonl")]
    assert [e["text"] for e in events if e["kind"] == "question"] == ["And double?", "And then?"]
    calls = [e for e in events if e["kind"] == "model_call"]
    assert [e["kept"] for e in calls] == [0, 2, 4, 3], "what was looked up for the first question is shortened, once"
    assert "left out to save room" in str(calls[-1]["messages"])


def test_nobody_who_asks_can_change_anything(desk: Desk, scripted: MakeModel) -> None:
    assert {"edit", "write", "delete", "run_tests", "finish"}.isdisjoint(REGISTRY)
    model = scripted({"tool_calls": [EDIT]}, {"expect": "There is no tool 'edit'", "content": "I can only look."})
    ran = desk.graftsmith("ask", "Fix it!", "--json", model=model)
    assert json.loads(ran.out)["change_set"]["changes"] == []


def test_a_task_that_is_a_question_is_answered(desk: Desk, scripted: MakeModel) -> None:
    model = scripted(plan(intent="question", steps=[]), {"expect": "nothing is changed", "content": ANSWER})
    task = ("run", "--task", "Why is total wrong?", "--json", "--test-command", desk.test)
    told = json.loads(desk.graftsmith(*task, model=model).out)
    assert (told["outcome"], told["summary"]) == ("answered", ANSWER)
    assert told["places"] == [{"path": "widget.py", "start": 2, "end": 2}]


def test_replies_that_are_cut_end_by_name(desk: Desk, scripted: MakeModel) -> None:
    cut = {"content": "It is a long", "finish_reason": "length"}
    ran = desk.graftsmith("ask", "Why?", "--json", model=scripted(cut, cut, cut))
    assert (ran.code, json.loads(ran.out)["outcome"]) == (1, "stuck")


@pytest.mark.parametrize(
    ("text", "there", "missing"),
    [
        ("see widget.py:2-3 and `./widget.py:1`", [("widget.py", 2, 3), ("widget.py", 1, 1)], []),
        ("widget.py:0, widget.py:5-2, widget.py:7", [], ["widget.py:0", "widget.py:5", "widget.py:7"]),
        ("http://x:80/widget.py:1x 12:30 nothing.py:1 nowhere/x.py:1", [], []),
        ("tests/gone.py:3 tests/8080:1", [], ["tests/gone.py:3"]),
        ("widget.py:2 widget.py:2 (widget.py:2)", [("widget.py", 2, 2)], []),
        ("a" * 200_000 + ":1", [], []),
    ],
)
def test_places_of_an_answer(desk: Desk, text: str, there: list[tuple[str, int, int]], missing: list[str]) -> None:
    desk.repository.commit({"tests/there.py": ""})
    with Git(desk.repository.git_dir) as git:
        named = places(text, BaseTree.load(git, desk.repository.git("rev-parse", "HEAD")))
    assert named.there == tuple(Place(path=path, start=start, end=end) for path, start, end in there)
    assert list(named.missing) == missing
