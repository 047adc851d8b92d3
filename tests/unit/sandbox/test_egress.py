"""The way out of a sandbox: what gets through, and every way around it that we could think of."""

from __future__ import annotations

import os
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox import landlock
from sandbox.egress.head import Malformed, Request, parse
from sandbox.egress.policy import Destination, Egress, Refused, check_address
from sandbox.types import Command, End, Limits, Sandbox
from tests.unit.sandbox.conftest import Shell

# A client inside, which speaks to the proxy byte by byte.
CLIENT = """
import os, socket, sys
PROXY = os.environ['http_proxy'].removeprefix('http://').split(':')
assert os.environ['YARN_HTTPS_PROXY'] == os.environ['HTTPS_PROXY'] == os.environ['http_proxy']

def connect():
    made = socket.create_connection((PROXY[0], int(PROXY[1])), timeout=20)
    return made

def established(client):
    said = b''
    while b'\\r\\n\\r\\n' not in said and (byte := client.recv(1)):
        said += byte
    return said.startswith(b'HTTP/1.1 200 ')

def answer(client):
    said = b''
    try:
        while chunk := client.recv(65536):
            said += chunk
    except ConnectionError:
        pass
    return said

def ask(data):
    with connect() as client:
        client.sendall(data)
        return answer(client)
"""


class Server:
    """A server of this machine, which remembers what it was told. Answers once a head is complete, and closes."""

    def __init__(
        self, reply: bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nreached", host: str = "127.0.0.1"
    ) -> None:
        self.heard: list[bytes] = []
        server = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                server.heard.append(b"")
                mine = len(server.heard) - 1
                self.request.settimeout(10)
                with suppress(OSError):
                    while b"\r\n\r\n" not in server.heard[mine] and (chunk := self.request.recv(65536)):
                        server.heard[mine] += chunk
                with suppress(OSError):
                    self.request.sendall(reply)
                    self.request.settimeout(0.3 if reply else 10)
                    while chunk := self.request.recv(65536):  # what comes beside the one request, if anything does
                        server.heard[mine] += chunk

        self._server = socketserver.ThreadingTCPServer((host, 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


MakeServer = Callable[..., Server]


@pytest.fixture
def serve() -> Iterator[MakeServer]:
    made: list[Server] = []

    def make(*reply: bytes, host: str = "127.0.0.1") -> Server:
        made.append(Server(*reply, host=host))
        return made[-1]

    yield make
    for server in made:
        server.close()


def to(server: Server, host: str = "127.0.0.1", *, private: bool = True) -> tuple[Destination, ...]:
    return (Destination(host, server.port, private=private),)


# ── what gets through ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_tunnel_and_a_plain_request_reach_what_is_allowed(script: Shell, serve: MakeServer) -> None:
    server = serve()
    place = f"127.0.0.1:{server.port}"
    finished = script(
        CLIENT
        + """
place = sys.argv[1]
with connect() as client:
    client.sendall(f'CONNECT {place} HTTP/1.1\\r\\nHost: {place}\\r\\n\\r\\n'.encode())
    assert established(client)
    client.sendall(b'anything\\r\\n\\r\\n')
    client.shutdown(socket.SHUT_WR)
    print(answer(client).endswith(b'reached'))
plain = f'GET http://{place}/a?b HTTP/1.1\\r\\nAccept: text/html\\r\\nX-Other: 1\\r\\n\\r\\n'
print(ask(plain.encode()).endswith(b'reached'))
""",
        place,
        egress=Egress(to(server)),
    )

    assert finished.output.split() == [b"True", b"True"]
    assert server.heard[0] == b"anything\r\n\r\n"
    assert (
        server.heard[1]
        == f"GET /a?b HTTP/1.1\r\nHost: {place}\r\naccept: text/html\r\nConnection: close\r\n\r\n".encode()
    )
    assert finished.refused == ()


def test_without_a_way_out_there_is_no_proxy(script: Shell) -> None:
    assert script("import os; print(sorted(n for n in os.environ if 'proxy' in n.lower()))").output == b"[]\n"


def test_the_command_is_what_ends_and_not_the_door(sandbox: Sandbox) -> None:
    def run(line: str, **limits: float) -> object:
        found = sandbox.run(Command(("sh", "-c", line), "/", egress=Egress(), limits=Limits(**limits)))  # type: ignore[arg-type]
        return found.end, found.exit_code, found.signal

    assert run("exit 7") == (End.EXITED, 7, None)
    assert run("kill -SEGV $$") == (End.SIGNALLED, None, 11)
    assert run("sleep 60", wall_s=0.5)[0] is End.TIMED_OUT  # type: ignore[index]
    assert run("setsid sleep 60 & exit 0") == (End.EXITED, 0, None)
    missing = sandbox.run(Command(("there-is-no-such-program",), "/", egress=Egress()))
    assert missing.exit_code == 127


def test_another_proxy_of_this_machine_is_asked_and_resolves_the_names(script: Shell, serve: MakeServer) -> None:
    upstream = serve(b"HTTP/1.1 200 OK\r\n\r\nreached")
    place = Destination("packages.invalid", 443)
    finished = script(
        CLIENT
        + """
with connect() as client:
    client.sendall(b'CONNECT packages.invalid:443 HTTP/1.1\\r\\n\\r\\n')
    assert established(client)
    client.shutdown(socket.SHUT_WR)
    print(answer(client))
print(ask(b'GET http://packages.invalid:443/x HTTP/1.1\\r\\n\\r\\n').endswith(b'reached'))
print(ask(b'CONNECT other.invalid:443 HTTP/1.1\\r\\n\\r\\n').split()[1])
""",
        egress=Egress((place,), upstream=Destination("127.0.0.1", upstream.port, private=True)),
    )

    assert finished.output.split() == [b"b'reached'", b"True", b"b'403'"], finished.output.decode()
    assert [heard.split(b"\r\n")[0] for heard in upstream.heard] == [
        b"CONNECT packages.invalid:443 HTTP/1.1",
        b"GET http://packages.invalid:443/x HTTP/1.1",
    ]


def test_hosts_of_this_machines_own_exceptions_need_no_other_proxy() -> None:
    upstream = Destination("proxy.invalid", 3128)
    egress = Egress(upstream=upstream, direct=("inside.invalid",))
    hosts = ("inside.invalid", "a.inside.invalid", "outside.invalid", "notinside.invalid")
    assert [egress.way_to(Destination(host, 443)) for host in hosts] == [None, None, upstream, upstream]


# ── what does not ────────────────────────────────────────────────────────────────────────────────────────────────


def test_no_socket_leads_around_the_proxy(script: Shell, serve: MakeServer, tmp_path: Path) -> None:
    """Loopback, other addresses of this machine, metadata services, name servers, sockets with a path or a name."""
    server = serve()
    abstract, path = f"graftsmith-egress-{os.getpid()}", f"/var/tmp/graftsmith-egress-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as named, socket.socket(socket.AF_UNIX) as filed:
        named.bind("\0" + abstract), named.listen()
        filed.bind(path), filed.listen()
        Path(path).chmod(0o777)
        try:
            finished = script(
                """
import socket, sys
port, own, abstract, path = int(sys.argv[1]), *sys.argv[2:]
FAST_OPEN = 0x20000000

def attempt(what, family, kind, address, protocol=0, fast=False):
    try:
        with socket.socket(family, kind, protocol) as client:
            client.settimeout(2)
            if fast:
                client.sendto(b'x', FAST_OPEN, address)
            else:
                client.connect(address)
                client.sendall(b'x')
                if kind == socket.SOCK_DGRAM:
                    client.recv(1)
    except OSError:
        return
    print('REACHED', what)

for host in ('127.0.0.1', '127.0.0.2', own, '169.254.169.254', '0.0.0.0'):
    for where in (port, 80):
        attempt(host, socket.AF_INET, socket.SOCK_STREAM, (host, where))
        attempt('fast ' + host, socket.AF_INET, socket.SOCK_STREAM, (host, where), fast=True)
        attempt('multipath ' + host, socket.AF_INET, socket.SOCK_STREAM, (host, where), 262)
attempt('six', socket.AF_INET6, socket.SOCK_STREAM, ('::1', port))
attempt('mapped', socket.AF_INET6, socket.SOCK_STREAM, ('::ffff:127.0.0.1', port))
attempt('datagram', socket.AF_INET, socket.SOCK_DGRAM, (own, port))
attempt('abstract', socket.AF_UNIX, socket.SOCK_STREAM, '\\0' + abstract)
attempt('path', socket.AF_UNIX, socket.SOCK_STREAM, path)
attempt('raw', socket.AF_INET, socket.SOCK_RAW, (own, 0), 1)
print('end')
""",
                str(server.port),
                _own_address(),
                abstract,
                path,
                egress=Egress(),
            )
        finally:
            Path(path).unlink()

    assert finished.output == b"end\n"
    assert server.heard == []


def _own_address() -> str:
    """An address of this machine that is not its loopback, where there is one. Nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        try:
            client.connect(("198.51.100.1", 9))
        except OSError:
            return "127.0.0.3"
        return str(client.getsockname()[0])


def test_what_is_not_allowed_is_refused_and_named(script: Shell, serve: MakeServer) -> None:
    server = serve()
    allowed = (Destination("packages.invalid", 443), Destination("127.0.0.1", 1, private=True))
    asked = (
        *("other.invalid:443", f"127.0.0.1:{server.port}", "packages.invalid:22", "packages.invalid.evil.invalid:443"),
        *("169.254.169.254:80", "[::1]:443", "[::ffff:127.0.0.1]:443", "2130706433:443"),
    )
    finished = script(
        CLIENT
        + """
for place in sys.argv[1:]:
    print(ask(f'CONNECT {place} HTTP/1.1\\r\\n\\r\\n'.encode()).split()[1].decode())
    print(ask(f'GET http://{place}/ HTTP/1.1\\r\\n\\r\\n'.encode()).split()[1].decode())
""",
        *asked,
        egress=Egress(allowed),
    )

    assert finished.output.split() == [b"403"] * 2 * len(asked)
    assert [str(Destination(refusal.host, refusal.port)) for refusal in finished.refused] == list(asked)
    assert str(finished.refused[0]).startswith("other.invalid:443 was refused: it is none of the places")
    assert server.heard == []


def test_a_name_that_leads_to_this_machine_is_refused_unless_the_operator_named_it(
    script: Shell, serve: MakeServer
) -> None:
    """Whoever owns an allowed name decides where it leads; the address that was looked at is connected to."""
    server = serve(host="0.0.0.0")
    own = _own_address()
    source = (
        CLIENT
        + """
for host in sys.argv[2:]:
    print(ask(f'GET http://{host}:{sys.argv[1]}/ HTTP/1.1\\r\\n\\r\\n'.encode()).split()[1].decode())
"""
    )
    refused = script(
        source,
        str(server.port),
        *("localhost", own),
        egress=Egress((*to(server, "localhost", private=False), *to(server, own, private=False))),
    )

    assert refused.output.split() == [b"403", b"403"]
    assert [refusal.host for refusal in refused.refused] == ["localhost", own]
    assert not any(server.heard)

    named = script(source, str(server.port), "localhost", egress=Egress(to(server, "localhost")))

    assert named.output.split() == [b"200"]


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "127.255.0.1", "0.0.0.0", "10.0.0.1", "172.16.0.1", "172.31.255.255"),
        *("192.168.1.1", "100.64.0.1", "100.100.100.200", "169.254.169.254", "168.63.129.16", "198.18.0.1"),
        *("224.0.0.1", "255.255.255.255", "::", "::1", "fe80::1", "fe80::1%eth0"),
        *("fd00:ec2::254", "fc00::1", "ff02::1", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "64:ff9b::7f00:1"),
        *("64:ff9b::a9fe:a9fe", "2002:7f00:1::", "2001:0:a00:1::", "::7f00:1", "::ffff:0:0"),
    ],
)
def test_addresses_that_no_registry_has(address: str) -> None:
    with pytest.raises(Refused, match="its address"):
        check_address(Destination("a.invalid", 443), address)
    check_address(Destination("a.invalid", 443, private=True), address)


@pytest.mark.parametrize(
    "address", ["151.101.0.223", "172.32.0.1", "2a04:4e42::223", "64:ff9b::9765:df", "169.253.0.1"]
)
def test_addresses_of_the_world(address: str) -> None:
    check_address(Destination("a.invalid", 443), address)


def test_what_an_older_kernel_can_not_close_is_not_asked_of_it() -> None:
    assert [len(landlock.ruleset(known)) // 8 for known in (1, 3, 4, 5, 6, 7)] == [1, 1, 2, 2, 3, 3]
    assert [landlock.keeps_ports(known) for known in (1, 3, 4, 7)] == [False, False, True, True]


# ── what two programs could read in two ways ─────────────────────────────────────────────────────────────────────


def test_one_request_goes_on_and_its_address_decides_where(script: Shell, serve: MakeServer) -> None:
    server = serve()
    place = f"127.0.0.1:{server.port}"
    finished = script(
        CLIENT
        + """
place = sys.argv[1]
first = f'GET http://{place}/first HTTP/1.1\\r\\nHost: other.invalid\\r\\nConnection: keep-alive, Host\\r\\n'
second = f'GET http://{place}/second HTTP/1.1\\r\\nHost: {place}\\r\\n\\r\\n'
print(ask((first + 'Content-Length: 0\\r\\n\\r\\n' + second).encode()).count(b'HTTP/1.1'))
""",
        place,
        egress=Egress(to(server)),
    )

    assert finished.output == b"1\n"
    assert server.heard == [f"GET /first HTTP/1.1\r\nHost: {place}\r\nConnection: close\r\n\r\n".encode()]


@pytest.mark.parametrize(
    "head",
    [
        b"GET /origin HTTP/1.1\r\nHost: a.invalid",
        b"GET http://a.invalid/ HTTP/1.1\r\nTransfer-Encoding: chunked",
        b"GET http://a.invalid/ HTTP/1.1\r\nContent-Length: 5",
        b"GET http://a.invalid/ HTTP/1.1\r\nContent-Length: 0\r\nContent-Length: 5",
        b"GET http://a.invalid/ HTTP/1.1\r\nContent-Length : 0",
        b"GET http://a.invalid/ HTTP/1.1\r\nA: b\r\n folded",
        b"GET http://a.invalid/ HTTP/1.1\nHost: b.invalid",
        b"GET http://a.invalid/ HTTP/1.1\r\nA: b\rHost: b.invalid",
        b"GET http://a.invalid/ HTTP/1.1\r\nA: b\0",
        b"GET http://user:password@a.invalid/ HTTP/1.1",
        b"GET http://a.invalid\\@b.invalid/ HTTP/1.1",
        b"GET http://a.invalid#@b.invalid/ HTTP/1.1",
        b"GET https://a.invalid/ HTTP/1.1",
        b"GET file:///etc/passwd HTTP/1.1",
        b"GET  http://a.invalid/ HTTP/1.1",
        b"GET http://a.invalid/ HTTP/2.0",
        b"GET http://a.invalid/",
        b"POST http://a.invalid/ HTTP/1.1\r\nContent-Length: 0",
        b"CONNECT a.invalid HTTP/1.1",
        b"CONNECT a.invalid:0 HTTP/1.1",
        b"CONNECT a.invalid:65536 HTTP/1.1",
        b"CONNECT a.invalid:+443 HTTP/1.1",
        b"CONNECT a.invalid:443:22 HTTP/1.1",
        b"CONNECT user@a.invalid:443 HTTP/1.1",
        b"CONNECT http://a.invalid:443 HTTP/1.1",
        b"CONNECT [::1%25eth0]:443 HTTP/1.1",
        b"",
    ],
)
def test_what_can_not_be_read_in_one_way_only_is_refused(head: bytes) -> None:
    with pytest.raises(Malformed):
        parse(head + b"\r\n\r\n")


def test_names_are_compared_as_they_are_meant() -> None:
    assert parse(b"CONNECT InDex.Invalid.:443 HTTP/1.1\r\n\r\n") == Request("index.invalid", 443)
    assert parse(b"GET HTTP://A.invalid HTTP/1.1\r\n\r\n") == Request("a.invalid", 80, "GET", "/")


WORDS = st.sampled_from(
    [
        *(
            "GET",
            "CONNECT",
            "POST",
            " ",
            "http://",
            "a.invalid",
            ":80",
            ":443",
            "/",
            "HTTP/1.1",
            "\r\n",
            "\r",
            "\n",
            "\t",
        ),
        *(
            "Host: b",
            "Content-Length: 0",
            "Transfer-Encoding: chunked",
            "Range: bytes=0-1",
            "@",
            "#",
            "[::1]",
            "\0",
            "ÿ",
        ),
    ]
)


@given(
    st.one_of(
        st.lists(WORDS, max_size=12).map("".join),
        st.lists(WORDS, max_size=12).map(lambda words: "GET http://a.invalid/ HTTP/1.1\r\n" + "".join(words)),
    )
)
def test_whatever_goes_on_is_read_as_the_same_single_request(text: str) -> None:
    try:
        request = parse(text.encode("latin-1", "replace") + b"\r\n\r\n")
    except Malformed:
        return
    if request.tunnel:
        return
    sent = request.plain(absolute=True)
    assert sent.count(b"\r\n\r\n") == 1 and sent.endswith(b"\r\n\r\n")
    assert not set(sent.replace(b"\r\n", b"")) & set(b"\r\n\0")
    assert parse(sent) == request


# ── bounds ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_head_without_end_is_cut_off(script: Shell, serve: MakeServer) -> None:
    server = serve()
    finished = script(
        CLIENT
        + """
print(ask(b'GET http://127.0.0.1/ HTTP/1.1\\r\\nA: ' + b'a' * 200_000)[9:12])
""",
        egress=Egress(to(server)),
    )

    assert finished.output in (b"b'431'\n", b"b''\n")  # nothing where the rest of it met a closed connection
    assert server.heard == []


def test_slow_clients_keep_nobody_waiting_for_ever(script: Shell, serve: MakeServer) -> None:
    """More silent ones than there may be connections, one that drips, and then one that asks."""
    server = serve()
    finished = script(
        CLIENT
        + """
import threading, time
silent = [connect() for _ in range(9)]
def drip(client):
    try:
        for byte in b'GET http://127.0.0.1/ HTTP/1.1' * 100:
            client.send(bytes([byte]))
            time.sleep(0.05)
    except OSError:
        pass
threading.Thread(target=drip, args=(connect(),), daemon=True).start()
print(ask(f'GET http://127.0.0.1:{sys.argv[1]}/ HTTP/1.1\\r\\n\\r\\n'.encode())[-7:])
print(len([client for client in silent if answer(client)[9:12] in (b'408', b'')]))
""",
        str(server.port),
        egress=Egress(to(server), max_open=3, head_s=0.3),
    )

    assert finished.output == b"b'reached'\n9\n"


def test_a_silent_connection_ends(script: Shell, serve: MakeServer) -> None:
    server = serve(b"")  # never says a word, and goes on listening
    finished = script(
        CLIENT
        + """
print(ask(f'CONNECT 127.0.0.1:{sys.argv[1]} HTTP/1.1\\r\\n\\r\\n'.encode())[:12])
""",
        str(server.port),
        egress=Egress(to(server), idle_s=0.3),
    )

    assert finished.output == b"b'HTTP/1.1 200'\n"


def test_more_than_so_many_bytes_are_not_carried(script: Shell, serve: MakeServer) -> None:
    server = serve(b"x" * 5_000_000)
    finished = script(
        CLIENT
        + """
said = ask(f'GET http://127.0.0.1:{sys.argv[1]}/ HTTP/1.1\\r\\n\\r\\n'.encode())
print(0 < len(said) <= 1_000_000)
""",
        str(server.port),
        egress=Egress(to(server), max_bytes=1_000_000),
    )

    assert finished.output == b"True\n"
    assert "more than 1000000 bytes" in str(finished.refused[0])


def test_a_command_that_is_over_leaves_no_connection(script: Shell, serve: MakeServer) -> None:
    """The fixture looks at our open files."""
    server = serve(b"")
    finished = script(
        CLIENT
        + """
made = [connect() for _ in range(20)]
for client in made[:10]:
    client.sendall(f'CONNECT 127.0.0.1:{sys.argv[1]} HTTP/1.1\\r\\n\\r\\n'.encode())
    assert established(client)
os._exit(3)
""",
        str(server.port),
        egress=Egress(to(server)),
    )

    assert finished.exit_code == 3, finished.output
