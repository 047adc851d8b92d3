"""Our model endpoint, served for real, with real providers behind it that behave and misbehave."""

from __future__ import annotations

import json
import logging
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import httpx
import jwt
import pytest
import uvicorn
from starlette.applications import Starlette

from agent.budget import BudgetReached
from agent.config import parse
from agent.errors import OperatorError, UserError
from agent.model import errors
from agent.model.client import ModelClient
from agent.model.embeddings import OpenAIEmbedder
from agent.model.link import CallLimits
from agent.model.scripted import serve
from agent.model.types import Message
from agent.types import Budget, ModelEndpoint, Price
from app.llm.endpoint import Gateway, GatewayConfig, routes
from app.llm.ledger import RunMeters
from app.llm.provider import Limits
from app.llm.requests import PARAMETERS
from app.llm.run_tokens import AUDIENCE, ISSUER, TokenRefused, issue_token, verify_token
from tests.support import loopback
from tests.support.embeddings import Endpoint, embeddings
from tests.support.endpoint import delta, drop, endpoint, error, http, reply, silence, stream, trickle

SECRET = "s" * 64
KEY = "sk-provider-0123456789"
ASK = [Message.user("hello")]
FAST = CallLimits(pause_s=0.01, read_s=10, total_s=20)
PRICES = {"m": Price(input=1.0, cached=0.1, output=2.0)}


class Served:
    """One running endpoint with its ledger."""

    def __init__(self, port: int, meters: RunMeters) -> None:
        self.origin = f"http://127.0.0.1:{port}"
        self.port = port
        self.meters = meters
        self.asked: list[dict[str, Any]] = []
        """What reached the provider."""
        meters.open("run-1", Budget(tokens=100_000))
        self.token = issue_token(SECRET, "run-1", ttl_s=600)

    def client(self, token: str | None = None, model: str = "m") -> ModelClient:
        address = ModelEndpoint(base_url=f"{self.origin}/llm/v1", api_key=token or self.token, model=model)
        return ModelClient(address, limits=FAST)

    def post(self, body: Any = None, *, path: str = "/llm/v1/chat/completions", **headers: str) -> httpx.Response:
        body = {"model": "m", "messages": [{"role": "user", "content": "x"}]} if body is None else body
        headers = {"authorization": f"Bearer {self.token}", **{k.replace("_", "-"): v for k, v in headers.items()}}
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return loopback.post(self.origin + path, content=data, headers=headers)


@contextmanager
def gateway(
    base_url: str, in_flight: int = 4, embedding: ModelEndpoint | None = None, **limits: Any
) -> Iterator[Served]:
    meters = RunMeters(PRICES)
    config = GatewayConfig(
        base_url, KEY, ("m", "spare"), SECRET, embedding=embedding, limits=Limits(**limits), in_flight=in_flight
    )
    served = Gateway(config, meters, meters)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        await served.aclose()

    app = Starlette(routes=list(routes(served)), lifespan=lifespan)
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, log_level="debug"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        yield Served(listening.getsockname()[1], meters)
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


@pytest.fixture(scope="module")
def running() -> Iterator[Served]:
    """Before a provider that always says ``hi there``."""
    script = {"sessions": [{"name": "any", "steps": [{"content": "hi there"}]}]}
    with serve(script) as provider, gateway(provider.base_url) as running:
        running.asked = provider.requests
        yield running


@pytest.fixture
def served(running: Served) -> Served:
    """The same, with a run that has used nothing yet."""
    running.asked.clear()
    running.meters.open("run-1", Budget(tokens=100_000))
    return running


# ── a call that is right ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_streamed_call_is_passed_on_and_charged(served: Served) -> None:
    shown: list[str] = []
    with served.client() as client:
        answer = client.complete(ASK, on_text=shown.append)
    usage = served.meters.close("run-1")
    assert answer.text == "hi there" and len(shown) > 1
    assert (usage.calls, usage.input_tokens, usage.output_tokens) == (
        1,
        answer.usage.input_tokens,
        answer.usage.output_tokens,
    )
    assert usage.dollars and not usage.estimated


def test_a_whole_call(served: Served) -> None:
    answer = served.post()
    assert answer.status_code == 200 and answer.json()["choices"][0]["message"]["content"] == "hi there"
    assert served.meters.close("run-1").calls == 1


def test_the_models_that_runs_may_use(served: Served) -> None:
    answer = loopback.get(f"{served.origin}/llm/v1/models", headers={"authorization": f"Bearer {served.token}"})
    assert [model["id"] for model in answer.json()["data"]] == ["m", "spare"]
    assert loopback.get(f"{served.origin}/llm/v1/models").status_code == 401


def test_what_is_in_the_table_reaches_the_provider() -> None:
    body = {
        "model": "m",
        "messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": None, "tool_calls": []}],
        "tools": [{"type": "function", "function": {"name": "edit"}}],
        "tool_choice": "auto",
        "parallel_tool_calls": False,
        "response_format": {"type": "json_object"},
        "stream": False,
        "stream_options": {"include_usage": True},
        "max_completion_tokens": 7,
        "temperature": 0,
        "top_p": 0.5,
        "seed": 1,
        "stop": ["x"],
        "reasoning_effort": "low",
    }
    assert {*body, "max_tokens"} == PARAMETERS.keys()
    with endpoint(reply()) as provider, gateway(provider.base_url) as served:
        assert served.post(body).status_code == 200
        assert provider.bodies == [{**{k: v for k, v in body.items() if k != "max_completion_tokens"}, "max_tokens": 7}]


@pytest.mark.parametrize(("asked", "sent"), [(None, 500), (100, 100), (9999, 500)])
def test_the_output_limit_is_capped(asked: int | None, sent: int) -> None:
    with endpoint(reply()) as provider, gateway(provider.base_url, output_tokens=500) as served:
        with served.client() as client:
            client.complete(ASK, max_output_tokens=asked)
        assert provider.bodies[0]["max_tokens"] == sent


def test_a_provider_that_wants_the_newer_name_of_the_limit() -> None:
    refusal = error(400, "Unsupported parameter: use 'max_completion_tokens' instead", param="max_tokens")
    with endpoint(refusal, reply()) as provider, gateway(provider.base_url) as served:
        assert [served.post().status_code for _ in range(2)] == [200, 200]
        assert ["max_completion_tokens" in body for body in provider.bodies] == [False, True, True]


# ── tokens ───────────────────────────────────────────────────────────────────────────────────────────────────────


def forged(**changes: Any) -> str:
    claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "run-1", "iat": 1000, "exp": 2000} | changes
    return jwt.encode({k: v for k, v in claims.items() if v is not ...}, SECRET, algorithm="HS256")


@pytest.mark.parametrize(
    "changes",
    [
        {"iss": "other"},
        {"iss": ...},
        {"aud": "api"},
        {"aud": [AUDIENCE, "api"]},
        {"aud": ...},
        {"sub": ""},
        {"sub": ...},
        {"exp": 1499},
        {"exp": 1500 + 90_000},
        {"exp": "2000"},
        {"exp": ...},
        {"exp": True},
        {"sub": 5},
        {"iat": 1600},
        {"iat": "1000"},
        {"iat": True},
        {"iat": ...},
        {"admin": True},
    ],
)
def test_a_claim_that_does_not_hold(changes: dict[str, Any]) -> None:
    with pytest.raises(TokenRefused):
        verify_token(SECRET, forged(**changes), now=lambda: 1500.0)


def test_a_token_that_holds() -> None:
    assert verify_token(SECRET, forged(), now=lambda: 1500.0).run_id == "run-1"
    assert verify_token(SECRET, issue_token(SECRET, "r", ttl_s=10**9)).run_id == "r"


@pytest.mark.parametrize(
    "token",
    [
        "",
        "x.y.z",
        "é",
        jwt.encode({"sub": "run-1"}, "k" * 32, algorithm="HS256"),
        jwt.encode({"iss": ISSUER, "aud": AUDIENCE, "sub": "run-1", "iat": 1000, "exp": 2000}, None, algorithm="none"),
        jwt.encode({"iss": ISSUER, "aud": AUDIENCE, "sub": "run-1", "iat": 1000, "exp": 2000}, SECRET, "HS512"),
    ],
)
def test_a_token_that_is_none_of_ours(token: str) -> None:
    with pytest.raises(TokenRefused):
        verify_token(SECRET, token, now=lambda: 1500.0)


def test_a_secret_that_is_too_short() -> None:
    with pytest.raises(OperatorError, match="too short"):
        issue_token("short", "run-1", ttl_s=60)


def test_calls_without_a_right_token_are_refused_and_reach_nobody(served: Served) -> None:
    tokens = {
        "stale": issue_token(SECRET, "run-1", ttl_s=60, now=lambda: 1000.0),
        "of a run that has ended": issue_token(SECRET, "run-0", ttl_s=600),
        "of another server": issue_token("t" * 32, "run-1", ttl_s=600),
        "the provider's own key": KEY,
    }
    for token in tokens.values():
        with served.client(token) as client, pytest.raises(errors.KeyRefused) as caught:
            client.complete(ASK)
        assert token not in str(caught.value)
    assert served.post(authorization="").status_code == 401
    assert served.post(authorization=f"Basic {served.token}").status_code == 401
    served.meters.close("run-1")
    assert served.post().status_code == 401
    assert served.asked == []


# ── embeddings ───────────────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def embedding_gateway() -> Iterator[tuple[Endpoint, Served]]:
    with embeddings() as provider, endpoint() as chat:
        target = ModelEndpoint(base_url=provider.url, api_key=KEY, model="e")
        with gateway(chat.base_url, embedding=target) as served:
            yield provider, served


def test_texts_are_embedded_with_the_servers_key_and_cost_only_money() -> None:
    with embedding_gateway() as (provider, served):
        embedder = OpenAIEmbedder(ModelEndpoint(base_url=f"{served.origin}/llm/v1", api_key=served.token, model="e"))
        vectors = embedder.embed(["alpha", "beta"])
        embedder.close()
        usage = served.meters.close("run-1")
    assert vectors == [provider.vector("alpha"), provider.vector("beta")]
    assert provider.keys == [f"Bearer {KEY}"]
    assert (usage.calls, usage.input_tokens, usage.embedded_tokens) == (0, 0, 1)


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"model": "m", "input": ["x"]}, 403, "model_not_allowed"),
        ({"model": "e", "input": ["x"], "dimensions": 3}, 400, "parameter_not_allowed"),
        ({"model": "e", "input": "x"}, 400, "parameter_not_allowed"),
        ({"model": "e", "input": [[1, 2]]}, 400, "parameter_not_allowed"),
        ({"model": "e", "input": []}, 400, "parameter_not_allowed"),
        ({"model": "e"}, 400, "invalid_request_error"),
    ],
)
def test_other_texts_are_refused(body: dict[str, Any], status: int, code: str) -> None:
    with embedding_gateway() as (provider, served):
        answer = served.post(body, path="/llm/v1/embeddings")
        assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
        unknown = served.post(body, path="/llm/v1/embeddings", authorization="Bearer nobody")
        assert unknown.status_code == 401
        assert provider.keys == []


def test_no_texts_are_embedded_beyond_the_budget_and_failures_hold_no_key() -> None:
    with embedding_gateway() as (provider, served):
        served.meters.open("run-1", Budget(minutes=0.0000001))
        answer = served.post({"model": "e", "input": ["x"]}, path="/llm/v1/embeddings")
        assert answer.status_code == 403 and provider.keys == []
        served.meters.open("run-1", Budget())
        provider.failures = [401, 500]
        codes = [served.post({"model": "e", "input": ["x"]}, path="/llm/v1/embeddings") for _ in range(2)]
        assert [answer.status_code for answer in codes] == [403, 500]
        assert all(KEY not in answer.text for answer in codes)


# ── only this path, this provider, these models ──────────────────────────────────────────────────────────────────


def test_another_model_is_refused(served: Served) -> None:
    with served.client(model="expensive") as client, pytest.raises(errors.KeyRefused, match="may not use that model"):
        client.complete(ASK)
    assert served.asked == []


@pytest.mark.parametrize("path", ["/llm/v1/embeddings", "/llm/v1/chat/completions/../files", "/llm/v2/models", "/llm"])
def test_another_path_is_not_there(served: Served, path: str) -> None:
    assert served.post(path=path).status_code == 404


@pytest.mark.parametrize(
    "extra",
    [
        {"base_url": "http://127.0.0.1:1"},
        {"n": 50},
        {"store": True},
        {"web_search_options": {}},
        {"tools": [{"type": "web_search"}]},
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://127.0.0.1"}}]}]},
        {"messages": []},
        {"messages": "x"},
        {"messages": ["x"]},
        {"tools": "web_search"},
        {"tools": ["web_search"]},
        {"tool_choice": 5},
        {"parallel_tool_calls": 1},
        {"response_format": "json"},
        {"max_tokens": -1},
        {"max_tokens": 0},
        {"max_tokens": True},
        {"max_completion_tokens": 1.5},
        {"temperature": "hot"},
        {"temperature": True},
        {"seed": "x"},
        {"stop": 5},
        {"reasoning_effort": 5},
        {"stream": "yes"},
        {"stream_options": {"include_obfuscation": True}},
    ],
)
def test_what_is_not_in_the_table_is_refused(served: Served, extra: dict[str, Any]) -> None:
    answer = served.post({"model": "m", "messages": [{"role": "user", "content": "x"}]} | extra)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "parameter_not_allowed")
    assert served.asked == []


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b"[" * 200_000, b"\xff\xfe", b'{"model": "m"}'])
def test_a_body_that_is_no_request(served: Served, body: bytes) -> None:
    assert served.post(body).status_code == 400


def test_bodies_are_bounded() -> None:
    with endpoint(reply()) as provider, gateway(provider.base_url, body_bytes=1000) as served:
        assert served.post(b"x" * 1001).status_code == 413
        chunked = loopback.post(
            f"{served.origin}/llm/v1/chat/completions",
            content=(b"x" * 100 for _ in range(1000)),
            headers={"authorization": f"Bearer {served.token}"},
        )
        assert chunked.status_code == 413
        assert served.post(content_encoding="gzip").status_code == 415
        assert provider.requests == []


def test_neither_host_header_nor_absolute_address_moves_the_call() -> None:
    with endpoint(reply("elsewhere")) as other, endpoint(reply("right")) as provider:
        with gateway(provider.base_url) as served:
            assert served.post(host=other.origin.removeprefix("http://")).status_code == 200
            body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "x"}]})
            with socket.create_connection(("127.0.0.1", served.port)) as connection:
                lines = [
                    f"POST {other.origin}/llm/v1/chat/completions HTTP/1.1",
                    "host: x",
                    "connection: close",
                    f"authorization: Bearer {served.token}",
                    f"content-length: {len(body)}",
                ]
                connection.sendall("\r\n".join([*lines, "", body]).encode())
                while connection.recv(65536):
                    pass
        assert other.requests == []


def test_redirects_of_the_provider_are_not_followed() -> None:
    with endpoint(reply()) as other, endpoint(http("", 307, location=other.base_url)) as provider:
        with (
            gateway(provider.base_url) as served,
            served.client() as client,
            pytest.raises(errors.RequestRefused, match="redirects"),
        ):
            client.complete(ASK)
        assert other.requests == [] and len(provider.requests) == 1


@pytest.mark.parametrize("address", ["file:///etc/passwd", "gopher://x", "127.0.0.1:1", ""])
def test_the_provider_must_be_a_web_address(address: str) -> None:
    with pytest.raises(OperatorError, match="no web address"):
        Gateway(GatewayConfig(address, KEY, ("m",), SECRET), RunMeters(), RunMeters())


def test_a_repository_can_t_name_an_endpoint() -> None:
    for line in (
        '[model]\nbase_url = "http://169.254.169.254"',
        'base_url = "file:///etc/passwd"',
        '[budget]\nmodel = "x"',
    ):
        with pytest.raises(UserError, match="wrong entry"):
            parse(line.encode())


# ── budget ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("usage", [..., "none", None, {"prompt_tokens": 0, "completion_tokens": 0}])
def test_the_budget_ends_a_run_for_good(usage: Any) -> None:
    with endpoint(reply("word " * 800, usage=usage)) as provider, gateway(provider.base_url) as served:
        served.meters.open("run-1", Budget(tokens=2000, steps=3))
        with served.client() as client, pytest.raises(BudgetReached, match="budget"):
            for _ in range(10):
                client.complete(ASK)
        made = len(provider.requests)
        assert made in (2, 3)
        refused = served.post()
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "budget_reached")
        assert len(provider.requests) == made
        assert served.meters.close("run-1").estimated is (usage is not ...)


def test_too_many_calls_at_once() -> None:
    with endpoint(silence) as provider, gateway(provider.base_url, in_flight=2) as served:
        waiting = [threading.Thread(target=lambda: hang_up(served), daemon=True) for _ in range(2)]
        for thread in waiting:
            thread.start()
        until(lambda: len(provider.requests) == 2)
        refused = served.post()
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        for thread in waiting:
            thread.join()


def hang_up(served: Served) -> None:
    """Ask, and go away before the answer."""
    with pytest.raises(httpx.HTTPError):
        loopback.post(
            f"{served.origin}/llm/v1/chat/completions",
            json={"model": "m", "messages": [{"role": "user", "content": "x"}]},
            headers={"authorization": f"Bearer {served.token}"},
            timeout=1,
        )


def until(condition: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(3000):
        if condition():
            return
        pause.wait(0.02)
    raise AssertionError("never came true")


def test_a_run_that_hangs_up_is_charged_and_frees_its_place() -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
    drip = trickle(head, f"data: {json.dumps(delta(content='words and more '))}\n\n".encode())
    with endpoint(drip) as provider, gateway(provider.base_url, in_flight=1) as served:
        body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "x"}]}
        headers = {"authorization": f"Bearer {served.token}"}
        for calls in (1, 2):
            with httpx.stream("POST", f"{served.origin}/llm/v1/chat/completions", json=body, headers=headers) as answer:
                assert answer.status_code == 200
                next(answer.iter_bytes())
            until(lambda calls=calls: served.meters.usage("run-1").calls == calls)  # type: ignore[misc]
        assert served.meters.close("run-1").output_tokens > 0


# ── a provider that misbehaves ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("answer", "status", "code"),
    [
        (error(401, f"Incorrect API key: {KEY}"), 403, "provider_key_refused"),
        (error(403, f"{KEY} is blocked"), 403, "provider_key_refused"),
        (error(429, f"slow down, {KEY}", code="rate_limit_exceeded"), 429, "rate_limit_exceeded"),
        (error(500, f"trace: Authorization: Bearer {KEY}", code=KEY), 500, "[redacted]"),
        (http(f"<h1>{KEY}</h1>", 502, "text/html"), 502, "provider_error"),
        (http(f"<h1>{KEY}</h1>", 200, "text/html"), 502, "provider_reply_unreadable"),
        (error(400, "response_format type is unavailable"), 400, "provider_error"),
        (http("y" * 100_000, 503, "text/plain"), 503, "provider_error"),
        (http("", 308, location="http://127.0.0.1:9/"), 501, "provider_redirects"),
        (http("", 503), 503, "provider_error"),
        (drop, 502, "provider_unreachable"),
        (silence, 504, "provider_timeout"),
        (reply("x" * 5000), 502, "provider_reply_too_large"),
    ],
)
def test_failures_are_named_and_hold_no_key(
    answer: Any, status: int, code: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with endpoint(answer) as provider, gateway(provider.base_url, idle_s=2.0, reply_bytes=4000) as served:
        refused = served.post()
    assert (refused.status_code, refused.json()["error"]["code"]) == (status, code)
    assert KEY not in refused.text + str(refused.headers)
    assert KEY not in caplog.text and served.token not in caplog.text


def test_how_long_to_wait_is_passed_on() -> None:
    with endpoint(http('{"error": "busy"}', 429, retry_after="7")) as provider, gateway(provider.base_url) as served:
        assert served.post().headers["retry-after"] == "7"


def test_a_key_in_a_good_answer_is_redacted() -> None:
    with endpoint(reply(f"the key is {KEY}")) as provider, gateway(provider.base_url) as served:
        assert served.post().json()["choices"][0]["message"]["content"] == "the key is [redacted]"
    with (
        endpoint(stream(delta(content=f"it is {KEY}"), delta("stop"))) as provider,
        gateway(provider.base_url) as served,
        served.client() as client,
    ):
        assert client.complete(ASK).text == "it is [redacted]"


@pytest.mark.parametrize("answer", [stream("{not json", "also not"), http("\x00\xff" * 50, kind="text/event-stream")])
def test_a_stream_of_nonsense_ends_as_a_named_error(answer: bytes) -> None:
    with endpoint(answer) as provider, gateway(provider.base_url) as served, served.client() as client:
        with pytest.raises((errors.MalformedReply, errors.EmptyReply)):
            client.complete(ASK)
        assert 3 <= len(provider.requests) <= 4
        assert served.meters.close("run-1").estimated


HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
PIECE = f"data: {json.dumps(delta(content='x' * 50))}\n\n".encode()


@pytest.mark.parametrize(
    ("answer", "limits", "says"),
    [
        (trickle(HEAD, PIECE), {"total_s": 0.3}, "too long"),
        (trickle(HEAD, PIECE, 0.0), {"reply_bytes": 2000}, "too much"),
        (trickle(HEAD, b"x" * 100, 0.0), {"line_bytes": 2000}, "too much"),
    ],
)
def test_endless_streams_are_ended(answer: Any, limits: dict[str, Any], says: str) -> None:
    with endpoint(answer) as provider, gateway(provider.base_url, **limits) as served:
        body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "x"}]}
        text = served.post(body).text
        assert says in text.rsplit("data:", 1)[1]
        assert served.meters.close("run-1").calls == 1
