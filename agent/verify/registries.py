"""Where the set-up phase may fetch packages from: this machine's own registry settings, without any credential. Pure.

The values are read by the caller. The set-up runs code of strangers (build scripts), so an address that carries a
password, or a key for a registry, is not handed over; and nothing is in reach but the registries: those that the
settings name, and where they name none those that the clients come with.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from agent.verify.documents import ini_of
from sandbox.egress.policy import Destination, Egress
from sandbox.types import Mount

# Variables of package clients that say where and how to fetch; nothing else passes.
_VARIABLES: Final = re.compile(
    r"PIP_(INDEX_URL|EXTRA_INDEX_URL|FIND_LINKS|NO_INDEX|TRUSTED_HOST|CERT|PROXY|CONSTRAINT|DEFAULT_TIMEOUT|RETRIES|PREFER_BINARY)"
    r"|UV_(INDEX_URL|EXTRA_INDEX_URL|DEFAULT_INDEX|INDEX|FIND_LINKS|NATIVE_TLS)"
    r"|npm_config_(registry|cafile|proxy|https_proxy|noproxy|strict_ssl)"
    r"|(GOPROXY|GOSUMDB|GONOSUMDB|GONOSUMCHECK|GOFLAGS)"
    r"|CARGO_(HTTP_CAINFO|HTTP_PROXY|REGISTRIES_[A-Z0-9_]+_INDEX)"
    r"|(https?|HTTPS?|no|NO)_(proxy|PROXY)"
    r"|(SSL_CERT_FILE|SSL_CERT_DIR|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE|NODE_EXTRA_CA_CERTS)"
    r"|GRAFTSMITH_EGRESS_ALLOW|GRAFTSMITH_CLIENT_DEFAULTS|npmrc"
)
ALLOW: Final = "GRAFTSMITH_EGRESS_ALLOW"
"""The operator's own list of further places: ``host:port``, separated by commas."""
# This machine's way out, the first that is set; inside the sandbox there is another one.
_PROXIES: Final = (
    *("https_proxy", "HTTPS_PROXY", "http_proxy", "HTTP_PROXY", "PIP_PROXY", "npm_config_https_proxy"),
    *("npm_config_proxy", "CARGO_HTTP_PROXY"),
)
_EXCEPTIONS: Final = ("no_proxy", "NO_PROXY", "npm_config_noproxy")
CLIENTS: Final = "GRAFTSMITH_CLIENT_DEFAULTS"
"""What the clients of this machine come with, as ``told`` writes it."""
# The settings that take the place of what a client comes with.
_INSTEAD: Final[Mapping[str, str]] = {
    "pip": r"PIP_INDEX_URL|UV_(INDEX_URL|DEFAULT_INDEX)",
    "npm": r"npm_config_registry",
    "go": r"GOPROXY",
    "go sums": r"GOSUMDB",
}
_HIDDEN: Final = "(left out)"
_PIP_OPTIONS: Final = (
    "index-url",
    "extra-index-url",
    "find-links",
    "no-index",
    "trusted-host",
    "cert",
    "proxy",
    "constraint",
)
_NPM_OPTIONS: Final = ("registry", "cafile", "proxy", "https-proxy", "noproxy", "strict-ssl")


@dataclass(frozen=True)
class Registries:
    """Environment, read-only mounts and the way out of the set-up phase."""

    env: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    egress: Egress = field(default_factory=Egress)
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Settings that are not handed over (name → why)."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """All this as settings again, for ``of`` in another process. Without any credential."""

    @classmethod
    def of(cls, env: Mapping[str, str], *, pip_conf: str = "", npmrc: str = "") -> Registries:
        """From this machine's environment and the text of its ``pip.conf`` and ``.npmrc``.

        The environment wins over the files, as it does in the clients.
        """
        given = {name: value for name, value in env.items() if _VARIABLES.fullmatch(name)}
        found = {**dict(_from_pip(pip_conf)), **dict(_from_npm(npmrc)), **given}
        if re.search(r"(?im)_(auth|authtoken|password)\s*=", npmrc):
            found["npmrc"] = _HIDDEN
        secret = {name for name, value in found.items() if value == _HIDDEN or holds_credential(value)}
        kept = {name: value for name, value in found.items() if name not in secret and value}
        upstream, strange = _upstream(kept)
        inside = {n: v for n, v in kept.items() if n not in (*_PROXIES, *_EXCEPTIONS, ALLOW, CLIENTS)}
        return cls(
            env=inside,
            mounts=tuple(_mounts(inside)),
            egress=Egress(tuple(_allowed(inside, kept)), upstream, tuple(_exceptions(kept))),
            left_out={**dict.fromkeys(sorted(secret), "it holds a credential"), **strange},
            settings={**kept, **dict.fromkeys(secret, _HIDDEN)},
        )


def places(text: str) -> tuple[Destination, ...]:
    """Read a list as in ``ALLOW``; without a port it is that of HTTPS. Raises ValueError, for a person."""
    return tuple(_place(word, 443) for word in re.split(r"[\s,]+", text) if word)


def _place(word: str, port: int) -> Destination:
    try:
        parts = urlsplit(word if "://" in word else f"//{word}")
        host, port = parts.hostname or "", parts.port or port
    except ValueError as error:
        raise ValueError(f"{word!r} is not of the form host:port") from error
    if not re.fullmatch(r"[a-z0-9._:-]+", host) or "@" in parts.netloc or (parts.path and "://" not in word):
        raise ValueError(f"{word!r} is not of the form host:port")
    return Destination(host.rstrip("."), port, private=True)


def told(defaults: Mapping[str, Iterable[str]]) -> str:
    """Client → hosts that it comes with, as the value of ``CLIENTS``."""
    return ";".join(f"{client}={' '.join(hosts)}" for client, hosts in defaults.items())


def _allowed(settings: Mapping[str, str], kept: Mapping[str, str]) -> Iterator[Destination]:
    named = [place for value in settings.values() for place in _addresses(value)]
    yield from dict.fromkeys((*named, *places(kept.get(ALLOW, ""))))
    hosts = {place.host for place in named}
    for line in filter(None, kept.get(CLIENTS, "").split(";")):
        client, _, words = line.partition("=")
        defaults = words.split()
        instead = _INSTEAD.get(client, r"(?!)")
        if hosts & set(defaults) or not any(re.fullmatch(instead, name) for name in settings):
            yield from (Destination(host, 443) for host in defaults)


def _addresses(value: str) -> Iterator[Destination]:
    for url in re.findall(r"(?i)\bhttps?://[^\s,|\"']+", value):
        with suppress(ValueError):  # no client can use it either
            yield _place(url, 80 if url.lower().startswith("http:") else 443)


def _upstream(settings: Mapping[str, str]) -> tuple[Destination | None, Mapping[str, str]]:
    """This machine's own proxy, or why it can't be used."""
    name = next((name for name in _PROXIES if name in settings), None)
    if name is None:
        return None, {}
    value = settings[name]
    try:
        return _place(value if value.lower().startswith("http://") or "://" not in value else "", 80), {}
    except ValueError:
        return None, {name: "only a proxy at http://host:port can be asked"}


def _exceptions(settings: Mapping[str, str]) -> Iterator[str]:
    value = next((settings[name] for name in _EXCEPTIONS if name in settings), "")
    words = (word.strip().lower().lstrip(".") for word in value.split(","))
    return (word.partition(":")[0] for word in words if word)


def holds_credential(value: str) -> bool:
    """Whether one of the addresses in ``value`` carries a user or a password."""
    for word in re.split(r"[\s,|]+", value):
        if "://" in word:
            try:
                parts = urlsplit(word)
                if parts.username is not None or parts.password is not None:
                    return True
            except ValueError:
                return True
    return False


def _from_pip(text: str) -> Iterator[tuple[str, str]]:
    said = ini_of(text)
    for settings in (said.get("global", {}), said.get("install", {})):
        for option in _PIP_OPTIONS:
            if option in settings:
                yield f"PIP_{option.upper().replace('-', '_')}", " ".join(settings[option].split())


def _from_npm(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        key, found, value = (part.strip() for part in line.partition("="))
        if found and key in _NPM_OPTIONS:
            yield f"npm_config_{key.replace('-', '_')}", value


def _mounts(settings: Mapping[str, str]) -> Iterator[Mount]:
    """Files and folders of this machine that the settings name: certificates, local wheels, ``file:`` indexes."""
    seen = set()
    for value in settings.values():
        for word in re.split(r"[\s,|]+", value):
            path = _index_root(unquote(urlsplit(word).path)) if word.startswith("file:") else word
            if path.startswith("/") and path != "/" and path not in seen and Path(path).exists():
                seen.add(path)
                yield Mount(Path(path), path)


def _index_root(path: str) -> str:
    """The folder of a ``file:`` index: its pages lie in ``simple/`` and link to packages beside that (PEP 503)."""
    root, _, last = path.rstrip("/").rpartition("/")
    return root if last == "simple" and root.count("/") > 1 else path
