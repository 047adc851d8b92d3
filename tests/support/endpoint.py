"""A server on loopback that answers with exact bytes: for replies that no well-behaved server gives."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

Answer = bytes | Callable[[socket.socket], None]


class RawServer:
    """Plays ``answers`` one a connection, the last one for ever. ``requests`` keeps (head, body) of each."""

    def __init__(self, answers: Sequence[Answer]) -> None:
        self._answers = list(answers)
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.requests: list[tuple[str, bytes]] = []
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self._socket.getsockname()[1]}"

    @property
    def base_url(self) -> str:
        return f"{self.origin}/v1"

    @property
    def bodies(self) -> list[Any]:
        return [json.loads(body) for _, body in self.requests]

    def close(self) -> None:
        # Wakes the thread in accept, which would keep the port open.
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection:
            try:
                self.requests.append(_read(connection))
                answer = self._answers[min(len(self.requests), len(self._answers)) - 1]
                if callable(answer):
                    answer(connection)
                else:
                    connection.sendall(answer)
            except OSError:
                return


def _read(connection: socket.socket) -> tuple[str, bytes]:
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(65536)
        if not piece:
            raise OSError("hung up")
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    text = head.decode("latin-1")
    length = int((re.findall(r"(?i)\ncontent-length: *(\d+)", text) or ["0"])[0])
    while len(body) < length:
        body += connection.recv(65536)
    return text, body


@contextmanager
def endpoint(*answers: Answer) -> Iterator[RawServer]:
    server = RawServer(answers)
    try:
        yield server
    finally:
        server.close()


def http(body: bytes | str, status: int = 200, kind: str = "application/json", **headers: str) -> bytes:
    """A whole response."""
    data = body.encode() if isinstance(body, str) else body
    fields = {"content-type": kind, "content-length": str(len(data)), "connection": "close", **headers}
    head = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in fields.items())
    return f"HTTP/1.1 {status} X\r\n{head}\r\n".encode() + data


def reply(content: str | None = "done", *, finish: str | None = "stop", usage: Any = ..., **message: Any) -> bytes:
    """A whole completion in one response. ``usage=None`` sends null, leaving it out sends counts."""
    body: dict[str, Any] = {
        "id": "x",
        "object": "chat.completion",
        "created": 0,
        "model": "m",
        "choices": [
            {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": content, **message}}
        ],
    }
    if usage != "none":
        body["usage"] = {"prompt_tokens": 10, "completion_tokens": 5} if usage is ... else usage
    return http(json.dumps(body))


def stream(*chunks: Mapping[str, Any] | str, done: bool = True) -> bytes:
    """A stream of chunks; a string goes out as the data of an event, as it is."""
    events = [f"data: {c if isinstance(c, str) else json.dumps(c)}\n\n" for c in chunks]
    return http("".join(events) + ("data: [DONE]\n\n" if done else ""), kind="text/event-stream")


def delta(finish: str | None = None, **content: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": content, "finish_reason": finish}]}


def error(status: int, message: str, **detail: Any) -> bytes:
    return http(json.dumps({"error": {"message": message, **detail}}), status)


def drop(connection: socket.socket) -> None:
    """Hang up without a word."""


def silence(connection: socket.socket) -> None:
    """Say nothing until the other side hangs up."""
    connection.settimeout(30)
    connection.recv(1)


def trickle(head: bytes, piece: bytes, pause_s: float = 0.02) -> Callable[[socket.socket], None]:
    """Send ``piece`` again and again."""

    def send(connection: socket.socket) -> None:
        connection.sendall(head)
        for _ in range(2000):
            connection.sendall(piece)
            time.sleep(pause_s)

    return send
