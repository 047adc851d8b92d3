"""The proxy outside: accepts what comes from a sandbox and carries it to the places that the policy allows.

It lives in a thread of its own for the time of one command. Names are resolved here, once, and the address that was
looked at is the one that is connected to.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final, Self

from sandbox.egress.head import Malformed, Request, parse
from sandbox.egress.policy import Destination, Egress, Refusal, Refused, check_address

_HEAD_BYTES: Final = 32 * 1024
_CHUNK: Final = 64 * 1024
_REMEMBERED: Final = 100
_PAUSE_S: Final = 0.05

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Arrival = Callable[[], Awaitable[socket.socket | None]]


class _Unreachable(Exception):
    """The policy says yes, the network no."""


class Proxy:
    """Serves from entering to leaving; nothing of it is left then.

    Args:
        listener: is asked for the listening socket, which the proxy closes; ``None``: nobody will come.
    """

    def __init__(self, egress: Egress, listener: Arrival) -> None:
        self._egress = egress
        self._listener = listener
        self._left = egress.max_bytes
        self._refused: dict[Refusal, None] = {}
        self._slots = asyncio.Semaphore(egress.max_open)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="egress", daemon=True)

    def __enter__(self) -> Self:
        self._task = self._loop.create_task(self._serve())
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(RuntimeError):  # the loop is closed: it has ended by itself
            self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join()

    @property
    def refused(self) -> tuple[Refusal, ...]:
        """Each place once, in the order in which they were asked for."""
        return tuple(self._refused)

    def _run(self) -> None:
        try:
            with suppress(asyncio.CancelledError):
                self._loop.run_until_complete(self._task)
            self._loop.run_until_complete(asyncio.sleep(0))  # transports that were aborted close now
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        listener = await self._listener()
        if listener is None:
            return
        listener.setblocking(False)
        with listener:
            async with asyncio.TaskGroup() as clients:
                while True:
                    await self._slots.acquire()
                    client = await self._accepted(listener)
                    clients.create_task(self._client(client)).add_done_callback(lambda _: self._slots.release())

    async def _accepted(self, listener: socket.socket) -> socket.socket:
        while True:
            try:
                return (await self._loop.sock_accept(listener))[0]
            except OSError:  # it has gone again, or this process has no descriptor to spare for a moment
                await asyncio.sleep(_PAUSE_S)

    async def _client(self, client: socket.socket) -> None:
        near = await asyncio.open_connection(sock=client, limit=_HEAD_BYTES)
        async with self._closing(near):
            try:
                await self._answer(near)
            except Refused as error:
                self._remember(error.refusal)
                _say(near[1], 403, str(error.refusal))
            except Malformed as error:
                _say(near[1], 400, str(error))
            except asyncio.LimitOverrunError:
                _say(near[1], 431, f"more than {_HEAD_BYTES} bytes of header")
            except _Unreachable as error:
                _say(near[1], 502, str(error))
            except asyncio.IncompleteReadError:
                pass  # it went away, or ended its own half before it had said what it wants

    async def _answer(self, near: Stream) -> None:
        request = parse(await self._head(near[0]))
        place = self._egress.find(request.host, request.port)
        try:
            far = await self._reach(place, request)
        except OSError as error:
            raise _Unreachable(f"{place} can't be reached: {str(error) or 'that took too long'}") from error
        async with self._closing(far):
            await self._carry(request, place, near, far)

    async def _head(self, reader: asyncio.StreamReader) -> bytes:
        async with asyncio.timeout(self._egress.head_s):
            return await reader.readuntil(b"\r\n\r\n")

    # ── to the other side ──

    async def _reach(self, place: Destination, request: Request) -> Stream:
        """Connect, and ask for what is wanted. Raises Refused and OSError, TimeoutError among them."""
        async with asyncio.timeout(self._egress.connect_s):
            proxy = self._egress.way_to(place)
            far = await self._connect(proxy or place)
            try:
                if not request.tunnel:
                    far[1].write(request.plain(absolute=proxy is not None))
                elif proxy is not None:
                    await _ask_for_tunnel(far, place)
            except BaseException:
                far[1].transport.abort()
                raise
            return far

    async def _connect(self, place: Destination) -> Stream:
        problem: Exception = OSError("the name has no address")
        infos = await self._loop.getaddrinfo(place.host, place.port, type=socket.SOCK_STREAM)
        for family, _, _, _, address in infos:
            try:
                check_address(place, str(address[0]))
                return await asyncio.open_connection(sock=await self._socket(place, family, address), limit=_HEAD_BYTES)
            except (Refused, OSError) as error:
                problem = error
        raise problem

    async def _socket(self, place: Destination, family: int, address: tuple[str | int | bytes, ...]) -> socket.socket:
        made = socket.socket(family, socket.SOCK_STREAM)
        try:
            made.setblocking(False)
            await self._loop.sock_connect(made, address)
            # A machine has more addresses than those that are known to be its own.
            if not place.private and made.getsockname()[0] == made.getpeername()[0]:
                why = f"its address {address[0]!s} is an address of this machine"
                raise Refused(Refusal(place.host, place.port, why))
        except BaseException:
            made.close()
            raise
        return made

    async def _carry(self, request: Request, place: Destination, near: Stream, far: Stream) -> None:
        """Of a plain request only the answer: whatever else a client sends is no part of it."""
        ways = [(far[0], near[1])]
        if request.tunnel:
            near[1].write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            ways.append((near[0], far[1]))
        try:
            async with asyncio.timeout(self._egress.idle_s) as patience, asyncio.TaskGroup() as both:
                for source, sink in ways:
                    both.create_task(self._copy(place, source, sink, patience))
        except* Refused as group:
            for error in group.exceptions:
                assert isinstance(error, Refused)
                self._remember(error.refusal)
        except* OSError:
            pass  # one side is gone or silent; the other one sees the end of the connection

    async def _copy(
        self,
        place: Destination,
        source: asyncio.StreamReader,
        sink: asyncio.StreamWriter,
        patience: asyncio.Timeout,
    ) -> None:
        while chunk := await source.read(_CHUNK):
            self._left -= len(chunk)
            if self._left < 0:
                why = f"with it, more than {self._egress.max_bytes} bytes would be carried"
                raise Refused(Refusal(place.host, place.port, why))
            sink.write(chunk)
            await sink.drain()
            if not patience.expired():  # it may have run out in this very moment
                patience.reschedule(self._loop.time() + self._egress.idle_s)
        if sink.can_write_eof():
            sink.write_eof()

    @asynccontextmanager
    async def _closing(self, stream: Stream) -> AsyncIterator[None]:
        """Sends what is left, for a while. One side that is gone is nobody's error."""
        writer = stream[1]
        try:
            yield
            async with asyncio.timeout(self._egress.connect_s):
                writer.close()
                await writer.wait_closed()
        except OSError:
            pass
        finally:
            writer.transport.abort()

    def _remember(self, refusal: Refusal) -> None:
        if len(self._refused) < _REMEMBERED:
            self._refused[refusal] = None


async def _ask_for_tunnel(far: Stream, place: Destination) -> None:
    far[1].write(f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n\r\n".encode())
    try:
        answer = await far[0].readuntil(b"\r\n\r\n")
    except (asyncio.LimitOverrunError, asyncio.IncompleteReadError) as error:
        raise OSError("this machine's own proxy does not answer as a proxy does") from error
    line = answer.split(b"\r\n", 1)[0].decode("latin-1")
    if line.split(" ")[1:2] != ["200"]:
        raise OSError(f"this machine's own proxy says: {line[:200]}")


def _say(writer: asyncio.StreamWriter, status: int, text: str) -> None:
    """The reason stands in the first line too: of a tunnel that is refused, clients show nothing else."""
    text = " ".join(text.split())
    body = f"{text}\n".encode()
    head = f"HTTP/1.1 {status} {text}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
    writer.write(head.encode("latin-1", "replace") + b"Connection: close\r\n\r\n" + body)
