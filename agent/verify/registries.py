"""Where the set-up phase may fetch packages from: this machine's own registry settings, without any credential. Pure.

The values are read by the caller. The set-up runs code of strangers (build scripts), so an address that carries a
password, or a key for a registry, is not handed over.
"""

from __future__ import annotations

import configparser
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

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
)
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
    """Environment and read-only mounts of the set-up phase."""

    env: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    refused: tuple[str, ...] = ()
    """Names of the settings that were left out because they hold a credential."""

    @classmethod
    def of(cls, env: Mapping[str, str], *, pip_conf: str = "", npmrc: str = "") -> Registries:
        """From this machine's environment and the text of its ``pip.conf`` and ``.npmrc``.

        The environment wins over the files, as it does in the clients.
        """
        given = {name: value for name, value in env.items() if _VARIABLES.fullmatch(name)}
        settings = {**dict(_from_pip(pip_conf)), **dict(_from_npm(npmrc)), **given}
        secret = {name for name, value in settings.items() if holds_credential(value)}
        secret |= {"npmrc" for _ in re.finditer(r"(?im)_(auth|authtoken|password)\s*=", npmrc)}
        kept = {name: value for name, value in settings.items() if name not in secret and value}
        return cls(kept, tuple(_mounts(kept)), tuple(sorted(secret)))


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
    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read_string(text)
    except configparser.Error:
        return
    for section in ("global", "install"):
        for option in _PIP_OPTIONS:
            if parser.has_option(section, option):
                yield f"PIP_{option.upper().replace('-', '_')}", " ".join(parser.get(section, option).split())


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
