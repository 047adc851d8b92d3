"""One world for all flow tests of a worker: starting a service takes longer than most of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.devhub.devhub import DevHub
from app.devhub.hub import API
from app.devhub.serving import serving
from tests.flow.scripts import SCRIPT
from tests.flow.world import World, world
from tests.support.openapi import Checked, Description


@pytest.fixture(scope="session")
def shared_checks(github_description: Description | None) -> Checked:
    return Checked(github_description, API)


def _opened(folder: Path) -> Path:
    """The sandbox's own user has to pass through to its checkouts; pytest's folders are closed to others."""
    for place in (folder, *folder.parents):
        if "pytest" in str(place):
            place.chmod(0o755)
    return folder


@pytest.fixture
def open_tmp_path(tmp_path: Path) -> Path:
    return _opened(tmp_path)


@pytest.fixture(scope="session")
def shared_world(tmp_path_factory: pytest.TempPathFactory, shared_checks: Checked, app_key: str) -> Iterator[World]:
    folder = _opened(tmp_path_factory.mktemp("world"))
    hub = DevHub(folder / "hub")
    with serving(hub, middleware=shared_checks.wrap), world(folder, hub, SCRIPT, app_key) as made:
        yield made
    hub.close()


@pytest.fixture
def flow(shared_world: World, shared_checks: Checked) -> Iterator[World]:
    """The shared world; a request or an answer that GitHub would not know fails the test that caused it."""
    before = len(shared_checks.violations)
    yield shared_world
    assert not shared_checks.violations[before:], "\n".join(shared_checks.violations[before:])
