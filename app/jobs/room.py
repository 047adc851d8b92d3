"""How many jobs may wait: of a repository, and of one person in it. No I/O.

Anybody can comment on a public repository, and whether they may command us is only asked in the job. So one person must
not be able to fill the repository's queue.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable

from app.jobs.types import Command

_COUNT_EVERY_S = 1.0  # other processes admit too, and jobs end: between counts only what we admitted is known


class Room:
    """Keeps count between two looks into the database. Not thread-safe.

    Args:
        repository: unfinished jobs of one repository, of each queue: a ``stop`` must get through when nothing else
            does.
        person: those of them that one person asked for.
    """

    def __init__(self, repository: int = 500, person: int = 50) -> None:
        self._repository, self._person = repository, person
        self._waiting: Counter[tuple[object, ...]] = Counter()
        self._counted_at = float("-inf")

    @property
    def outdated(self) -> bool:
        return time.monotonic() - self._counted_at > _COUNT_EVERY_S

    def counted(self, rows: Iterable[tuple[int, str, int, int]]) -> None:
        """Start again from the truth.

        Args:
            rows: repository id, queue, requester id, unfinished jobs.
        """
        self._waiting.clear()
        for repository, queue, person, jobs in rows:
            self._waiting[repository, queue] += jobs
            self._waiting[repository, queue, person] += jobs
        self._counted_at = time.monotonic()

    def take(self, command: Command) -> bool:
        """Take one job's place; false when there is none."""
        whole = (command.repository_id, command.queue.value)
        own = (*whole, command.requester_id)
        free = self._waiting[whole] < self._repository and self._waiting[own] < self._person
        if free:
            self._waiting[whole] += 1
            self._waiting[own] += 1
        return free
