"""Has package clients take nothing that is newer than a day, so that an old commit gets what there was then. Pure.

pip knows this since version 26, so a virtual environment gets a newer one first; uv and npm know it for long. All ask
the index when a file was uploaded; what lies in a folder has no such day, and pip takes it.

What builds the project is the newest all the same, and the test runner is not older than ``_SUITS``: those of the time
know nothing of the interpreter of today.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from agent.verify.toolchains.base import VENV, Step

_NEWER_PIP: Final = (f"{VENV}/bin/python", "-m", "pip", "install", "--no-input", "--quiet", "--upgrade", "pip>=26")


_SUITS: Final = "2023-12-01"
"""A runner of this day knows the interpreters up to Python 3.12, and what was usual for years before."""


def dated(steps: Sequence[Step], before: str) -> tuple[Step, ...]:
    """``steps`` as on the day ``before`` (``YYYY-MM-DD``); as they are where it is empty."""
    if not before:
        return tuple(steps)
    bare = tuple(itertools.takewhile(lambda step: step.bare, steps))
    newer = (Step(_NEWER_PIP, reads=frozenset()),) if bare else ()
    rest = steps[len(bare) :]
    runners = [_of(step, max(before, _SUITS)) for step in rest if _runs_tests(step)]  # first: it is not replaced then
    return (*bare, *newer, *runners, *(_dated(step, before) for step in rest if not _runs_tests(step)))


def _runs_tests(step: Step) -> bool:
    return step.tools and step.required


def _dated(step: Step, before: str) -> Step:
    """What the project needs comes before the project itself, which then takes it as it is."""
    return step if step.tools else replace(_of(step, before), ahead=False)


def _of(step: Step, day: str) -> Step:
    return replace(step, env={**step.env, **_env(day)})


def _env(day: str) -> Mapping[str, str]:
    midnight = f"{day}T00:00:00Z"
    return {"PIP_UPLOADED_PRIOR_TO": midnight, "UV_EXCLUDE_NEWER": midnight, "npm_config_before": midnight}
