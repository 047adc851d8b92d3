"""The demo's scene as a process: how it comes up, and that nothing of it stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_whoever_ends_the_demo_ends_its_service(tmp_path: Path, number: signal.Signals) -> None:
    command = [sys.executable, "-m", "app.cli", "demo", "--folder", str(tmp_path)]
    heard = partial(signal.signal, number, signal.SIG_DFL)  # a shell ignores some for what it runs in the background
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True, preexec_fn=heard) as demo:
        assert demo.stdout is not None
        assert b"An issue is open: http://127.0.0.1:" in demo.stdout.readline()
        assert _services_in(tmp_path)
        demo.send_signal(number)
        demo.communicate()
    left = _services_in(tmp_path)
    for service in left:
        os.kill(int(service), signal.SIGKILL)
    assert (demo.returncode, left) == (130, [])


def _services_in(folder: Path) -> list[str]:
    """Processes that keep their state below ``folder``."""
    wanted, found = f"GRAFTSMITH_STATE_DIR={folder}".encode(), []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if wanted in (process / "environ").read_bytes():
                found.append(process.name)
        except OSError:
            continue  # it has gone, or is somebody else's
    return found
