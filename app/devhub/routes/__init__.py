"""The operations, one file a group; each file ends in its table."""

from __future__ import annotations

from app.devhub.rest import Operation
from app.devhub.routes import apps, commits, gitdata, issues, meta, pulls, repositories

OPERATIONS: tuple[Operation, ...] = (
    *meta.OPERATIONS,
    *apps.OPERATIONS,
    *repositories.OPERATIONS,
    *issues.OPERATIONS,
    *pulls.OPERATIONS,
    *gitdata.OPERATIONS,
    *commits.OPERATIONS,
)
