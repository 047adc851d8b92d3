"""The operations, one file a group; each file ends in its table."""

from __future__ import annotations

from app.devhub import manifests
from app.devhub.rest import Operation
from app.devhub.routes import (
    actions,
    apps,
    checks,
    commits,
    gitdata,
    issues,
    meta,
    pulls,
    repositories,
    reviews,
)

OPERATIONS: tuple[Operation, ...] = (
    *meta.OPERATIONS,
    *apps.OPERATIONS,
    *manifests.OPERATIONS,
    *repositories.OPERATIONS,
    *issues.OPERATIONS,
    *reviews.OPERATIONS,  # before pulls, whose numbers would match ``comments``
    *pulls.OPERATIONS,
    *gitdata.OPERATIONS,
    *checks.OPERATIONS,  # before commits, whose refs may have slashes
    *commits.OPERATIONS,
    *actions.OPERATIONS,
)
