"""Trusted programs: their end, their limits, their output."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from sandbox import process
from sandbox.errors import CommandNotFound, SandboxError
from sandbox.types import End, Finished, Limits


def _alive(word: str) -> bool:
    others = (path for path in Path("/proc").glob("[0-9]*/cmdline") if path.parent.name != str(os.getpid()))
    return any(word in _command_line(path) for path in others)


def _command_line(path: Path) -> str:
    try:
        return path.read_bytes().decode(errors="replace")
    except OSError:  # it has ended meanwhile
        return ""


def test_a_background_child_that_keeps_the_pipe_open_does_not_delay_the_end() -> None:
    finished = process.run(["sh", "-c", 'sleep 61.25 & echo "1 passed"'], limits=Limits(wall_s=30))

    assert (finished.end, finished.exit_code, finished.output) == (End.EXITED, 0, b"1 passed\n")
    assert finished.seconds < 30
    assert not _alive("61.25")


def test_the_time_limit_ends_the_whole_group() -> None:
    finished = process.run(["sh", "-c", "sleep 62.25; true"], limits=Limits(wall_s=0.3))

    assert finished.end is End.TIMED_OUT
    assert finished.exit_code is None
    assert not _alive("62.25")


def test_a_program_that_ignores_the_polite_signal_is_killed() -> None:
    finished = process.run(["sh", "-c", "trap '' TERM; while :; do sleep 0.05; done"], limits=Limits(wall_s=0.2))

    assert finished.end is End.TIMED_OUT


def test_a_program_may_clean_up_when_it_is_cancelled(tmp_path: Path) -> None:
    there = tmp_path / "there"
    line = f"trap 'echo cleaned; exit' TERM; echo ready; touch '{there}'; while :; do sleep 0.05; done"

    finished = process.run(["sh", "-c", line], cancelled=there.exists)

    assert finished.end is End.CANCELLED
    assert finished.output.startswith(b"ready\n")
    assert finished.output.endswith(b"cleaned\n")


def test_a_failing_caller_ends_the_program() -> None:
    def fail() -> bool:
        raise RuntimeError("whoever asks for it")

    with pytest.raises(RuntimeError, match="whoever asks"):
        process.run(["sleep", "63.25"], cancelled=fail)
    assert not _alive("63.25")


def test_a_signal_is_told_from_an_exit_code() -> None:
    killed, exited = process.run(["sh", "-c", "kill -9 $$"]), process.run(["sh", "-c", "exit 137"])

    assert (killed.end, killed.signal, killed.exit_code) == (End.SIGNALLED, 9, None)
    assert (exited.end, exited.signal, exited.exit_code) == (End.EXITED, None, 137)


def test_nothing_is_inherited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "sentinel")
    readable, writable = os.pipe()
    os.set_inheritable(readable, True)

    finished = process.run(["sh", "-c", "env; cat; ls /proc/self/fd | wc -l"])

    os.close(readable), os.close(writable)
    assert b"sentinel" not in finished.output
    assert finished.output.endswith(b"\n4\n")  # input, output, error and the folder that ls reads


def test_input_output_and_errors_apart() -> None:
    data = bytes(range(256)) * 4096  # more than a pipe holds

    finished = process.run(
        ["sh", "-c", "cat; echo problem >&2"], stdin=data, split_stderr=True, limits=Limits(output_bytes=2 * len(data))
    )

    assert (finished.stdout, finished.stderr) == (data, b"problem\n")
    assert finished.total_bytes == len(data) + len(b"problem\n")


def test_a_missing_program_and_a_missing_folder_have_names(tmp_path: Path) -> None:
    with pytest.raises(CommandNotFound, match="no-such-program"):
        process.run(["no-such-program"])
    with pytest.raises(CommandNotFound, match="nowhere"):
        process.run(["true"], cwd=tmp_path / "nowhere")


def test_endless_output_is_kept_at_both_ends_and_logged_up_to_a_bound(tmp_path: Path) -> None:
    log = tmp_path / "log"
    line = "echo first; head -c 50000000 /dev/zero; echo last"
    limits = Limits(output_bytes=1000, log_bytes=5000)

    finished = process.run(["sh", "-c", line], log=log, limits=limits)

    assert finished.total_bytes == 50_000_011
    for kept in (finished.output, log.read_bytes()):
        assert kept.startswith(b"first\n")
        assert kept.endswith(b"last\n")
        assert b"bytes left out" in kept
    assert len(finished.output) < 1100
    assert len(log.read_bytes()) < 6100


def test_memory_stays_flat_however_much_is_written() -> None:
    source = (
        "import resource\nfrom sandbox import process\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "process.run(['true']); before = peak()\n"
        "process.run(['sh', '-c', 'head -c 500000000 /dev/zero'])\n"
        "print(peak() - before)"
    )
    root = str(Path(process.__file__).parents[1])

    finished = process.run([sys.executable, "-c", source], env={**process.CLEAN_ENV, "PYTHONPATH": root})

    assert int(finished.output) < 16 * 1024  # KiB


def test_a_short_log_is_the_output_itself(tmp_path: Path) -> None:
    finished = process.run(["printf", r"a\000\377"], log=tmp_path / "log")

    assert finished.log == tmp_path / "log"
    assert finished.output == finished.log.read_bytes() == b"a\0\xff"


def test_a_conversation_answers_until_its_program_ends() -> None:
    with process.Conversation(["cat"]) as talk:
        talk.send(b"one\ntwo")
        assert talk.read_line() == b"one\n"
        assert talk.read(3) == b"two"
    with process.Conversation(["true"]) as talk, pytest.raises(SandboxError, match="ended"):
        talk.read_line()


def test_many_threads_at_once() -> None:
    results: list[bytes] = []
    threads = [
        threading.Thread(target=lambda word=word: results.append(process.run(["echo", word]).output))
        for word in map(str, range(20))
    ]
    started = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(results) == sorted(f"{number}\n".encode() for number in range(20)), time.monotonic() - started


def _counting(stdin: bytes, *, cancelled: Callable[[], bool] = lambda: False, line: str = "wc -c") -> Finished:
    with closing(process.Ahead(["sh", "-c", line])) as ahead:
        return ahead.finish(stdin, limits=Limits(wall_s=30), cancelled=cancelled)


def test_a_program_started_ahead_gets_all_of_its_input_later() -> None:
    finished = _counting(b"x" * 5_000_000)  # more than a pipe holds

    assert (finished.end, finished.output) == (End.EXITED, b"5000000\n")


@pytest.mark.parametrize("line", ["exit 3", "exec <&-; sleep 0.1; exit 3", "sleep 64.25 & exit 3"])
def test_a_program_started_ahead_may_end_without_its_input(line: str) -> None:
    assert _counting(b"x" * 5_000_000, line=line).exit_code == 3
    assert "64.25" not in line or not _alive("64.25")  # the others may run beside that one


def test_a_program_started_ahead_that_never_reads_is_cancelled() -> None:
    assert _counting(b"x" * 5_000_000, line="sleep 65.25", cancelled=lambda: True).end is End.CANCELLED
    assert not _alive("65.25")


def test_a_program_started_ahead_ends_with_what_it_started_when_it_is_not_needed() -> None:
    ahead = process.Ahead(["sh", "-c", "sleep 66.25 & sleep 66.25"])
    ahead.close()
    assert not _alive("66.25")
    ahead.close()
