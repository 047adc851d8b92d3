"""Finding JSON, and reasoning, in what a model wrote."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.model import actions
from agent.model.jsontext import is_cut, json_objects, why_none
from agent.model.thinking import VisibleText, without_reasoning


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": 1}', [{"a": 1}]),
        ('Here:\n```json\n{"note":"use ``` in docs"}\n```\nLet me know.', [{"note": "use ``` in docs"}]),
        ('Like {this} or {"x": 1}? No: {"a": {"b": [1, {"c": 2}]}} {', [{"x": 1}, {"a": {"b": [1, {"c": 2}]}}]),
        ('{"a": "line\nbreak\tand tab"}', [{"a": "line\nbreak\tand tab"}]),
        ('{} then {"a": 1}', [{}, {"a": 1}]),
        ('{"a": 1} {"long": "er"}', [{"a": 1}, {"long": "er"}]),
    ],
)
def test_every_object_in_order(text: str, expected: list[object]) -> None:
    assert list(json_objects(text)) == expected


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("no object", "holds no JSON object"),
        ("[1, 2]", "holds no JSON object"),
        ('{"a": 1,}', "broken: .* line 1 column"),
        ('{"a": ' * 5000, "broken|too deeply"),
        ("{" * 100_000, "broken"),
        ('{"a": ' + "1" * 5000 + "}", "too long"),
    ],
)
def test_why_there_is_no_object(text: str, says: str) -> None:
    assert json_objects(text) == ()
    assert re.search(says, why_none(text))


@pytest.mark.parametrize("text", ['{"a": "b', '{"a": "b\\', '{"a": [1', '{"a": "}"', '  [{"a": 1}'])
def test_cut(text: str) -> None:
    assert is_cut(text)


@pytest.mark.parametrize("text", ["", "plain", "say {", '{"a": "{["}', '{"a": "\\""}', "{'a': 1}", "}{"[:1]])
def test_not_cut(text: str) -> None:
    assert not is_cut(text)


@pytest.mark.parametrize(
    ("text", "actions_in_it", "cut"),
    [
        ('{"tool": "edit", "arguments": {"a": 1}}', [("edit", '{"a": 1}')], False),
        ('{"name": "edit", "arguments": "{}"}', [("edit", "{}")], False),
        ('Uses {braces}. {"actions": [{"tool": "a"}, {"tool": "b"}]}', [("a", "{}"), ("b", "{}")], False),
        ('{"actions": [{"tool": "a"}, {"no": "tool"}]}', [], False),
        ('<tool_call>{"name": "a", "arguments": {}}</tool_call>\n{"tool": "b"}', [("a", "{}"), ("b", "{}")], False),
        ('{"name": "edit", "version": 2}', [], False),
        ('I could {"tool": "x"}. {"actions": [{"tool": "a"}]}', [("a", "{}")], False),
        ('{"actions": [{"tool": "a"}, {"tool": "b", "argu', [], True),
        ('{"answer": 42}', [], False),
        ('{"actions": [5, "x"]}', [], False),
        ('{"actions": {"tool": "a"}}', [], False),
        ('{"tool": 5}', [], False),
        ('{"tool": ""}', [], False),
        ('Open {brace, then {"tool": "a"}', [("a", "{}")], False),
        ("A list begins with [", [], False),
        ("Just text.", [], False),
    ],
)
def test_actions_in_text(text: str, actions_in_it: list[tuple[str, str]], cut: bool) -> None:
    calls, was_cut = actions.parse(text)
    assert ([(c.name, c.arguments) for c in calls], was_cut) == (actions_in_it, cut)


REASONING = [
    ("<think>a</think>b", "b"),
    ("\n<THINKING>a</THINKING>\n\nb\n", "b\n"),
    ("<think>a</think>\n<think>c</think>b", "b"),
    ("<think>never ends", ""),
    ("plain", "plain"),
    ("  plain", "  plain"),
    ("the tag `<think>` is content", "the tag `<think>` is content"),
    ("<thin", "<thin"),
    ("<b>bold</b>", "<b>bold</b>"),
    ("", ""),
    ("Put it between\n<think>\nand\n</think>\nand so on", "Put it between\n<think>\nand\n</think>\nand so on"),
]


@pytest.mark.parametrize(("text", "expected"), [*REASONING, ("some reasoning\n</think>\nb", "b")])
def test_reasoning_is_taken_out(text: str, expected: str) -> None:
    assert without_reasoning(text) == expected


def test_blocks_of_any_number_are_taken_out_in_bounded_time() -> None:
    assert without_reasoning("<think> </think>\n" * 200_000 + "b") == "b"


# A text that ends inside what may be a tag stays held back: there is nothing more to wait for.
@given(st.sampled_from([case for case in REASONING if case[0] != "<thin"]), st.lists(st.integers(1, 7)))
def test_pieces_show_what_the_whole_shows(case: tuple[str, str], sizes: list[int]) -> None:
    text, expected = case
    visible, shown = VisibleText(), ""
    for size in [*sizes, *[1] * len(text)]:
        piece, text = text[:size], text[size:]
        shown += visible.feed(piece)
    assert shown.lstrip() == expected.lstrip()


@pytest.mark.parametrize("piece", ["  plain", "a", "<b", "<a>", "<thinkers", "<thinking ", "\n<- that"])
def test_what_can_be_no_reasoning_is_shown_at_once(piece: str) -> None:
    assert VisibleText().feed(piece) == piece


@pytest.mark.parametrize(
    ("pieces", "shown"),
    [
        (("<", "b"), ["", "<b"]),
        (("<think>a</think>\n\n", "b"), ["", "b"]),
        (("<think>a</think>\n\nb", " c"), ["b", " c"]),
    ],
)
def test_pieces_are_shown_as_soon_as_they_can_be(pieces: tuple[str, ...], shown: list[str]) -> None:
    visible = VisibleText()
    assert [visible.feed(piece) for piece in pieces] == shown
