from __future__ import annotations

from tests.unit.loop.conftest import converse  # noqa: F401
from tests.unit.tools.conftest import base, context, index  # noqa: F401
