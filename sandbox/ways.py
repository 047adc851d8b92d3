"""How the connections of one command come to our proxy."""

from __future__ import annotations

import array
import asyncio
import os
import socket
import sys
from dataclasses import replace
from pathlib import Path
from typing import Final, Protocol, Self

from sandbox.egress.policy import Egress, variables
from sandbox.toolchain import mounts_for
from sandbox.types import Command

_PORT: Final = 3128
"""Nothing else can be there: the network inside is the command's own."""


class Way(Protocol):
    """One command's. It is there from entering to leaving, and entered before the command starts."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def lead(self, command: Command, egress: Egress) -> Command:
        """The same command, which finds the way."""

    async def arrive(self) -> socket.socket | None:
        """See ``Proxy``."""


class ThroughDoor:
    """Out of a network of the command's own: ``door`` hands its listener out over a pair of sockets."""

    def __enter__(self) -> Self:
        self._ours, self._theirs = socket.socketpair()
        return self

    def __exit__(self, *_: object) -> None:
        self._ours.close()
        self._theirs.close()

    @property
    def inside(self) -> int:
        """The descriptor for the command."""
        return self._theirs.fileno()

    def lead(self, command: Command, egress: Egress) -> Command:
        """The same command behind ``door``, which the interpreter that runs us carries out."""
        python = os.path.realpath(sys.executable)
        door = Path(__file__).with_name("door.py").read_text(encoding="utf-8")
        return replace(
            command,
            argv=(python, "-I", "-S", "-E", "-c", door, str(self.inside), str(_PORT), *command.argv),
            env={**command.env, **variables(egress, _PORT)},
            mounts=(*mounts_for(python, "", None)[0], *command.mounts),
        )

    async def arrive(self) -> socket.socket | None:
        """``None`` when the other end was closed before."""
        loop = asyncio.get_running_loop()
        there = asyncio.Event()
        loop.add_reader(self._ours, there.set)
        try:
            await there.wait()
        finally:
            loop.remove_reader(self._ours)
        numbers = array.array("i")
        _, rest, _, _ = self._ours.recvmsg(1, socket.CMSG_SPACE(numbers.itemsize), socket.MSG_CMSG_CLOEXEC)
        for level, kind, data in rest:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                numbers.frombytes(data[: numbers.itemsize])
        return socket.socket(fileno=numbers[0]) if numbers else None


class OverLoopback:
    """Over this machine's own loopback, for a command without a network of its own."""

    def __enter__(self) -> Self:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()

    @property
    def port(self) -> int:
        """To which the command has to be let."""
        return int(self._listener.getsockname()[1])

    def lead(self, command: Command, egress: Egress) -> Command:
        """The same command, told of the port."""
        return replace(command, env={**command.env, **variables(egress, self.port)})

    async def arrive(self) -> socket.socket:
        """There from the start."""
        return self._listener
