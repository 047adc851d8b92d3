"""Runs trusted programs, and supervises every child process of ours.

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
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Self

from sandbox.errors import CommandNotFound, SandboxError
from sandbox.output import Output
from sandbox.types import Cancelled, End, Finished, Limits

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
CLEAN_ENV: Mapping[str, str] = {"PATH": DEFAULT_PATH, "HOME": "/nonexistent", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"}

_TICK_S = 0.05  # how late a cancellation or a memory check may be seen
_GRACE_S = 1.0  # between SIGTERM and SIGKILL, so that git can remove its lock files
_DRAIN_S = 0.2  # how long output is awaited after the command itself has ended
_CHUNK = 256 * 1024
_PIPE = 1024 * 1024

Stop = Callable[[], End | None]


def run(
    argv: Sequence[str],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    limits: Limits | None = None,
    cancelled: Cancelled | None = None,
    log: Path | None = None,
    split_stderr: bool = False,
) -> Finished:
    """Run a trusted program in its own session and wait for it; whatever it leaves behind is killed.

    Args:
        env: the whole environment; ``None`` is a clean minimal one. Nothing is inherited.
        limits: only ``wall_s``, ``output_bytes`` (of each stream) and ``log_bytes`` hold here.
        cancelled: asked every few hundredths of a second; its exceptions end the command and pass through.
        log: file for the raw bytes; replaced if it is there. Not together with ``split_stderr``.
        split_stderr: fill ``Finished.stdout`` and ``Finished.stderr`` apart.

    Raises:
        CommandNotFound: there is no such program.
    """
    if log and split_stderr:
        raise ValueError("a log holds both streams as they came; ask for it without split_stderr")
    limits = limits or Limits()
    with ExitStack() as stack:
        sink = stack.enter_context(log.open("wb")) if log else None
        child = stack.enter_context(spawn(argv, cwd=cwd, env=env, stdin=stdin, split_stderr=split_stderr))
        outputs = {child.stdout: Output.of(limits, sink)}
        if split_stderr:
            outputs[child.stderr] = Output.of(limits)
        ending = supervise(child, outputs, limits.wall_s, stop_when(cancelled), gentle=True)
        return finished(ending, *outputs.values(), log=log)


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


def finished(ending: Ending, *outputs: Output, log: Path | None) -> Finished:
    """Put together what a caller gets, from one stream or from two. A negative return code is a signal, as
    ``subprocess`` has it."""
    end = ending.forced or (End.SIGNALLED if ending.returncode < 0 else End.EXITED)
    for output in outputs:
        output.finish()
    streams = [output.kept() for output in outputs]
    stdout, stderr = streams if len(streams) == 2 else (b"", b"")
    return Finished(
        end=end,
        exit_code=ending.returncode if end is End.EXITED else None,
        signal=-ending.returncode if end is End.SIGNALLED else None,
        output=b"".join(streams),
        total_bytes=sum(output.total for output in outputs),
        seconds=ending.seconds,
        log=log,
        stdout=stdout,
        stderr=stderr,
    )


def spawn(
    argv: Sequence[str],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    pass_fds: Sequence[int] = (),
    split_stderr: bool = False,
) -> subprocess.Popen[bytes]:
    """Start a program in a session of its own, input closed or a copy of ``stdin``, output in pipes."""
    with ExitStack() as stack:
        source: int = subprocess.DEVNULL
        if stdin:
            source = memory_file(stdin)
            stack.callback(os.close, source)
        child = _popen(argv, cwd, env, source, subprocess.PIPE if split_stderr else subprocess.STDOUT, pass_fds)
    return _with_wide_pipes(child)


def _with_wide_pipes(child: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
    for pipe in (child.stdin, child.stdout, child.stderr):
        if pipe is not None:
            os.set_blocking(pipe.fileno(), False)
            with suppress(OSError):  # over the user's quota of pipe memory: the smaller pipe works too
                fcntl.fcntl(pipe.fileno(), fcntl.F_SETPIPE_SZ, _PIPE)
    return child


class Ahead:
    """A trusted program that is started before its input is known, so that it has loaded what it needs by then.

    Raises:
        CommandNotFound: there is no such program.
    """

    def __init__(self, argv: Sequence[str], *, env: Mapping[str, str] | None = None) -> None:
        self._child = _with_wide_pipes(_popen(argv, Path("/"), env, subprocess.PIPE, subprocess.STDOUT))

    def finish(self, stdin: bytes, *, limits: Limits, cancelled: Cancelled) -> Finished:
        """Give it ``stdin`` and wait for its end; see :func:`run`. Once."""
        output, stop = Output.of(limits), stop_when(cancelled)
        ending = supervise(self._child, {self._child.stdout: output}, limits.wall_s, stop, gentle=True, stdin=stdin)
        return finished(ending, output, log=None)

    def close(self) -> None:
        """End it, where it has not come to its end."""
        if self._child.returncode is None:
            _kill_group(self._child.pid, signal.SIGKILL)
            self._child.wait()
            _await_group(self._child.pid)
        for pipe in (self._child.stdin, self._child.stdout):
            assert pipe is not None
            pipe.close()


def memory_file(data: bytes) -> int:
    """A file descriptor to read ``data`` from, on no disk. Unlike a pipe it needs nobody to feed it."""
    fd = os.memfd_create("input", os.MFD_CLOEXEC)
    with os.fdopen(os.dup(fd), "wb") as file:
        file.write(data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def supervise(
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
        stack.callback(_await_group, child.pid)
        stack.callback(child.wait)
        stack.callback(_kill_group, child.pid, signal.SIGKILL)  # runs first; before the wait the id can't be reused
        watch = stack.enter_context(_Watch(child.pid, outputs))
        if child.stdin is not None:
            watch.feed(child.stdin, stdin)
        forced = _until_end(watch, started + wall_s, stop)
        if forced and gentle:
            _kill_group(child.pid, signal.SIGTERM)
            _until_end(watch, time.monotonic() + _GRACE_S, lambda: None)
        if forced:
            _kill_group(child.pid, signal.SIGKILL)
        watch.drain()
    return Ending(forced, child.returncode, time.monotonic() - started)


def _until_end(watch: _Watch, deadline: float, stop: Stop) -> End | None:
    while not watch.pump(min(_TICK_S, max(0.0, deadline - time.monotonic()))):
        if time.monotonic() >= deadline:
            return End.TIMED_OUT
        reason = stop()
        if reason is not None:
            return reason
    return None


class _Watch:
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


class Conversation:
    """A long-lived trusted program that answers questions over its pipes, one at a time (``git cat-file --batch``).

    Not for several threads at once. Its error output goes nowhere.
    """

    def __init__(self, argv: Sequence[str], *, env: Mapping[str, str] | None = None) -> None:
        self._child = _popen(argv, None, env, subprocess.PIPE, subprocess.DEVNULL)
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._to, self._from = self._child.stdin, self._child.stdout

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """Its process id, free for others after :meth:`close`."""
        return self._child.pid

    @property
    def alive(self) -> bool:
        return self._child.poll() is None

    def send(self, data: bytes) -> None:
        """Write all of ``data``. Raises SandboxError when the program has ended."""
        try:
            self._to.write(data)
            self._to.flush()
        except BrokenPipeError as error:
            raise self._gone() from error

    def read_line(self) -> bytes:
        """The next line with its newline. Raises SandboxError when the program has ended."""
        line = self._from.readline()
        if not line.endswith(b"\n"):
            raise self._gone()
        return line

    def read(self, size: int) -> bytes:
        """Exactly ``size`` bytes. Raises SandboxError when the program ends before."""
        data = self._from.read(size)
        if len(data) != size:
            raise self._gone()
        return data

    def close(self) -> None:
        """End the program and everything in its group."""
        with suppress(BrokenPipeError):
            self._to.close()
        if self._child.returncode is None:
            _kill_group(self._child.pid, signal.SIGKILL)
            self._child.wait()
        self._from.close()

    def _gone(self) -> SandboxError:
        return SandboxError(f"{self._child.args!r} ended in the middle of a conversation")


def _popen(
    argv: Sequence[str],
    cwd: Path | None,
    env: Mapping[str, str] | None,
    stdin: int,
    stderr: int,
    pass_fds: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            list(argv),
            cwd=cwd,
            env=dict(CLEAN_ENV if env is None else env),
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=stderr,
            pass_fds=tuple(pass_fds),
            start_new_session=True,
            bufsize=-1 if stdin == subprocess.PIPE else 0,
        )
    except (FileNotFoundError, PermissionError, NotADirectoryError) as error:
        raise CommandNotFound(f"Can't start {argv[0]}", why=str(error), todo="Install it, or check the path") from error


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
