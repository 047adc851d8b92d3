"""Fixtures for every suite."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.devhub.devhub import DevHub, new_key
from app.devhub.serving import serving


@pytest.fixture(scope="session")
def app_key() -> str:
    """One private key for all Apps of a session, because making one takes a while."""
    return new_key()


@pytest.fixture
def devhub(tmp_path: Path) -> Iterator[DevHub]:
    """A running stand-in for GitHub, empty, on a free port of this machine."""
    hub = DevHub(tmp_path / "devhub")
    with serving(hub):
        yield hub
    hub.close()
