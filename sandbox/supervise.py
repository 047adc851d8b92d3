"""Watches a child process of ours until it ends, or has to.

One thread, no helper threads: the caller's thread reads the output and watches the clock. The end of a command is the
end of its process, never the end of its output, because a child left in the background keeps the pipe open.
"""

from __future__ import annotations

import fcntl
import os
import selectors
import signal
import subprocess
import termios
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Self

from sandbox.output import Output
from sandbox.types import Cancelled, End, Finished

_TICK_S = 0.05  # how late a cancellation or a memory check may be seen
_GRACE_S = 1.0  # between SIGTERM and SIGKILL, so that git can remove its lock files
_DRAIN_S = 0.2  # how long output is awaited after the command itself has ended
_CHUNK = 256 * 1024

Stop = Callable[[], End | None]


def stop_when(cancelled: Cancelled | None, limits: Mapping[End, Callable[[], bool]] | None = None) -> Stop:
    """A stop condition from what is asked again and again.

    Args:
        limits: how a command ends → whether it has to.
    """

    def stop() -> End | None:
        if cancelled is not None and cancelled():
            return End.CANCELLED
        return next((end for end, reached in (limits or {}).items() if reached()), None)

    return stop


@dataclass(frozen=True)
class Ending:
    """What the supervisor saw. ``forced`` is set when it ended the command itself."""

    forced: End | None
    returncode: int
    seconds: float


def watch(
    child: subprocess.Popen[bytes],
    outputs: Mapping[IO[bytes] | None, Output],
    wall_s: float,
    stop: Stop,
    *,
    gentle: bool,
    stdin: bytes = b"",
) -> Ending:
    """Read ``outputs`` until the child itself ends, the time is up or ``stop`` names a reason; then kill its group.

    Args:
        gentle: ask with SIGTERM first, and wait a second.
        stdin: for a child with a pipe as its input, which is closed behind it.
    """
    started = time.monotonic()
    with ExitStack() as stack:
        stack.callback(end, child)
        pipes = stack.enter_context(_Pipes(child.pid, outputs))
        if child.stdin is not None:
            pipes.feed(child.stdin, stdin)
        forced = _until_end(pipes, started + wall_s, stop)
        if forced and gentle:
            _kill_group(child.pid, signal.SIGTERM)
            _until_end(pipes, time.monotonic() + _GRACE_S, lambda: None)
        if forced:
            _kill_group(child.pid, signal.SIGKILL)
        pipes.drain()
    return Ending(forced, child.returncode, time.monotonic() - started)


def end(child: subprocess.Popen[bytes]) -> None:
    """Kill a child with its group, unless it has been waited for before, and wait until none of them is left."""
    if child.returncode is None:  # before the wait the id can't be another's
        _kill_group(child.pid, signal.SIGKILL)
        child.wait()
        _await_group(child.pid)


def finished(ending: Ending, *outputs: Output, log: Path | None) -> Finished:
    """Put together what a caller gets, from one stream or from two. A negative return code is a signal, as
    ``subprocess`` has it."""
    how = ending.forced or (End.SIGNALLED if ending.returncode < 0 else End.EXITED)
    for output in outputs:
        output.finish()
    streams = [output.kept() for output in outputs]
    stdout, stderr = streams if len(streams) == 2 else (b"", b"")
    return Finished(
        end=how,
        exit_code=ending.returncode if how is End.EXITED else None,
        signal=-ending.returncode if how is End.SIGNALLED else None,
        output=b"".join(streams),
        total_bytes=sum(output.total for output in outputs),
        seconds=ending.seconds,
        log=log,
        stdout=stdout,
        stderr=stderr,
    )


def _until_end(pipes: _Pipes, deadline: float, stop: Stop) -> End | None:
    while not pipes.pump(min(_TICK_S, max(0.0, deadline - time.monotonic()))):
        if time.monotonic() >= deadline:
            return End.TIMED_OUT
        reason = stop()
        if reason is not None:
            return reason
    return None


class _Pipes:
    """The pipes of a child and its end, in one selector."""

    def __init__(self, pid: int, outputs: Mapping[IO[bytes] | None, Output]) -> None:
        self._selector = selectors.DefaultSelector()
        self._pidfd = os.pidfd_open(pid)
        self._unfed = memoryview(b"")
        self._selector.register(self._pidfd, selectors.EVENT_READ)
        for pipe, output in outputs.items():
            assert pipe is not None
            self._selector.register(pipe, selectors.EVENT_READ, output)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._selector.close()
        os.close(self._pidfd)

    def feed(self, pipe: IO[bytes], data: bytes) -> None:
        """Write ``data`` to the child whenever it has room for it, then close its input."""
        self._unfed = memoryview(data)
        self._selector.register(pipe, selectors.EVENT_WRITE, pipe)

    def pump(self, wait_s: float) -> bool:
        """Read and write what goes, waiting for it at most ``wait_s``; True once the child has ended."""
        over = False
        for key, events in self._selector.select(wait_s):
            if key.fileobj == self._pidfd:
                over = True
            elif events & selectors.EVENT_WRITE:
                self._write(key)
            else:
                self._read(key)
        return over

    def _write(self, key: selectors.SelectorKey) -> None:
        with suppress(BrokenPipeError):  # it ends, or does not want to know: its end tells
            self._unfed = self._unfed[os.write(key.fd, self._unfed) :]
            if self._unfed:
                return
        self._selector.unregister(key.fileobj)
        key.data.close()

    def drain(self) -> None:
        """Take what the child left in the pipes, and what comes within a moment from others that still hold them."""
        for key in self._open():
            if key.fileobj == self._pidfd or key.events & selectors.EVENT_WRITE:
                self._selector.unregister(key.fileobj)
        owed = sum(_waiting(key.fd) for key in self._open())
        deadline = time.monotonic() + _DRAIN_S
        while self._open():
            wait_s = deadline - time.monotonic()
            if wait_s <= 0 and owed <= 0:
                return
            owed -= sum(self._read(key) for key, _ in self._selector.select(max(0.0, wait_s)))

    def _open(self) -> list[selectors.SelectorKey]:
        return list(self._selector.get_map().values())

    def _read(self, key: selectors.SelectorKey) -> int:
        try:
            chunk = os.read(key.fd, _CHUNK)
        except BlockingIOError:
            return 0
        if not chunk:
            self._selector.unregister(key.fileobj)
            return 0
        key.data.add(chunk)
        return len(chunk)


def _kill_group(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def _await_group(pid: int) -> None:
    """A killed process lives on for a moment. Bounded, because some containers never let go of ended processes."""
    deadline = time.monotonic() + _DRAIN_S
    with suppress(ProcessLookupError, PermissionError):
        while time.monotonic() < deadline:
            os.killpg(pid, 0)
            time.sleep(0.001)


def _waiting(fd: int) -> int:
    return int.from_bytes(fcntl.ioctl(fd, termios.FIONREAD, b"\0\0\0\0"), "little")
