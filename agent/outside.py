"""How this machine reaches others: its proxy, and the authorities that it trusts for TLS.

Both come from the variables that other clients read too: ``HTTPS_PROXY``, ``HTTP_PROXY``, ``ALL_PROXY``, ``NO_PROXY``;
``SSL_CERT_FILE``, ``SSL_CERT_DIR``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import cache
from ssl import SSLContext
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from agent.errors import OperatorError

_LOOPBACK = re.compile(r"localhost|127(\.\d+){3}|::1")
_SPOKEN = ("http", "https")
_PROXIES = [
    spelled for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY") for spelled in (name, name.lower())
]
_PATIENCE = {"http.lowSpeedLimit": "1", "http.lowSpeedTime": "60"}
"""Bytes a second, and for how many seconds: git itself waits for a server that says nothing for ever."""
_AUTHORITIES = {"http.sslCAInfo": "SSL_CERT_FILE", "http.sslCAPath": "SSL_CERT_DIR"}


def variables() -> Mapping[str, str]:
    """What of this process's environment says how others are reached, for a process that gets one of its own."""
    names = {variable: os.environ.get(variable, "") for variable in (*_PROXIES, *_AUTHORITIES.values())}
    return {name: value for name, value in names.items() if value}


def is_this_machine(url: str) -> bool:
    """Whether ``url`` stays on this machine; for a proxy, that would be another one."""
    return _LOOPBACK.fullmatch(urlsplit(url).hostname or "") is not None


def proxy_for(url: str) -> str | None:
    """The URL of the proxy that requests to ``url`` go through; it may hold a password. ``None``: they go straight.

    Raises:
        OperatorError: it is a proxy that not all of us can speak with.
    """
    parts = urlsplit(url)
    if is_this_machine(url) or proxy_bypass(parts.netloc):
        return None
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    kind = urlsplit(proxy).scheme if proxy else "http"
    if kind not in _SPOKEN:
        raise OperatorError(
            f"The way to {parts.hostname} leads through a proxy of the kind {kind!r}, which Graftsmith can't use",
            why="HTTPS_PROXY, HTTP_PROXY or ALL_PROXY names it",
            todo="Name an HTTP proxy (http://host:port) there, or the host in NO_PROXY if it is reached without one",
        )
    return proxy


@cache
def tls() -> SSLContext:
    """Made once in a process: to read the authorities takes longer than many a call."""
    import httpx  # the processes that only run git never need it

    return httpx.create_ssl_context()


def git_settings(url: str) -> Mapping[str, str]:
    """The same for git, whose environment is empty, as settings."""
    named = {setting: os.environ.get(variable, "") for setting, variable in _AUTHORITIES.items()}
    given = {setting: value for setting, value in named.items() if value}
    return {"http.proxy": proxy_for(url) or "", **_PATIENCE, **given}
