"""What a person reads at the end of a run."""

from __future__ import annotations

import io
from pathlib import Path

from agent.types import Caller, Impact, RunResult
from app.commands import display
from app.terminal import Terminal
from tests.unit.report.cases import PROVEN, WEAKENED


def test_the_first_word_says_whether_the_change_is_proven() -> None:
    assert _told(PROVEN, applied=("a.py",)).startswith("\nproposed, proven: ")
    assert _told(WEAKENED).startswith("\ntests failing: ")


def test_what_nobody_calls_has_no_blast_radius() -> None:
    caller = Caller(path="b.py", line=1, inside="f", resolved=True, covered=True)
    impact = (Impact(symbol="lonely", path="a.py"), Impact(symbol="used", path="a.py", callers=(caller,), resolved=1))
    told = _told(PROVEN.model_copy(update={"evidence": PROVEN.evidence.model_copy(update={"impact": impact})}))
    assert "used" in told and "lonely" not in told


def test_what_is_to_be_copied_is_one_line_and_one_word_for_the_shell() -> None:
    folder = Path("/a folder", *["of many names"] * 9)
    assert f"git apply '{folder}/change.patch'\n" in (told := _told(PROVEN, folder=folder))
    assert f"this run: {folder}\n" in told


def test_a_suite_without_counts_says_why_there_are_none() -> None:
    printed = io.StringIO()
    with display.progress(Terminal(file=printed, width=100)) as listener:
        for detail, passed in (("they did not end\n…", 0), ("", 0), ("", 3)):
            run = {"status": "timed_out", "detail": detail, "passed": passed, "failed": [], "more": 0}
            listener({"kind": "test_run", "name": "baseline", "run": run, "kept": detail == ""})
    first, second, third = (line.strip() for line in printed.getvalue().splitlines())
    assert first == "they did not end"
    assert second == "the tests ran out of time, as an earlier run measured it"
    assert third == "the tests ran out of time: 3 passed, 0 failed, as an earlier run measured it"


def _told(result: RunResult, *, applied: tuple[str, ...] = (), folder: Path = Path("/runs/1")) -> str:
    printed = io.StringIO()
    display.result(Terminal(file=printed, width=100), result, folder, applied, None)
    return printed.getvalue()
