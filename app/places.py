"""Folders under the state folder: where they are, who may write to them, and when they go."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from agent.disk import scatter
from agent.types import Outcome
from app.jobs.store import LeaseLost
from app.runners.local import result_of
from sandbox import SandboxError, remove_tree

BRIEF = "brief.json"
"""In a job's folder: what it was asked, as it was then."""


@dataclass(frozen=True)
class Places:
    """Others may pass through to a checkout, but not look around."""

    root: Path

    @property
    def jobs(self) -> Path:
        return self.root / "jobs"

    def prepare(self) -> None:
        """Make the folder of the jobs; each job will lie apart from the others on the disk."""
        scatter(self._made(self.jobs))

    def job(self, job_id: str) -> Path:
        return self._made(self.jobs / job_id)

    def run(self, job_id: str, number: int) -> Path:
        """The latest attempt at a run of a job: a link."""
        return self.job(job_id) / f"run-{number}"

    def attempt(self, job_id: str, number: int, fence: int) -> Path:
        """The folder in which the holder of a lease carries a run out; that of an earlier one when it has a result.

        Each holder has one of its own: the process of a worker that was fenced off may still be writing to its.

        Raises:
            LeaseLost: a later holder has begun.
        """
        latest = self.run(job_id, number)
        result = result_of(latest)
        if result is not None and result.outcome is not Outcome.CANCELLED:
            return latest.resolve()
        if any(of > fence for of, _ in _attempts(latest)):
            raise LeaseLost(job_id)
        own = self._made(latest.with_name(f"{latest.name}.{fence}"))
        _lead(latest, own)
        for of, folder in _attempts(latest):
            if of < fence:
                with suppress(OSError, SandboxError):  # its holder may be at work there still
                    remove_tree(folder)
        return own

    @property
    def cache(self) -> Path:
        return self._made(self.root / "cache")

    def _made(self, path: Path) -> Path:
        for place in (path.parent, path):  # ``parents=True`` would make those above with the usual mode
            place.mkdir(exist_ok=True, mode=0o711)
        return path


def _attempts(latest: Path) -> Iterator[tuple[int, Path]]:
    """(fence, folder)."""
    for folder in list(latest.parent.glob(f"{latest.name}.*")):
        if folder.suffix[1:].isdigit():
            yield int(folder.suffix[1:]), folder


def _lead(link: Path, folder: Path) -> None:
    if link.is_dir() and not link.is_symlink():  # from a version that had no attempts
        link.rename(link.with_name(f"{link.name}.0"))
    beside = folder.with_name(f".{folder.name}")
    beside.unlink(missing_ok=True)
    beside.symlink_to(folder.name)
    beside.replace(link)
