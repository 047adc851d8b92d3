"""Removes what nobody asks for any more. Never anything of a job that is not done."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Final

from app.aging import DAY_S, older, remove_old
from app.jobs.store import JobStore
from app.places import BRIEF, Places
from sandbox import remove_tree

_log = logging.getLogger(__name__)

_EVERY_S: Final = 3600.0
_BATCH: Final = 200


async def forever(store: JobStore, places: Places, keep_s: float) -> None:
    """Tidy up at once and then every hour."""
    while True:
        try:
            jobs = await asyncio.to_thread(tidy, store, places, keep_s)
            if jobs:
                _log.info("emptied the folders of %d jobs that were done for %d days", jobs, keep_s / DAY_S)
        except Exception:
            _log.exception("what is old was not removed")
        await asyncio.sleep(_EVERY_S)


def tidy(store: JobStore, places: Places, keep_s: float) -> int:
    """Empty the folders of jobs that have been done for ``keep_s`` seconds, and their deliveries; returns how many
    folders. The jobs' rows stay, and with them what they published and what it cost."""
    removed = 0
    folders = [path for path in places.jobs.glob("*") if older(path, keep_s)]
    for start in range(0, len(folders), _BATCH):
        batch = {path.name: path for path in folders[start : start + _BATCH]}
        for job_id in store.old(batch.keys(), keep_s):
            removed += _emptied(batch[job_id])
    remove_old(places.root / "local", keep_s)
    store.empty_deliveries(keep_s)
    return removed


def _emptied(folder: Path) -> bool:
    """Leaves the brief: a plan is approved for the text that was planned for, however late."""
    left = [path for path in folder.iterdir() if path.name != BRIEF]
    for path in left:
        remove_tree(path)
    return bool(left)
