"""Where a command may go, as data, and what follows from it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final

from sandbox.errors import SandboxError

# Written out, because ``is_global`` also calls networks private in which nothing of anybody's can be (examples in
# documents). Source: IANA's special-purpose address registries; 168.63.129.16 is the host agent of a large cloud.
_CLOSED: Final = tuple(
    (ip_network(network), what)
    for what, networks in {
        "an address of this machine": ("0.0.0.0/8", "127.0.0.0/8", "::/128", "::1/128"),
        "a link-local address, where clouds keep credentials": ("169.254.0.0/16", "168.63.129.16/32", "fe80::/10"),
        "a private address": (
            *("10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.0.0.0/24", "192.168.0.0/16", "198.18.0.0/15"),
            *("fc00::/7", "fec0::/10"),
        ),
        "no address of one machine": ("224.0.0.0/4", "240.0.0.0/4", "ff00::/8", "100::/64"),
    }.items()
    for network in networks
)
_TRANSLATED: Final = tuple(map(ip_network, ("64:ff9b::/96", "64:ff9b:1::/48", "::/96")))


@dataclass(frozen=True)
class Destination:
    """A host, as a client writes it (lower case, no brackets, no final dot), and a port."""

    host: str
    port: int
    private: bool = False
    """The operator named this very host, so it may be on this machine or in a private network."""

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True)
class Egress:
    """What a command may reach. Everything else is refused."""

    allowed: tuple[Destination, ...] = ()
    upstream: Destination | None = None
    """This machine's own way out, an HTTP proxy, ``private`` as a rule. It resolves the names then, and where they lead
    can't be looked at here."""
    direct: tuple[str, ...] = ()
    """Hosts and domains that are reached without ``upstream``."""
    max_bytes: int = 8 * 1024**3
    """Both ways together, of one command."""
    max_open: int = 64
    """Connections at the same time; more of them wait."""
    head_s: float = 10.0
    """In which a client has to say what it wants."""
    connect_s: float = 15.0
    idle_s: float = 120.0

    def find(self, host: str, port: int) -> Destination:
        """The place that may be reached under this name. Raises Refused."""
        found = [place for place in self.allowed if (place.host, place.port) == (host, port)]
        if not found:
            raise Refused(Refusal(host, port, "it is none of the places that are allowed"))
        return max(found, key=lambda place: place.private)

    def way_to(self, place: Destination) -> Destination | None:
        """The proxy to ask for ``place``; ``None``: none."""
        direct = any(place.host == name or place.host.endswith(f".{name}") for name in self.direct)
        return None if direct or "*" in self.direct else self.upstream


@dataclass(frozen=True)
class Refusal:
    """One place that was not reached."""

    host: str
    port: int
    why: str

    def __str__(self) -> str:
        return f"{Destination(self.host, self.port)} was refused: {self.why}"


class Refused(SandboxError):
    """The policy says no."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(str(refusal))
        self.refusal = refusal


def check_address(place: Destination, address: str) -> None:
    """Raise Refused when a name that anybody may have chosen leads to this machine or into a private network."""
    why = "" if place.private else _closed(address)
    if why:
        raise Refused(Refusal(place.host, place.port, f"its address {address} is {why}"))


def _closed(address: str) -> str:
    found = ip_address(address.partition("%")[0])
    for inner in (found, *_inside(found)):
        for network, what in _CLOSED:
            if inner in network:
                return what
    return ""


def _inside(address: IPv4Address | IPv6Address) -> tuple[IPv4Address, ...]:
    """IPv4 addresses that an IPv6 one stands for."""
    if isinstance(address, IPv4Address):
        return ()
    found = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    if any(address in network for network in _TRANSLATED):
        found.append(IPv4Address(int(address) & 0xFFFFFFFF))
    return tuple(inner for inner in found if inner is not None)


def variables(egress: Egress, port: int) -> Mapping[str, str]:
    """How programs inside find the way out, which is at ``port`` of their own loopback.

    The JVM reads no such variables, only properties of its own; Yarn from its second version on has its own two.
    """
    url = f"http://127.0.0.1:{port}"
    named = {place.host for place in egress.allowed}
    inside = [host for host in ("localhost", "127.0.0.1", "::1") if host not in named]
    java = [f"-D{kind}.proxy{key}" for kind in ("http", "https") for key in ("Host=127.0.0.1", f"Port={port}")]
    return {
        **{
            name: url for kind in ("http_proxy", "https_proxy") for name in (kind, kind.upper(), f"YARN_{kind.upper()}")
        },
        **{name: ",".join(inside) for name in ("no_proxy", "NO_PROXY")},
        "JAVA_TOOL_OPTIONS": " ".join((*java, f"-Dhttp.nonProxyHosts={'|'.join(inside)}")),
    }
