"""Reads the head of a proxy request. Pure.

Strict on purpose: whatever two programs could read in two ways is refused, and what goes on is written anew, so that
the next server sees one request and no other (RFC 9112, sections 3.2 and 11.2).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from sandbox.egress.policy import Destination

_HOST: Final = r"(?:\[(?P<v6>[0-9A-Fa-f:.]{2,45})\]|(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]{0,252}[A-Za-z0-9_])?)\.?)"
_AUTHORITY: Final = re.compile(rf"{_HOST}:(?P<port>\d{{1,5}})")
_URL: Final = re.compile(rf"http://{_HOST}(?::(?P<port>\d{{1,5}}))?(?P<path>/[!-~]*)?", re.IGNORECASE)
_LINE: Final = re.compile(r"(?P<method>[A-Z]{3,16}) (?P<target>[!-~]+) HTTP/1\.[01]")
_FIELD: Final = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([ -~\t\x80-\xff]*?)[ \t]*")
# Of a plain request, these go on; the others speak of the connection, of a body, or of whoever asks.
_KEPT: Final = frozenset(
    {
        *("accept", "accept-encoding", "accept-language", "cache-control", "if-match", "if-modified-since"),
        *("if-none-match", "if-range", "if-unmodified-since", "pragma", "range", "user-agent"),
    }
)


class Malformed(Exception):
    """It can't be read, or not in one way only."""


@dataclass(frozen=True)
class Request:
    """What a client asks of the proxy: a tunnel, or one resource by plain HTTP."""

    host: str
    port: int
    resource: str = ""
    """Method, path and kept fields of a plain request; empty for a tunnel."""
    path: str = ""
    fields: str = ""

    @property
    def tunnel(self) -> bool:
        return not self.path

    def plain(self, *, absolute: bool) -> bytes:
        """The request for the server itself, or for another proxy. The connection ends with its answer."""
        place = str(Destination(self.host, self.port))
        target = f"http://{place}{self.path}" if absolute else self.path
        text = f"{self.resource} {target} HTTP/1.1\r\nHost: {place.removesuffix(':80')}\r\n{self.fields}"
        return f"{text}Connection: close\r\n\r\n".encode("latin-1")


def parse(head: bytes) -> Request:
    """Read a head, its empty line included. Raises Malformed."""
    lines = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    line = _LINE.fullmatch(lines[0])
    if line is None:
        raise Malformed("the request line can't be read")
    fields = [_field(text) for text in lines[1:]]
    if line["method"] == "CONNECT":
        return _tunnel(line["target"])
    if line["method"] not in ("GET", "HEAD"):
        raise Malformed(f"only GET and HEAD go over plain HTTP, not {line['method']}")
    if any(name == "transfer-encoding" or (name == "content-length" and value != "0") for name, value in fields):
        raise Malformed("a request with a body does not go over plain HTTP")
    return _plain(line["method"], line["target"], "".join(_kept(fields)))


def _field(text: str) -> tuple[str, str]:
    found = _FIELD.fullmatch(text)
    if found is None:
        raise Malformed("a header field can't be read")
    return found[1].lower(), found[2]


def _kept(fields: list[tuple[str, str]]) -> Iterator[str]:
    return (f"{name}: {value}\r\n" for name, value in fields if name in _KEPT)


def _tunnel(target: str) -> Request:
    found = _AUTHORITY.fullmatch(target)
    if found is None:
        raise Malformed("CONNECT needs a host and a port")
    return Request(_host(found), _port(found["port"]))


def _plain(method: str, target: str, fields: str) -> Request:
    found = _URL.fullmatch(target)
    if found is None:
        raise Malformed("a proxy needs the whole address, http:// first, without user or password")
    return Request(_host(found), _port(found["port"] or "80"), method, found["path"] or "/", fields)


def _host(found: re.Match[str]) -> str:
    return str(found["v6"] or found["name"]).lower()


def _port(text: str) -> int:
    port = int(text)
    if not 0 < port < 65536:
        raise Malformed(f"there is no port {port}")
    return port
