"""What others wrote does nothing to a person's terminal."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from agent.errors import UserError
from agent.types import RunResult
from app.cli import cli
from app.commands import display
from app.terminal import Terminal, all_cleaned, heard
from tests.unit.report import cases

EVIL = "\x1b[31m\x1b]0;title\x07\x9b2J\u202e\x08\x00[bold]"
ACTS = {chr(n) for n in (*range(0x20), *range(0x7F, 0xA0)) if chr(n) not in "\t\n"} | {"\u202e"}


def planted(value: Any) -> Any:
    """``value`` with something evil in every text of it."""
    if isinstance(value, str):
        return f"{value}{EVIL}"
    if isinstance(value, dict):
        return {key: planted(item) for key, item in value.items()}
    return [planted(item) for item in value] if isinstance(value, list) else value


def with_evil(result: RunResult) -> RunResult:
    """The same result with evil texts wherever any text is allowed."""
    whole = result.model_dump(mode="json")

    def plant(node: Any, path: tuple[str | int, ...]) -> None:
        items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
        for key, item in list(items):
            if isinstance(item, str):
                node[key] = planted(item)
                try:
                    RunResult.model_validate(whole)
                except ValidationError:
                    node[key] = item
            else:
                plant(item, (*path, key))

    plant(whole, ())
    return RunResult.model_validate(whole)


def shown(result: RunResult) -> str:
    out = io.StringIO()
    console = Terminal(file=out, width=200, color_system=None)
    display.result(console, result, Path("/runs/1"), ("a\x1b[31m.py",), None)
    if result.plan:
        display.plan(console, result.plan)
    with display.progress(console) as listener:
        listener({"kind": "stage", "name": EVIL})
        listener({"kind": "tool_result", "name": EVIL, "ok": False})
        listener({"kind": "check", "tool": EVIL, "found": [1], "more": 0})
        listener({"kind": "decision", "part": EVIL, "accepted": True})
        suite = {"status": "not_run", "detail": EVIL, "passed": 0, "failed": [], "more": 0}
        listener({"kind": "test_run", "name": "baseline", "run": suite})
    return out.getvalue()


@pytest.mark.parametrize("name", ["PROVEN", "WEAKENED", "MEASURED", "REVIEWED", "CHANGED", "PLANNED"])
def test_the_end_of_a_run(name: str) -> None:
    result = with_evil(getattr(cases, name))
    assert "\x1b" in result.reason
    told = shown(result)
    assert not ACTS & set(told)
    assert "[bold]" in told


def test_the_story_of_a_run(tmp_path: Path) -> None:
    events = [
        {"at": 1.0, "kind": "stage", "name": "work"},
        {"at": 1.0, "kind": "model_call", "model": "m", "seconds": 1.0, "messages": [{"role": "user", "content": "x"}]}
        | {"reply": {"text": "t", "usage": {"input_tokens": 1, "output_tokens": 1}, "tool_calls": []}},
        {"at": 1.0, "kind": "tool_result", "name": "edit", "ok": True, "text": "done"},
        {"at": 1.0, "kind": "test_run", "run": {"status": "ok", "passed": 1, "failed": ["t"], "seconds": 1.0}},
        {"at": 1.0, "kind": "check", "tool": "ruff", "silent": "", "more": 0}
        | {"found": [{"path": "a", "line": 1, "rule": "E", "message": "m"}]},
        {"at": 1.0, "kind": "note", "text": "what", "more": ["x"]},
    ]
    log = tmp_path / "events.jsonl"
    log.write_text("".join(json.dumps({**planted(event), "kind": event["kind"]}) + "\n" for event in events))
    told = CliRunner().invoke(cli, ["show", str(tmp_path)])
    assert told.exit_code == 0
    assert not ACTS & set(told.output)
    assert told.output.count("[bold]") >= 9


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=4,
)
FIELDS = (
    "at",
    "name",
    "model",
    "seconds",
    "messages",
    "reply",
    "error",
    "ok",
    "text",
    "run",
    "found",
    "silent",
    "more",
)


@given(
    st.sampled_from(["stage", "model_call", "tool_result", "test_run", "check", "note", "else"]),
    st.dictionaries(st.sampled_from(FIELDS), ANYTHING, max_size=8),
)
@settings(max_examples=150)
def test_the_story_of_a_log_of_another_version(tmp_path: Path, kind: str, event: dict[str, Any]) -> None:
    log = tmp_path / "events.jsonl"
    log.write_text(json.dumps({**event, "kind": kind}) + "\n")
    told = CliRunner().invoke(cli, ["show", str(log)])
    assert told.exit_code == 0, told.exception
    assert told.output


def test_a_run_is_found_by_its_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAFTSMITH_STATE_DIR", str(tmp_path))
    places = ("local/run[1]", "jobs/job-1/run-1", "jobs/job-1/run-1.1")
    for age, place in enumerate(places):
        (tmp_path / place).mkdir(parents=True)
        log = tmp_path / place / "events.jsonl"
        log.write_text(json.dumps({"kind": "stage", "name": place}) + "\n")
        os.utime(log, (age, age))
    for run, place in (("run[1]", places[0]), ("job-1", places[2]), (str(tmp_path / places[1]), places[1])):
        assert f"── {place} ──" in CliRunner().invoke(cli, ["show", run]).output
    assert isinstance(CliRunner().invoke(cli, ["show", "job-2"], standalone_mode=False).exception, UserError)


@pytest.mark.parametrize(
    "command",
    [
        ("replay", "plain.txt"),
        ("run", "--resume", "plain.txt"),
        ("show", ""),
        ("show", "/dev/zero"),
        ("run", "--resume", ""),
    ],
)
def test_a_file_that_is_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_MODEL", "m")
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    for content in ('{"at": 1, "kind": "note"}', "[" * 100_000):
        Path("plain.txt").write_text(f"{content}\n")
        told = CliRunner().invoke(cli, list(command), standalone_mode=False)
        assert isinstance(told.exception, UserError)


def test_what_went_wrong(tmp_path: Path) -> None:
    import subprocess
    import sys

    (tmp_path / "odd\x1b[31m").mkdir()
    done = subprocess.run(
        [str(Path(sys.executable).parent / "graftsmith"), "run", "--repo", "odd\x1b[31m", "--task", "x"],
        cwd=tmp_path,
        env={"OPENAI_API_KEY": "k", "OPENAI_MODEL": "m", "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
        capture_output=True,
    )
    assert done.returncode == 2
    assert b"not a usable git checkout" in done.stderr
    assert b"\x1b" not in done.stderr


@given(st.binary())
def test_what_is_no_text_is_heard_as_text(said: bytes) -> None:
    wanted = said.decode("utf-8", "replace")
    assert heard(f" {said.decode('utf-8', 'surrogateescape')}") == f" {wanted}"
    with CliRunner().isolation(input=said):
        assert heard("-") == wanted


@given(st.text())
@settings(max_examples=200)
def test_nothing_that_acts_is_left(text: str) -> None:
    (kept,) = all_cleaned({text: [text]}).items()
    assert not ACTS & set(json.dumps(kept, ensure_ascii=False).replace("\\n", "").replace("\\t", ""))
