"""Answers where it was asked: each conversation on lines that a job was about, and the reviewer, who is asked again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager

from agent.errors import OperatorError, UserError
from app import report
from app.jobs.types import AT_ONCE, Command, Word
from app.jobs.workflow import Work
from app.report import Closing, JobFacts
from app.steps.asked import Asked, asked_for
from app.steps.remarks import asked_on
from app.steps.site import Site

_log = logging.getLogger(__name__)


async def answer(site: Site, work: Work, facts: JobFacts, closing: Closing) -> bool:
    """Once in each conversation, however often this is called; what is retried, where it was asked at first.

    Returns:
        Whether it stands in all of them now; false where there is none.
    """
    command = work.job.command
    if command.word is Word.RETRY:
        asked = asked_for(work.job, await work.of_issue())
        command = asked.command if isinstance(asked, Asked) else command
    if command.line_comment_id is None and (command.review_id is None or command.word in _NOT_ABOUT_LINES):
        return False
    told = False
    with _courtesy(work):
        told = await _on_lines(site, work, command, facts, closing)
    if command.review_id is not None and _commit(work):
        await work.check()
        with _courtesy(work):
            await site.repository(command).ask_for_review(command.number, command.requester)
    return told


_NOT_ABOUT_LINES = AT_ONCE | {Word.UNDO}
"""Words that have nothing to do with what else their review says."""


async def _on_lines(site: Site, work: Work, command: Command, facts: JobFacts, closing: Closing) -> bool:
    repository = site.repository(command)
    found = await repository.line_comments(command.number)
    marker = report.line_marker(facts)
    answered = {one.first for one in found if one.user.is_bot and one.body.startswith(marker)}
    places = {one.first: one.path for one in reversed(asked_on(command, found))}
    result = await asyncio.to_thread(site.files.told_result, work.job.id)
    changed = {change.path for change in result.change_set.changes} if result and result.change_set else None
    for first in sorted(places.keys() - answered):
        path, comment_id = places[first], work.job.artefacts.comment_id
        touched = None if changed is None else path in changed
        text = report.line_answer(facts, closing, path, comment_id, _commit(work), changed=touched)
        await work.check()
        with _courtesy(work):
            await repository.answer_on_lines(command.number, first, text)
            answered.add(first)
    return bool(places) and places.keys() <= answered


def _commit(work: Work) -> str:
    """What the job has added to the pull request where it was asked; empty where it has added nothing."""
    made = work.job.artefacts
    return str(made.commit_sha or "") if made.pull_number == work.job.command.number else ""


@contextmanager
def _courtesy(work: Work) -> Iterator[None]:
    """What GitHub does not let us say here, the status comment tells all the same."""
    try:
        yield
    except (UserError, OperatorError) as error:
        _log.info("job %s: %s", work.job.id, error)
