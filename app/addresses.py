"""Where a GitHub is: its web pages, its API, and who signs the identity tokens of its workflows.

There are three kinds: github.com, Enterprise Cloud with data residency (``NAME.ghe.com``), and an Enterprise Server.
Sources: https://docs.github.com/en/enterprise-cloud@latest/admin/data-residency,
https://docs.github.com/en/enterprise-server@latest/rest/quickstart and
https://docs.github.com/en/enterprise-server@latest/actions/reference/security/oidc.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from agent.outside import is_this_machine


@dataclass(frozen=True)
class GitHubAddresses:
    """URLs without a slash at their end."""

    web: str
    """Where people and git go."""
    api: str
    issuer: str
    """Of identity tokens; an enterprise can have its own name put after it."""

    @property
    def graphql(self) -> str:
        """An Enterprise Server has it beside its REST API, not below."""
        base = self.api.removesuffix("/v3") if self.api.endswith("/api/v3") else self.api
        return f"{base}/graphql"


PUBLIC = GitHubAddresses("https://github.com", "https://api.github.com", "https://token.actions.githubusercontent.com")


def by_web(url: str) -> GitHubAddresses:
    """Those of the GitHub whose pages are at ``url``."""
    scheme, _, host = url.partition("://")
    if url == PUBLIC.web:
        return PUBLIC
    if host.endswith(".ghe.com"):
        return GitHubAddresses(url, f"{scheme}://api.{host}", f"{scheme}://token.actions.{host}")
    return GitHubAddresses(url, f"{url}/api/v3", f"{url}/_services/token")


def by_api(url: str) -> GitHubAddresses:
    """Those of the GitHub whose API is at ``url``."""
    scheme, _, host = url.partition("://")
    if url == PUBLIC.api:
        return PUBLIC
    if host.startswith("api.") and host.endswith(".ghe.com"):
        return by_web(f"{scheme}://{host.removeprefix('api.')}")
    return replace(by_web(url.removesuffix("/api/v3")), api=url)


def web_url(value: str, name: str) -> str:
    """``value`` without a slash at its end, its host in lower case.

    Args:
        name: of the setting or option, for messages.

    Raises:
        ValueError: it is no URL, or holds a password.
    """
    url = urlsplit(value)
    if url.scheme not in ("http", "https") or not url.hostname:
        raise ValueError(f"{name} must be a URL such as https://example.org")
    if url.username or url.password:
        raise ValueError(f"{name} must not hold a user name or password")
    return url._replace(netloc=url.netloc.lower()).geturl().rstrip("/")


def safe_url(value: str, name: str) -> str:
    """As :func:`web_url`, for where tokens travel to.

    Raises:
        ValueError: also for plain HTTP to another machine.
    """
    value = web_url(value, name)
    if value.startswith("http:") and not is_this_machine(value):
        raise ValueError(f"{name} must start with https://, because tokens travel to it")
    return value
