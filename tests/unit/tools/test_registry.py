"""Whatever a model sends, the answer is a result that helps it on."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.tools import REGISTRY, ToolContext, ToolResult, call, offered, specs

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
KEYS = [
    "path",
    "edits",
    "search",
    "replace",
    "text",
    "anchor",
    "content",
    "to",
    "name",
    "query",
    "claim",
    "summary",
    "start",
]


@pytest.mark.parametrize(
    ("name", "raw", "says"),
    [
        ("open_file", "{}", "The tools are: plan, search"),
        ("read", "", "`path`"),
        ("read", '{"path": ', "Send one JSON object"),
        ("read", '["a"]', "not an object"),
        ("read", '{"path": 5}', "`path`: Input should be a valid string"),
        ("read", '{"path": "a", "start": "many"}', "`start`"),
        ("read", '{"path": "a", "colour": 1}', "`colour`: there is no such field, only path, start, end"),
        (
            "plan",
            '{"intent": "bug_fix", "summary": "s", "steps": [{"id": "1", "objective": "o", "criteria": "c"}]}',
            "`steps.0.criteria`: there is no such field, only id, objective, .*done_when",
        ),
        ("read", '{"path": "a\\ud800"}', "lone surrogate"),
        ("read", "[" * 100_000, "nested too deeply"),
        ("write", json.dumps({"path": "a", "content": "x" * 10_000_000}), "can't be read: .* at most"),
        ("edit", '{"path": "a.py", "edits": []}', "`edits`"),
        ("edit", json.dumps({"path": "a.py", "edits": "[" * 100_000}), "nested too deeply"),
        ("edit", '{"path": "a.py", "edits": "x"}', "can't be read|`arguments`|`edits`"),
        ("edit", '{"path": "a.py"}', "`edits`: Field required"),
        ("edit", '{"path": "a.py", "search": "x"}', "`edits.0.replace`"),
        ("finish", '{"summary": "x", "claim": "fixed"}', "already_fixed"),
        ("x" * 5000, "{}", "There is no tool"),
    ],
)
def test_bad_calls_are_answered(context: ToolContext, name: str, raw: str, says: str) -> None:
    import re

    result = call(REGISTRY, context, name, raw)
    assert not result.ok
    assert re.search(says, result.text)
    assert len(result.text) < 1500


def test_raw_newlines_in_strings_are_taken(context: ToolContext) -> None:
    result = call(REGISTRY, context, "write", '{"path": "a.txt", "content": "one\ntwo\n"}')
    assert result.ok
    assert result.draft is not None
    assert result.draft.read("a.txt") == b"one\ntwo\n"


@settings(max_examples=150)
@given(
    st.sampled_from(sorted(REGISTRY)),
    st.dictionaries(st.sampled_from(KEYS), JSON, max_size=5) | JSON,
    st.sampled_from(["src/calc.py", "README.md", "", "\0", "x/y"]),
)
def test_no_call_raises(context: ToolContext, name: str, arguments: object, path: str) -> None:
    if isinstance(arguments, dict):
        arguments = {"path": path} | arguments
    result = call(REGISTRY, context, name, json.dumps(arguments))
    assert isinstance(result, ToolResult)
    assert result.text
    assert result.ok or result.draft is None


def test_the_schema_is_small_and_names_what_is_required() -> None:
    listed = specs(REGISTRY)
    assert len(json.dumps(specs(offered(REGISTRY, None)))) < 7_065
    by_name = {spec["function"]["name"]: spec["function"]["parameters"] for spec in listed}
    assert by_name.keys() == REGISTRY.keys()
    assert by_name["read"] == {
        "type": "object",
        "properties": {"path": {"type": "string"}, "start": {"type": "integer"}, "end": {"type": "integer"}},
        "required": ["path"],
    }
    edits = by_name["edit"]["properties"]["edits"]
    assert edits["items"]["required"] == ["search", "replace"]
    assert by_name["finish"]["properties"]["claim"]["enum"][0] == "done"
    assert "$ref" not in json.dumps(listed)
