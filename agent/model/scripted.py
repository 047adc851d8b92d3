"""A model that follows a script: a small OpenAI-compatible server, so that the real client runs against it."""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from agent.model.script import Mismatch, Script, ScriptedCall, Step, position
from agent.model.tokens import estimate_tokens
from agent.model.wire import input_tokens

# ── replies ──────────────────────────────────────────────────────────────────────────────────────────────────────

_PIECES = 4  # parts that a text is streamed in


def completion(step: Step, request: Mapping[str, Any]) -> dict[str, Any]:
    """The whole reply of ``step``."""
    message: dict[str, Any] = {"role": "assistant", "content": step.content}
    if step.reasoning:
        message["reasoning_content"] = step.reasoning
    at = position(request.get("messages", ()))
    if step.tool_calls:
        message["tool_calls"] = [
            {
                "id": call.id if call.id is not None else f"call_{at}_{number}",
                "type": "function",
                "function": {"name": call.name, "arguments": _arguments(call)},
            }
            for number, call in enumerate(step.tool_calls)
        ]
    finish = step.finish_reason or ("tool_calls" if step.tool_calls else "stop")
    reply = {
        "id": f"chatcmpl-{at}",
        "object": "chat.completion",
        "created": 0,
        "model": request.get("model", "scripted"),
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
    }
    return reply if step.usage is False else reply | {"usage": _usage(step, request, message)}


def _arguments(call: ScriptedCall) -> str:
    return call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments, ensure_ascii=False)


def _usage(step: Step, request: Mapping[str, Any], message: Mapping[str, Any]) -> Any:
    if step.usage is not True:
        return step.usage
    produced = "".join(str(message.get(key) or "") for key in ("content", "reasoning_content"))
    produced += "".join(
        call["function"]["name"] + call["function"]["arguments"] for call in message.get("tool_calls", ())
    )
    used, made = input_tokens(request, estimate_tokens), estimate_tokens(produced)
    return {"prompt_tokens": used, "completion_tokens": made, "total_tokens": used + made}


def chunks(reply: Mapping[str, Any], *, include_usage: bool) -> Iterator[dict[str, Any]]:
    """The same reply as the events of a stream."""
    head = {key: reply[key] for key in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
    choice = reply["choices"][0]
    message = choice["message"]

    def chunk(delta: Mapping[str, Any], finish: str | None = None) -> dict[str, Any]:
        return head | {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    yield chunk({"role": "assistant", "content": ""})
    for key in ("reasoning_content", "content"):
        for piece in _pieces(message.get(key) or ""):
            yield chunk({key: piece})
    for index, call in enumerate(message.get("tool_calls", ())):
        function = call["function"]
        first = {
            "index": index,
            "id": call["id"],
            "type": "function",
            "function": {"name": function["name"], "arguments": ""},
        }
        yield chunk({"tool_calls": [first]})
        for piece in _pieces(function["arguments"]):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield chunk({}, choice["finish_reason"])
    if include_usage and "usage" in reply:
        yield head | {"choices": [], "usage": reply["usage"]}


def _pieces(text: str) -> Iterator[str]:
    size = -(-len(text) // _PIECES)
    return (text[at : at + size] for at in range(0, len(text), size or 1))


# ── the server ───────────────────────────────────────────────────────────────────────────────────────────────────


class ScriptedServer(ThreadingHTTPServer):
    """Serves one script on loopback until closed."""

    daemon_threads = True

    def __init__(self, script: Script, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.script = script
        self.requests: list[dict[str, Any]] = []
        """Every completion request so far, decoded, for tests to look at."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is no news; what goes wrong in a step is answered, and seen there."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"


@contextmanager
def serve(script: Script | Path | Mapping[str, Any], port: int = 0) -> Iterator[ScriptedServer]:
    """Serve ``script`` in a thread of its own; ``port`` 0 takes a free one.

    Raises:
        UserError: the script is wrong.
    """
    server = ScriptedServer(script if isinstance(script, Script) else Script.load(script), port)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, name="scripted", daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: ScriptedServer

    def log_message(self, format: str, *args: object) -> None:
        """Quiet: whoever wants to know looks at ``requests``."""

    def do_GET(self) -> None:
        if self.path.rstrip("/") == "/v1/models":
            model = {"id": self.server.script.model, "object": "model", "created": 0, "owned_by": "script"}
            return self._json(200, {"object": "list", "data": [model]})
        return self._error(404, "only /v1/models and /v1/chat/completions are here", "not_found")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", "0")))
        if self.path.rstrip("/") != "/v1/chat/completions":
            return self._error(404, "only /v1/models and /v1/chat/completions are here", "not_found")
        try:
            request = json.loads(body)
            messages = request["messages"]
        except (ValueError, KeyError, TypeError):
            return self._error(400, "the body must be a JSON object with messages", "invalid_request_error")
        self.server.requests.append(request)
        script = self.server.script
        if script.only and request.get("model") != script.model:
            return self._error(404, f"The model {request.get('model')!r} does not exist", "model_not_found")
        try:
            step = script.step(messages, _attempt(self.headers.get("x-stainless-retry-count")))
        except Mismatch as error:
            # 501 and not 500: a client that repeats failures would repeat this one in vain.
            return self._error(501, str(error), "script_mismatch")
        time.sleep(step.delay_s)
        return self._play(step, request)

    def _play(self, step: Step, request: Mapping[str, Any]) -> None:
        if step.drop:
            return self._drop()
        for parameter in step.refuse:
            if parameter in request:
                return self._error(400, f"{parameter} is not supported here", "unsupported_parameter")
        if step.raw is not None:
            data = step.raw if isinstance(step.raw, str) else json.dumps(step.raw)
            return self._send(step.status, data.encode(), step.content_type, step.headers)
        if step.status >= 400:
            error = {"message": step.error, "type": "error"} if isinstance(step.error, str) else step.error
            return self._json(step.status, {"error": error}, step.headers)
        reply = completion(step, request)
        if not request.get("stream"):
            return self._json(200, reply, step.headers)
        include_usage = bool((request.get("stream_options") or {}).get("include_usage"))
        return self._stream(chunks(reply, include_usage=include_usage), step)

    def _stream(self, events: Iterator[dict[str, Any]], step: Step) -> None:
        self._head(200, "text/event-stream", {**step.headers, "Transfer-Encoding": "chunked"})
        for number, event in enumerate(events):
            if number == step.drop_after:
                return self._drop()
            self._part(f"data: {json.dumps(event)}\n\n".encode())
        self._part(b"data: [DONE]\n\n")
        self._part(b"")
        return None

    def _part(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def _drop(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def _error(self, status: int, message: str, code: str) -> None:
        self._json(status, {"error": {"message": message, "type": code, "code": code}})

    def _json(self, status: int, value: object, headers: Mapping[str, str] | None = None) -> None:
        self._send(status, json.dumps(value).encode(), "application/json", headers or {})

    def _send(self, status: int, data: bytes, content_type: str, headers: Mapping[str, str]) -> None:
        self._head(status, content_type, {**headers, "Content-Length": str(len(data))})
        self.wfile.write(data)

    def _head(self, status: int, content_type: str, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": content_type, **headers}.items():
            self.send_header(name, value)
        self.end_headers()


def _attempt(header: str | None) -> int:
    return int(header) if header and header.isdecimal() else 0
