from __future__ import annotations

from tests.unit.tools.conftest import base  # noqa: F401
