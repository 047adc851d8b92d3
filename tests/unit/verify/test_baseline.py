"""The tests of the base, kept for the next run on the same tree and never believed against today's."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent.types import Finding, SuiteStatus, TestOutcome, TestRun
from agent.verify.baseline import MAX_AGE_S, Baseline, Kept, Shelf, key_of
from agent.verify.compare import compare
from tests.unit.verify.conftest import Bench, MakeBench

PASSED, FAILED = TestOutcome.PASSED, TestOutcome.FAILED
FILES = {
    "calc.py": "def add(a, b):\n    return a + b\n",
    "test_calc.py": "from calc import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n\n\n"
    "def test_wrong():\n    assert add(1, 1) == 3\n",
}
ADD, WRONG = "test_calc.py::test_add", "test_calc.py::test_wrong"

MakeRun = Callable[..., Bench]


@pytest.fixture
def again(bench: MakeBench, tools: str, tmp_path: Path, machine_cache: Path) -> MakeRun:
    """One more run on a machine whose state is kept: the set-up installs pytest, and what it made is found again, also
    by other tests, which it takes longer than."""
    (cache := tmp_path / "cache").mkdir()
    (installed := machine_cache / "environments").mkdir(mode=0o711, exist_ok=True)
    (cache / installed.name).symlink_to(installed)
    site = f"lib/python3.{sys.version_info.minor}/site-packages"
    packages = Path(tools.split(":")[0]).parent / site
    setup = (f"printf %s {packages} > /environment/venv/{site}/pytest.pth",)

    def make(
        files: dict[str, str] | None = None, test: str = "pytest", more: tuple[str, ...] = (), **how: Any
    ) -> Bench:
        options = {"setup": (*setup, *more), "local": False, "cache": cache, **how}
        return bench(files or FILES, test, **options)

    return make


def shelf(made: Bench) -> Shelf:
    return Shelf(Path(made.spec.cache_dir) / "baselines")


def taken(made: Bench) -> Baseline:
    return Baseline(made.harness, made.base, shelf(made))


def runs(made: Bench) -> list[bool]:
    """Of each run of the base: whether it was another run's."""
    told = [e for e in made.events.events if e["kind"] == "test_run" and e["name"] == "baseline"]
    return [e.get("kept", False) for e in told]


def remembered(made: Bench, **outcomes: TestOutcome) -> None:
    """On the day that it was measured, these ended in another way."""
    kept = shelf(made).find(key_of(made.harness))
    assert kept is not None
    run = kept.run.model_copy(update={"outcomes": {f"test_calc.py::{k}": v for k, v in outcomes.items()}})
    shelf(made).keep(kept.model_copy(update={"run": run}))


def test_it_is_measured_once_for_one_tree(again: MakeRun) -> None:
    first = again()
    measured = taken(first)
    assert (measured.run.status, measured.taken_from) == (SuiteStatus.FAILING, ""), measured.run.log
    measured.said["flake8\na.py"] = (Finding(path="a.py", line=1, rule="W1", message="m"),)
    measured.keep()

    second = again()
    kept = taken(second)
    assert runs(first) == [False] and runs(second) == [True]
    assert kept.run.outcomes == measured.run.outcomes == {ADD: PASSED, WRONG: FAILED}
    assert kept.taken_from.endswith("UTC") and kept.said == measured.said
    for other in (again({**FILES, "calc.py": "add = sum\n"}), again(test="pytest -q"), again(more=("true",))):
        assert key_of(other.harness) != key_of(first.harness)


LOOPS = """import itertools


class TestA:
    def test_loops(self):
        for _ in itertools.count():
            pass

    def test_loops_too(self): pass

    def test_ends(self): pass
"""


def test_a_test_that_never_ends_is_left_to_fail_alone(bench: MakeBench) -> None:
    ini = "[pytest]\nfaulthandler_timeout = 2\n"
    made = bench({**FILES, "tests/test_loops.py": LOOPS, "pytest.ini": ini}, "pytest", wall_s=12)
    baseline = taken(made)
    never = tuple(f"tests/test_loops.py::TestA::{name}" for name in ("test_loops", "test_loops_too"))
    assert baseline.endless == never
    assert baseline.run.passed == {ADD, "tests/test_loops.py::TestA::test_ends"}
    assert baseline.run.failed == {WRONG, *never} and "did not end" in baseline.run.messages[never[0]]
    draft = made.draft({"calc.py": FILES["calc.py"].replace("+", "-")})
    after = made.harness.run(draft, name="final", fresh=True)
    found = compare(baseline.run, after)
    assert (found.regressed, {*found.still_failing}) == ((ADD,), {WRONG, *never})
    assert made.harness.run(draft, (never[1],)).passed == {never[1]}, "by its name it is run"


def test_that_a_suite_is_too_long_is_known_for_a_day_and_its_part_measured_each_time(again: MakeRun) -> None:
    first = again()
    baseline = taken(first)
    baseline.run = TestRun(command=("pytest",), status=SuiteStatus.TIMED_OUT, detail="they did not end")
    assert baseline.go_by_parts()
    baseline.keep()

    second = again()
    later = taken(second)
    assert later.run.detail == "they did not end" and runs(second) == [True]
    assert later.go_by_parts() and later.run.outcomes == {ADD: PASSED, WRONG: FAILED} and not later.taken_from
    assert later.partial is not None and later.partial.why.startswith("they did not end (In an earlier run, ")
    later.keep()
    kept = shelf(second).find(key_of(second.harness))
    assert kept is not None and not kept.run.outcomes
    shelf(second).keep(kept.model_copy(update={"measured_at": time.time() - 25 * 3600}))
    assert not shelf(second).find(kept.key)


def test_a_suite_that_was_too_long_and_has_no_part_is_measured_again(again: MakeRun) -> None:
    made = again(test="sh -c 'exit 1'")
    long = TestRun(command=("t",), status=SuiteStatus.TIMED_OUT, detail="they did not end")
    shelf(made).keep(Kept(key=key_of(made.harness), measured_at=time.time(), run=long))
    baseline = taken(made)
    assert baseline.run.status is SuiteStatus.TIMED_OUT and runs(made) == [True]
    assert not baseline.go_by_parts() and not baseline.taken_from
    assert baseline.run.status is SuiteStatus.FAILING and runs(made) == [True, False]


def test_a_persons_own_environment_and_files_have_no_name(again: MakeRun, bench: MakeBench) -> None:
    assert key_of(again(local=True).harness) == ""
    made = bench({"Makefile": "test:\n\ttrue\n"}, local=False)
    assert key_of(made.harness) == "", "nothing is installed, and the machine's own may change"
    made = again(local=True)
    taken(made)
    assert not (Path(made.spec.cache_dir) / "baselines").exists()


def test_a_kept_baseline_does_not_speak_against_a_change(again: MakeRun) -> None:
    taken(again())
    made = again()
    remembered(made, test_add=PASSED, test_wrong=PASSED)
    baseline = taken(made)
    fine = made.draft({"calc.py": "def add(a, b):\n    return b + a\n"})
    after = made.harness.run(fine, fresh=True)
    said = compare(baseline.run, after)
    assert said.regressed == (WRONG,)
    assert baseline.doubted(said)
    now = compare(baseline.run, after)
    assert now.clean and now.still_failing == (WRONG,) and not baseline.doubted(now)
    assert (runs(made), baseline.taken_from, baseline.flaky) == ([True, False], "", (WRONG,))
    baseline.keep()
    after_it = taken(again())
    assert (after_it.run.outcomes, after_it.flaky) == ({ADD: PASSED, WRONG: FAILED}, (WRONG,))


def test_a_kept_failure_hides_no_regression(again: MakeRun) -> None:
    taken(again())
    made = again()
    remembered(made, test_add=FAILED, test_wrong=FAILED)
    baseline = taken(made)
    broken = made.draft({"calc.py": "def add(a, b):\n    return a - b\n"})
    after = made.harness.run(broken, fresh=True)
    said = compare(baseline.run, after)
    assert said.clean and said.still_failing == (ADD, WRONG)
    assert baseline.doubted(said)
    assert compare(baseline.run, after).regressed == (ADD,)


def test_what_failed_then_and_fails_today_is_believed(again: MakeRun) -> None:
    taken(again())
    made = again()
    baseline = taken(made)
    same = made.harness.run(made.draft({"calc.py": "def add(a, b):\n    return b + a\n"}), fresh=True)
    assert not baseline.doubted(compare(baseline.run, same))
    assert runs(made) == [True] and baseline.taken_from


def test_a_test_that_flips_on_changes_is_known_after_two_runs(again: MakeRun) -> None:
    for run, told, known in (("r1", True, ()), ("r1", True, ()), ("r2", True, ()), ("r3", False, (ADD,))):
        made = again()
        made.workspace.spec = made.spec.model_copy(update={"run_id": run})
        baseline = taken(made)
        assert baseline.flaky == known
        baseline.flipped((ADD, "test_new.py::test_of_the_change_alone") if told else ())
        baseline.keep()
    assert runs(made) == [True]


def test_code_under_test_can_not_write_there(again: MakeRun, tmp_path: Path) -> None:
    place = tmp_path / "cache" / "baselines"
    taken(again())
    (file,) = place.iterdir()
    before = file.read_bytes()
    attack = f"import pathlib\n\n\ndef test_attack():\n    for path in ({str(file)!r}, {str(place / 'new.json')!r}):\n"
    attack += (
        "        try:\n            pathlib.Path(path).write_text('{}')\n        except OSError:\n            pass\n"
    )
    made = again()
    run = made.harness.run(made.draft({"test_attack.py": attack}), fresh=True)
    assert "test_attack.py::test_attack" in run.outcomes
    assert [path.name for path in place.iterdir()] == [file.name] and file.read_bytes() == before


# ── the shelf ──


def kept(key: str = "a", **more: Any) -> Kept:
    run = TestRun(command=("pytest",), status=SuiteStatus.OK, outcomes={"t": PASSED}, exit_code=0)
    return Kept(key=key, **{"measured_at": time.time(), "run": run, **more})


def test_only_what_is_whole_and_fresh_is_found(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "baselines")
    assert shelf.find("a") is None
    shelf.keep(kept())
    assert shelf.find("a") == kept(measured_at=shelf.find("a").measured_at)  # type: ignore[union-attr]
    run = kept().run
    for bad in (
        {"measured_at": time.time() - MAX_AGE_S - 60},
        {"measured_at": time.time() + 3600},
        {"run": run.model_copy(update={"structured": False})},
        {"run": run.model_copy(update={"outcomes": {}})},
        {"run": run.model_copy(update={"status": SuiteStatus.TIMED_OUT})},
    ):
        shelf.keep(kept(**bad))
        assert shelf.find("a") is None, bad


@pytest.mark.parametrize("content", [b"", b"{", b"null", b'{"key": "a"}', b"\xff\xfe", b"[" * 100_000])
def test_a_damaged_file_is_no_file(tmp_path: Path, content: bytes) -> None:
    shelf = Shelf(tmp_path)
    (tmp_path / "a.json").write_bytes(content)
    assert shelf.find("a") is None
    shelf.keep(kept())
    assert shelf.find("a") is not None


def test_a_strange_file_is_no_file(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    shelf.keep(kept("b"))
    (tmp_path / "b.json").rename(tmp_path / "a.json")
    assert shelf.find("a") is None, "it says to be another's"
    (tmp_path / "c.json").symlink_to(tmp_path / "a.json")
    (tmp_path / "d.json").mkdir()
    assert shelf.find("c") is None and shelf.find("d") is None


def test_what_was_used_least_goes_first(tmp_path: Path) -> None:
    one = kept("a").model_dump_json()
    shelf = Shelf(tmp_path, max_bytes=int(len(one) * 2.5))
    for number, key in enumerate("abc"):
        shelf.keep(kept(key))
        os.utime(tmp_path / f"{key}.json", (time.time() - 100 + number,) * 2)
    assert sorted(path.stem for path in tmp_path.iterdir()) == ["b", "c"]
    assert shelf.find("b") is not None
    shelf.keep(kept("d"))
    assert sorted(path.stem for path in tmp_path.iterdir()) == ["b", "d"]


def test_no_room_ends_no_run(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    shelf = Shelf(tmp_path / "file" / "baselines")
    shelf.keep(kept())
    assert shelf.find("a") is None
