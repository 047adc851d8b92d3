"""The service as a person meets it: start of the command line, what it takes when idle, from label to pull request.

Run as ``python -m bench.service``. The demo's job is run twice; the second one finds the installed environment. What it
took beyond git in the run, the target's own tests and the set-up is ours; the fetch is counted as ours, too.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from agent.record import read_events
from app.demo.scene import LABEL, Scene, scene

GOAL_HELP_S, GOAL_IDLE_MB, GOAL_OVERHEAD_S = 0.3, 150, 3.0
HELP_RUNS = 7
SETTLED_S, IDLE_S = 5.0, 20.0
GRAFTSMITH = str(Path(sys.executable).parent / "graftsmith")


def main() -> None:
    interpreter = median(_timed([sys.executable, "-c", ""]) for _ in range(HELP_RUNS))
    help_s = median(_timed([GRAFTSMITH, "--help"]) for _ in range(HELP_RUNS))
    ratio = help_s / interpreter
    print(f"graftsmith --help       {help_s:6.2f} s     {ratio:.1f} × a bare interpreter; goal ≤ {GOAL_HELP_S} s")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        Path(folder).chmod(0o755)
        with scene(Path(folder)) as stage:
            served = _process(stage)
            print(f"idle server             {_resident_mb(served):6.0f} MB    goal ≤ {GOAL_IDLE_MB} MB")
            print(f"                        {_busy(served):6.1%} of one processor")
            for name in ("first job", "next job"):
                _report_job(name, stage)


def _timed(argv: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def _process(stage: Scene) -> Path:
    """That of the service in the kernel's list: the one whose state folder that of ``stage`` is."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            environment = (entry / "environ").read_bytes()
        except OSError:
            continue
        if f"GRAFTSMITH_STATE_DIR={stage.service_dir}\0".encode() in environment:
            return entry
    raise RuntimeError("the service is not running")


def _resident_mb(process: Path) -> float:
    return int((process / "status").read_text().split("VmRSS:")[1].split()[0]) / 1024


def _busy(process: Path) -> float:
    """The share of one processor that it takes once its start is over (proc(5): 14th and 15th field of ``stat``)."""
    time.sleep(SETTLED_S)
    before = _ticks(process)
    time.sleep(IDLE_S)
    return (_ticks(process) - before) / os.sysconf("SC_CLK_TCK") / IDLE_S


def _ticks(process: Path) -> int:
    return sum(map(int, (process / "stat").read_text().rpartition(")")[2].split()[11:13]))


def _report_job(name: str, stage: Scene) -> None:
    before = stage.job()
    issue = stage.open_issue()
    started = time.perf_counter()
    stage.repo.add_label(issue, LABEL)
    while (job := stage.job()) is None or (before and job.id == before.id) or job.ending is None:
        time.sleep(0.02)
    took = time.perf_counter() - started
    events = [event for _, event in read_events(stage.service_dir / "jobs" / job.id / "run-1" / "events.jsonl")]
    runs = [e["run"]["seconds"] for e in events if e["kind"] == "test_run" and not e.get("kept")]
    setup = sum(event["seconds"] for event in events if event.get("text") == "set-up command")
    git = sum(event["seconds"] for event in events if event.get("text") == "git")
    ours = took - sum(runs) - setup - git
    print(
        f"label to pull request, {name:9} {took:5.1f} s = {sum(runs):.1f} s in {len(runs)} test runs "
        f"+ {setup:.1f} s set-up + {git:.1f} s git + {ours:.1f} s ours ({job.ending.outcome})"
        f"    goal: ours ≤ {GOAL_OVERHEAD_S} s"
    )


if __name__ == "__main__":
    main()
