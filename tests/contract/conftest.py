"""What the contract with GitHub's own description is tested with."""

from __future__ import annotations

import pytest
from githubkit import GitHub

from tests.support.github_scene import Scene


@pytest.fixture
def client(scene: Scene) -> GitHub:
    """The real client, as the App's installation."""
    return scene.as_installation()
