"""Running the stand-in: in a thread beside a test, or for good from the command line."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import uvicorn
from starlette.types import ASGIApp

from app.devhub.devhub import DevHub
from app.devhub.faults import faulty
from app.devhub.hub import API
from app.devhub.server import application

Middleware = Callable[[ASGIApp], ASGIApp]
_HOST = "127.0.0.1"


class _Server(uvicorn.Server):
    """uvicorn, which looks ten times a second whether it should stop; this one stops when it is told."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop, self._ended = asyncio.get_running_loop(), asyncio.Event()
        await super().startup(sockets)

    async def main_loop(self) -> None:
        await self._ended.wait()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        self.stop()

    def stop(self) -> None:
        """End from any thread, after startup."""
        self.should_exit = True
        self._loop.call_soon_threadsafe(self._ended.set)


def _server(devhub: DevHub, listener: socket.socket, middleware: Middleware | None = None) -> _Server:
    """A server on a socket that is bound already, so that the hub knows its own address before the first request."""
    devhub.hub.base_url = f"http://{_HOST}:{listener.getsockname()[1]}"
    app: ASGIApp = application(devhub.hub)
    app = faulty(middleware(app) if middleware else app, devhub.faults, API)
    return _Server(
        uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            ws="none",
            date_header=False,  # the hub's clock makes its own
            timeout_graceful_shutdown=2,
        )
    )


def _listen(port: int = 0) -> socket.socket:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((_HOST, port))
    return listener


@contextmanager
def serving(devhub: DevHub, *, middleware: Middleware | None = None) -> Iterator[str]:
    """Serve on a free port in a thread for as long as the block runs; gives the base URL."""
    with _listen() as listener:
        server = _server(devhub, listener, middleware)
        thread = threading.Thread(target=server.run, args=([listener],), name="devhub", daemon=True)
        thread.start()
        while not server.started:
            if not thread.is_alive():
                raise RuntimeError("the stand-in for GitHub did not start")
            time.sleep(0.002)
        try:
            yield devhub.url
        finally:
            server.stop()
            thread.join()


def run(state_dir: Path, port: int, on_ready: Callable[[DevHub], None]) -> None:
    """Serve until interrupted.

    Args:
        state_dir: where everything is kept; made if missing.
        port: 0 takes any free one.
        on_ready: called with the hub when its address is known, before the first request is answered.
    """
    devhub = DevHub(state_dir)
    with _listen(port) as listener:
        server = _server(devhub, listener)
        on_ready(devhub)
        try:
            server.run([listener])
        finally:
            devhub.close()
