"""What a job is about, where its words speak of earlier jobs."""

from __future__ import annotations

from pathlib import Path

from app.jobs.store import JobStore
from app.jobs.tables import sqlite_url
from app.jobs.types import Ending, Word
from app.steps.asked import Asked, asked_for
from tests.unit.jobs.making import add, command


def test_what_is_retried_is_what_was_asked_with_the_review_that_asked(tmp_path: Path) -> None:
    store = JobStore(sqlite_url(tmp_path / "jobs.sqlite"))
    add(store, command(review_id=9, requester="lena"))
    add(store, command(word=Word.UNDO))
    first = add(store, command(word=Word.RETRY, text="retry with a loop"))
    second = add(store, command(word=Word.RETRY))
    for job, hint in ((first, "with a loop"), (second, "")):
        asked = asked_for(job, store.of_lane(job.command.issue))
        assert isinstance(asked, Asked)
        assert (asked.word, asked.command.review_id, asked.command.requester) == (Word.FIX, 9, "lena")
        assert asked.request == hint
    other = add(store, command(2, Word.RETRY))
    assert isinstance(asked_for(other, store.of_lane(other.command.issue)), Ending)
    store.close()
