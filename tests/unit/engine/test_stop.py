"""A run that is stopped ends as stopped, whatever it was doing."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agent.types import Outcome, RunResult, Stage, Task
from app import local_run
from app.commands.run import Stop
from app.settings import EngineSettings, load
from app.terminal import Terminal
from tests.flow.world import EDIT, FINISH, WRITE, plan
from tests.unit.engine.conftest import KEY, Desk, MakeModel


@pytest.mark.parametrize(
    ("at", "tested", "changed"),
    [
        (Stage.PREPARE, True, False),
        (Stage.BASELINE, True, False),
        (Stage.BASELINE, False, False),
        (Stage.PLAN, True, False),
        (Stage.VERIFY, True, True),
        (Stage.PROVE, True, True),
    ],
)
def test_a_stop_is_told_as_one(
    desk: Desk, scripted: MakeModel, monkeypatch: pytest.MonkeyPatch, at: Stage, tested: bool, changed: bool
) -> None:
    """Without a test command the stop comes while the tests' environment is being made."""
    settings = {"OPENAI_BASE_URL": scripted(plan(), {"tool_calls": [EDIT, WRITE, FINISH]}), "OPENAI_API_KEY": KEY}
    settings |= {"OPENAI_MODEL": "m", "GRAFTSMITH_STATE_DIR": str(desk.state), "GRAFTSMITH_REVIEW": "no"}
    settings |= {"GRAFTSMITH_FIX_ROUNDS": "0"}
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    reached = False

    def see(event: dict[str, Any]) -> None:
        nonlocal reached
        reached = reached or (event["kind"], event.get("name")) == ("stage", at)

    ran = local_run.run(
        load(EngineSettings, env_file=None),
        desk.repository.path,
        local_run.Wish(Task(title="Count every item"), test_command=desk.test if tested else ""),
        listeners=(see,),
        cancelled=lambda: reached,
    )
    assert (ran.result.outcome, ran.result.our_fault) == (Outcome.CANCELLED, False), ran.result.reason
    assert "stopped" in ran.result.reason
    assert bool(ran.result.change_set) is changed


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_run_and_keeps_its_result(desk: Desk, scripted: MakeModel, number: signal.Signals) -> None:
    env = {"OPENAI_BASE_URL": scripted(plan() | {"delay_s": 60}), "OPENAI_API_KEY": KEY, "OPENAI_MODEL": "m"}
    env |= {"GRAFTSMITH_STATE_DIR": str(desk.state), "PATH": "/usr/bin:/bin", "HOME": str(desk.state.parent)}
    command = [str(Path(sys.executable).parent / "graftsmith"), "run", "--task", "x", "--test-command", desk.test]
    with subprocess.Popen(command, cwd=desk.repository.path, env=env, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "Running the tests as they are" in line:  # it is told at the stage's end: the model is asked now
                process.send_signal(number)
                break
        process.stderr.read()
    assert process.returncode == 1
    (run,) = desk.runs
    assert RunResult.model_validate_json((run / "result.json").read_bytes()).outcome is Outcome.CANCELLED
    assert not any((run / "checkouts").iterdir())
    assert desk.repository.git("status", "--short") == ""


def test_all_is_told_before_the_checkouts_are_removed(
    desk: Desk, scripted: MakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And who does not wait for that leaves something that a later run removes."""
    env = {"OPENAI_BASE_URL": scripted(), "OPENAI_API_KEY": KEY, "OPENAI_MODEL": "m"}
    for name, value in (env | {"GRAFTSMITH_STATE_DIR": str(desk.state)}).items():
        monkeypatch.setenv(name, value)
    settings = load(EngineSettings, env_file=None)
    wish = local_run.Wish(Task(title="Count every item"), test_command=desk.test)
    there: list[str] = []

    def tell(run: local_run.LocalRun) -> None:
        there.extend(path.name for path in (run.folder / "checkouts").iterdir())
        assert RunResult.model_validate_json((run.folder / "result.json").read_bytes()) == run.result

    ran = local_run.run(settings, desk.repository.path, wish, tell=tell)
    assert (there, list((ran.folder / "checkouts").iterdir())) == (["working"], [])
    left = ran.folder / "checkouts" / "working" / "a"
    left.mkdir(parents=True)
    local_run.run(settings, desk.repository.path, local_run.Wish(Task(title="?"), mode="ask"))
    assert left.exists(), "its own process may still be at it"
    os.utime(ran.folder / "result.json", (0, 0))
    local_run.run(settings, desk.repository.path, local_run.Wish(Task(title="?"), mode="ask"))
    assert not left.exists()


def test_once_all_is_told_a_signal_ends_us_as_it_was_told() -> None:
    code = (
        "import os, signal\nfrom app.commands.run import Stop\nstop = Stop()\nstop.leaves(5)\n"
        "os.kill(os.getpid(), signal.SIGINT)\nprint('still there')"
    )
    root = Path(local_run.__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (5, ""), done.stderr


def test_a_signal_in_the_middle_of_a_line(desk: Desk, capfd: pytest.CaptureFixture[str]) -> None:
    class Interrupted(io.RawIOBase):
        def writable(self) -> bool:
            return True

        def write(self, data: Any) -> int:
            if not stop():
                os.kill(os.getpid(), signal.SIGINT)
            return len(data)

    stop = Stop()
    Terminal(file=io.TextIOWrapper(io.BufferedWriter(Interrupted()), write_through=True)).print("a line")
    assert stop()
    assert "the work so far is kept" in capfd.readouterr().err
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
