"""Whatever moment the whole service is killed at: one branch, one commit, one pull request, one status comment."""

from __future__ import annotations

import random
import time
from collections import Counter
from pathlib import Path

import pytest

from agent.types import Outcome
from app.devhub.devhub import DevHub
from app.devhub.repo import Repo
from app.jobs.types import JobState
from tests.flow.world import BUG, FILES, World, fixing, wait_until, world

KILLS = 30
REPOSITORIES = 3
SEED = 20261129
STAGES = ("authorise", "acknowledge", "prepare", "run", "authorise again", "publish", "close out")


@pytest.mark.timeout(900)
def test_random_kills_lose_and_double_nothing(devhub: DevHub, app_key: str, open_tmp_path: Path) -> None:
    script = {"sessions": [fixing("fix", BUG)]}
    chance = random.Random(SEED)
    with world(open_tmp_path, devhub, script, app_key) as made:
        repos = [made.repository(f"killed-{n}", {**FILES, "number.txt": str(n)}) for n in range(REPOSITORIES)]
        labelled = [_label(made, repo) for repo in repos]
        killed_in: Counter[str] = Counter()
        for kill in range(KILLS):
            if kill % 6 == 5:  # more work comes in while it is down; GitHub delivers again on request
                labelled.append(_label(made, chance.choice(repos)))
            if chance.random() < 0.1:
                time.sleep(chance.uniform(0, 1.0))  # it may not even be up
            else:
                made.service.wait_ready()
                _deliver_what_was_missed(made)
                _wait_for_stage(made, chance.choice(STAGES))
                time.sleep(chance.choice((0.05, 0.5, 2.0)) * chance.random())
            killed_in.update({job.stage for job in made.jobs() if job.state is JobState.RUNNING})
            made.service.kill()
            made.service.start(ready=False)
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
        print(f"{KILLS} kills, {len(jobs)} jobs, stages at the time: {dict(killed_in)}")


def _wait_for_stage(made: World, stage: str, patience_s: float = 30.0) -> None:
    """Until some job is in ``stage``; not for ever, because all may be past it."""
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        running = [job for job in made.jobs() if job.state is not JobState.DONE]
        if not running or any(job.stage == stage for job in running):
            return
        time.sleep(0.01)


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
