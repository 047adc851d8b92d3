"""Fixtures for every suite."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from agent.git import Git
from app.devhub.devhub import DevHub, new_key
from app.devhub.hub import API
from app.devhub.serving import serving
from tests.support import fetch_descriptions
from tests.support.environment import make_environment
from tests.support.github_scene import Scene, set_up
from tests.support.openapi import Checked, Description
from tests.support.receiver import Receiver, receiving
from tests.support.repository import Repository

# How fast a machine is proves nothing, and one test's examples may share what was made for it.
settings.register_profile(
    "ours", deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
settings.load_profile("ours")

UNCHECKED = pytest.StashKey[str]()


@pytest.fixture(scope="session")
def app_key() -> str:
    """One private key for all Apps of a session, because making one takes a while."""
    return new_key()


@pytest.fixture(scope="session")
def interpreter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python that has pytest."""
    return make_environment(tmp_path_factory.mktemp("environment")) / "bin" / "python3"


@pytest.fixture(scope="session")
def github_description(pytestconfig: pytest.Config) -> Description | None:
    """GitHub's own description; ``None`` where it can't be had, which the summary says."""
    try:
        return Description(fetch_descriptions.API.path())
    except fetch_descriptions.Missing as missing:
        pytestconfig.stash[UNCHECKED] = str(missing)
        return None


@pytest.fixture
def github_checks(github_description: Description | None) -> Iterator[Checked]:
    """What the traffic of this test is checked with. What is not allowed fails the test that caused it."""
    checked = Checked(github_description, API)
    yield checked
    assert not checked.violations, "\n".join(checked.violations)


@pytest.fixture
def devhub(tmp_path: Path, github_checks: Checked) -> Iterator[DevHub]:
    """A running stand-in for GitHub, empty, on a free port of this machine; all its traffic is checked."""
    hub = DevHub(tmp_path / "devhub")
    with serving(hub, middleware=github_checks.wrap):
        yield hub
    hub.close()


@pytest.fixture
def scene(devhub: DevHub, app_key: str) -> Scene:
    """``acme/widget`` on the stand-in, with an App that is installed there."""
    return set_up(devhub, app_key)


@pytest.fixture
def origin(tmp_path: Path) -> Repository:
    """An empty repository, as a person has it."""
    return Repository(tmp_path / "origin")


@pytest.fixture
def git(tmp_path: Path) -> Iterator[Git]:
    """An empty repository of our own, to fetch into."""
    with Git.init(tmp_path / "own.git") as git:
        yield git


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A place for webhooks to go."""
    with receiving() as found:
        yield found


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    reason = config.stash.get(UNCHECKED, "")
    if reason:
        terminalreporter.write_line(f"Traffic with the stand-in for GitHub was not checked: {reason}", yellow=True)
