"""A trusted program that stays up and answers over its standard streams (``git cat-file --batch``)."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path


class Pipe:
    """A running program. It ends when its standard input closes, so it never outlives us.

    Args:
        argv: program and arguments; never a shell line.
        env: its whole environment.
    """

    def __init__(self, argv: Sequence[str], *, env: Mapping[str, str], cwd: Path | None = None) -> None:
        self._process = subprocess.Popen(
            list(argv),
            cwd=cwd,
            env=dict(env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input = self._process.stdin
        self._output = self._process.stdout

    def send(self, data: bytes) -> None:
        """Write ``data``. Keep what is unanswered below a pipe's buffer (64 KiB), or both sides wait for ever.

        Raises:
            BrokenPipeError: the program has ended.
        """
        self._input.write(data)
        self._input.flush()

    def read_line(self) -> bytes:
        """The next line with its newline; empty when the program has ended."""
        return self._output.readline()

    def read(self, size: int) -> bytes:
        """Exactly ``size`` bytes; fewer only when the program has ended."""
        return self._output.read(size)

    def close(self) -> None:
        """End the program and wait for it. Safe to call twice."""
        for stream in (self._input, self._output):
            try:
                stream.close()
            except BrokenPipeError:
                pass
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
