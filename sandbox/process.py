"""Starts every child process of ours, and runs trusted programs: to their end, ahead of their input, or in a
conversation. Nothing is inherited but what the caller names.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from sandbox import supervise
from sandbox.closing import Closing
from sandbox.errors import CommandNotFound, SandboxError
from sandbox.output import Output
from sandbox.types import Cancelled, Finished, Limits

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
CLEAN_ENV: Mapping[str, str] = {"PATH": DEFAULT_PATH, "HOME": "/nonexistent", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"}

_PIPE = 1024 * 1024


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
        ending = supervise.watch(child, outputs, limits.wall_s, supervise.stop_when(cancelled), gentle=True)
        return supervise.finished(ending, *outputs.values(), log=log)


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
        output, stop = Output.of(limits), supervise.stop_when(cancelled)
        outputs = {self._child.stdout: output}
        ending = supervise.watch(self._child, outputs, limits.wall_s, stop, gentle=True, stdin=stdin)
        return supervise.finished(ending, output, log=None)

    def close(self) -> None:
        """End it, where it has not come to its end."""
        supervise.end(self._child)
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


class Conversation(Closing):
    """A long-lived trusted program that answers questions over its pipes, one at a time (``git cat-file --batch``).

    Not for several threads at once. Its error output goes nowhere.
    """

    def __init__(self, argv: Sequence[str], *, env: Mapping[str, str] | None = None) -> None:
        self._child = _popen(argv, None, env, subprocess.PIPE, subprocess.DEVNULL)
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._to, self._from = self._child.stdin, self._child.stdout

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
        supervise.end(self._child)
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
