"""An embedding endpoint for tests, on a local port."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

LIMIT = 8_192 * 4
"""Characters; stands for 8,192 tokens."""


class Endpoint:
    """An embedding endpoint: vectors by words, 400 for what is empty or too long, answers out of order."""

    def __init__(self) -> None:
        self.requests = 0
        self.inputs: list[str] = []
        self.failures: list[int] = []
        self.size = 512
        self.limit = LIMIT
        self.keys: list[str] = []
        """What came as ``Authorization``."""
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                outer.keys.append(self.headers.get("authorization", ""))
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                status, answer = outer.answer(body["input"])
                data = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def answer(self, inputs: Sequence[str]) -> tuple[int, dict[str, Any]]:
        self.requests += 1
        if self.failures:
            return self.failures.pop(0), {"error": {"message": "no"}}
        if any(not text or len(text) > self.limit for text in inputs):
            return 400, {"error": {"message": "input too long or empty"}}
        self.inputs += inputs
        data = [{"object": "embedding", "index": i, "embedding": self.vector(t)} for i, t in enumerate(inputs)]
        return 200, {
            "object": "list",
            "model": "m",
            "data": data[::-1],
            "usage": {"prompt_tokens": 1, "total_tokens": 1},
        }

    def vector(self, text: str) -> list[float]:
        out = [0.0] * self.size
        for word in re.findall(r"[a-z]+\d*", text.lower()):
            out[int(hashlib.sha256(word.encode()).hexdigest()[:8], 16) % self.size] += 1.0
        return out


@contextmanager
def embeddings() -> Iterator[Endpoint]:
    """A running endpoint."""
    made = Endpoint()
    try:
        yield made
    finally:
        made.server.shutdown()
        made.server.server_close()
