"""Behind a proxy, or with an authority of one's own: git, the API and the models are reached as others reach them."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from agent import outside
from agent.errors import GraftsmithError, OperatorError
from agent.git import Git
from agent.model.client import ModelClient
from agent.model.embeddings import OpenAIEmbedder
from agent.model.link import CallLimits
from agent.model.types import Message
from agent.types import ModelEndpoint
from app.github.api import Connections
from app.llm.provider import Limits, Provider

VARIABLES = [f"{kind}_proxy" for kind in ("http", "https", "all", "no")]


class Server(ThreadingHTTPServer):
    """Answers nothing but 404, and keeps what it was asked for."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[str] = []


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        self.send_error(404)

    do_POST = do_GET

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    server = Server()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    outside.tls.cache_clear()
    yield server
    outside.tls.cache_clear()
    server.shutdown()
    thread.join()
    server.server_close()


def by_git(url: str, folder: Path) -> None:
    with Git.init(folder / "own.git") as git:
        git.fetch(f"{url}/acme/widget.git", "refs/heads/main")


def by_api(url: str, _folder: Path) -> None:
    async def ask() -> None:
        connections = Connections(url)
        async with httpx.AsyncClient(transport=connections) as client:
            await client.get(f"{url}/app")
        await connections.close_all()

    asyncio.run(ask())


def by_model(url: str, _folder: Path) -> None:
    endpoint = ModelEndpoint(base_url=f"{url}/v1", api_key="a-key", model="m")
    ModelClient(endpoint, limits=CallLimits(total_s=1.0)).complete([Message(role="user", content="hello")])


def by_embedder(url: str, _folder: Path) -> None:
    OpenAIEmbedder(ModelEndpoint(base_url=f"{url}/v1", api_key="a-key", model="m"), tries=1).embed(["hello"])


def by_provider(url: str, _folder: Path) -> None:
    async def ask() -> None:
        provider = Provider(f"{url}/v1", "a-key", Limits())
        try:
            await provider.open({"model": "m", "messages": []})
        finally:
            await provider.aclose()

    asyncio.run(ask())


Ask = Callable[[str, Path], None]
WAYS = pytest.mark.parametrize("ask", [by_git, by_api, by_model, by_embedder, by_provider])


@WAYS
def test_through_the_proxy_of_the_environment(
    ask: Ask, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("no_proxy", "straight.invalid")
    with suppress(GraftsmithError):  # there is no repository, and no model
        ask("http://git.invalid", tmp_path)
    assert server.asked and server.asked[0].startswith("http://git.invalid/")
    with pytest.raises((GraftsmithError, httpx.ConnectError)):
        ask("http://straight.invalid", tmp_path)
    assert len(server.asked) == 1


@WAYS
def test_a_proxy_of_another_kind_is_named_with_what_to_do(
    ask: Ask, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("all_proxy", f"socks5://user:pass-7f3a@127.0.0.1:{server.server_port}")
    with pytest.raises(OperatorError, match=r"git\.invalid .*'socks5'.*http://host:port") as raised:
        ask("http://git.invalid", tmp_path)
    assert "7f3a" not in str(raised.value)
    assert server.asked == []


@pytest.mark.parametrize("host", ["localhost:8010", "127.0.0.1", "[::1]:80"])
def test_this_machine_is_never_asked_of_a_proxy(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://proxy.invalid")
    monkeypatch.delenv("no_proxy", raising=False)
    assert outside.proxy_for(f"http://{host}/") is None
    assert outside.proxy_for("http://git.invalid/") == "http://proxy.invalid"


@pytest.mark.parametrize("ask", [by_git, by_api])
def test_an_authority_of_ones_own(ask: object, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate = issued(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    url = f"https://127.0.0.1:{server.server_port}"
    with pytest.raises((OperatorError, httpx.ConnectError), match=r"(?i)certificate"):
        ask(url, tmp_path)
    assert server.asked == []
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    outside.tls.cache_clear()
    with suppress(GraftsmithError):
        ask(url, tmp_path)
    assert len(server.asked) == 1


def issued(folder: Path) -> Path:
    """A certificate that vouches for itself, with its key, as one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "an authority")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    plain = serialization.NoEncryption()
    path = folder / "certificate.pem"
    path.write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain) + certificate.public_bytes(pem))
    return path
