"""Whatever moment the whole service is killed at: one branch, one commit, one pull request, one status comment."""

from __future__ import annotations

import random
import time
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from agent.types import Outcome
from app.devhub.devhub import DevHub
from app.devhub.repo import Repo
from app.jobs.types import JobState
from tests.flow.world import BUG, FILES, World, fixing, wait_until, world

ROUNDS = 2
REPOSITORIES = 2
SEED = 20261129
STAGES = ("authorise", "acknowledge", "prepare", "run", "authorise again", "publish", "close out")


@pytest.mark.timeout(900)
def test_random_kills_lose_and_double_nothing(devhub: DevHub, app_key: str, open_tmp_path: Path) -> None:
    """In each round some job gets through each stage, and the service is killed at a random moment of it, and once more
    while it comes up again: thirty times in all. There always is work: all but the first comes while nobody takes
    deliveries."""
    script = {"sessions": [fixing("fix", BUG)]}
    chance = random.Random(SEED)
    labelled: list[tuple[Repo, int]] = []
    killed_in: Counter[str] = Counter()
    with world(open_tmp_path, devhub, script, app_key) as made:
        repos = [made.repository(f"killed-{n}", {**FILES, "number.txt": str(n)}) for n in range(REPOSITORIES)]
        for _ in range(ROUNDS):
            done = len(labelled)
            labelled += [_label(made, repo) for repo in repos]
            for stage in STAGES:
                made.service.wait_ready()
                _deliver_what_was_missed(made)
                reached = partial(_reached, made, stage, done)
                wait_until(reached, f"a job to be at {stage}", made.service, every_s=0.01)
                time.sleep(chance.choice((0.0, 0.05, 0.5)) * chance.random())
                killed_in.update({job.stage for job in made.jobs() if job.state is JobState.RUNNING})
                _killed_and_started(made)
                time.sleep(chance.uniform(0, 0.5))
                _killed_and_started(made)
            time.sleep(chance.uniform(0, 1.0))
            _killed_and_started(made)
        made.service.wait_ready()
        _deliver_what_was_missed(made)
        wait_until(lambda: _all_done(made, len(labelled)), "every job to end", made.service, timeout_s=300)

        jobs = made.jobs()
        assert len(jobs) == len(labelled), "one job for each label"
        assert {job.ending.outcome for job in jobs if job.ending} == {Outcome.PROPOSED}
        for repo, number in labelled:
            (told,) = made.told(repo, number)
            (pull,) = [p for p in made.pulls(repo) if f"Fixes #{number}" in (p.body or "")]
            assert f"#{pull.number}" in told
            assert len(pull.commits) == 1
        for repo in repos:
            own = [number for of, number in labelled if of is repo]
            assert len(repo.branches()) == 1 + len(own)
        print(f"{len(jobs)} jobs, stages at the time: {dict(killed_in)}")


def _killed_and_started(made: World) -> None:
    made.service.kill()
    made.service.start(ready=False)


def _reached(made: World, stage: str, done: int) -> bool:
    """Whether some job after the first ``done`` is in ``stage``, or was."""
    later = STAGES[STAGES.index(stage) :]
    return any(job.state is JobState.DONE or job.stage in later for job in made.jobs()[done:])


def _label(made: World, repo: Repo) -> tuple[Repo, int]:
    number = repo.open_issue(BUG, by="maria")
    repo.add_label(number, "agent", by="maria")
    return repo, number


def _deliver_what_was_missed(made: World) -> None:
    """GitHub does not repeat a failed delivery by itself: the operator redelivers, here at once."""
    made.hub.settle()
    taken = {d.guid for d in made.hub.deliveries("issues", "labeled") if d.status_code == 202}
    for guid in {d.guid for d in made.hub.deliveries("issues", "labeled")} - taken:
        made.hub.redeliver(guid)
    made.hub.settle()


def _all_done(made: World, count: int) -> bool:
    jobs = made.jobs()
    return len(jobs) >= count and all(job.state is JobState.DONE for job in jobs)
