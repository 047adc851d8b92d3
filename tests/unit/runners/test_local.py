"""The process of a run, which is started before it is known what it is to do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest

from agent import pipeline, start
from agent.model.client import for_run
from agent.types import START, Commands, Outcome, RunSpec
from app.runners.local import RunProcess
from tests.support.repository import Repository

PATIENCE_S = 60.0
T = TypeVar("T")


def test_it_learns_what_to_do_after_its_start(spec: RunSpec) -> None:
    with closing(RunProcess(sandbox=False)) as process:
        pid = _until(lambda: _run_of(os.getpid()))
        _until(lambda: "pipe" in Path(f"/proc/{pid}/wchan").read_text())  # it waits for what it is to do
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        names = sorted(variable.partition(b"=")[0].decode() for variable in variables if variable)
        assert names == ["HOME", "LANG", "LC_ALL", "PATH", "PYTHONSAFEPATH"]
        # Apart from the module that a thread may just be loading.
        _until(lambda: {int(fd.name) for fd in Path(f"/proc/{pid}/fd").iterdir()} == {0, 1, 2})
        result = process.run(spec)
    assert (result.outcome, result.summary) == (Outcome.ANSWERED, "It skips one: widget.py:2")
    assert result.seconds[START] >= 0
    assert "a-run-token" not in Path(spec.work_dir, "spec.json").read_text()


def test_a_result_does_not_wait_for_the_checkouts_to_be_removed(spec: RunSpec, tmp_path: Path) -> None:
    repository = Repository(tmp_path / "prose")
    base = {"git_dir": str(repository.git_dir), "base_sha": repository.commit({"README.md": "# prose\n"})}
    spec = spec.model_copy(update={**base, "mode": "work", "commands": Commands(test="false")})
    checkouts = Path(spec.work_dir, "checkouts")
    there: list[str] = []
    for place in (tmp_path, *tmp_path.parents[:2]):
        place.chmod(0o755)  # the sandbox's own user has to pass through
    result = pipeline.run(
        spec,
        make_model=partial(for_run, spec),
        event_file=Path(spec.work_dir, "events.jsonl"),
        hand_over=lambda result: there.extend(path.name for path in checkouts.iterdir()),
    )
    assert (result.outcome, there) == (Outcome.FAILED, ["working"]), result.reason
    with closing(RunProcess(sandbox=True)) as process:
        assert process.run(spec).outcome is Outcome.FAILED, "the script of the model is short"
    _until(lambda: not list(checkouts.iterdir()))


def test_one_that_is_not_needed_is_ended() -> None:
    process = RunProcess(sandbox=False)
    pid = _until(lambda: _run_of(os.getpid()))
    process.close()
    _until(lambda: not Path(f"/proc/{pid}").exists())


def test_it_dies_with_its_service() -> None:
    code = "from app.runners.local import RunProcess; p = RunProcess(sandbox=True); input()"
    service = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, start_new_session=True)
    with service:
        pid = _until(lambda: _run_of(service.pid))
        service.send_signal(signal.SIGKILL)
    _until(lambda: not Path(f"/proc/{pid}").exists())


@pytest.mark.parametrize("needed", [True, False])
def test_a_sandbox_is_opened_only_where_one_is_needed(needed: bool) -> None:
    with subprocess.Popen(start.command(sandbox=needed), stdin=subprocess.DEVNULL) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        page_faults_of_children = int(_fields(process.pid)[8])
    assert process.returncode == 0
    assert (page_faults_of_children > 0) is needed


def _run_of(pid: int) -> int | None:
    """The process of a run that ``pid`` has started."""
    children = [
        child for tasks in Path(f"/proc/{pid}/task").iterdir() for child in (tasks / "children").read_text().split()
    ]
    with suppress(FileNotFoundError):  # one has ended meanwhile
        return next((int(c) for c in children if b"-m\0agent\0" in Path(f"/proc/{c}/cmdline").read_bytes()), None)
    return None


def _fields(pid: int) -> list[str]:
    """Of /proc/PID/stat, from the third (proc(5))."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _until(seen: Callable[[], T]) -> T:
    deadline = time.monotonic() + PATIENCE_S
    while not (found := seen()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return found
