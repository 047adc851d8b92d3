"""Has package clients take nothing that is newer than a day, so that an old commit gets what there was then. Pure.

pip knows this since version 26, so a virtual environment gets a newer one first; uv and npm know it for long. All ask
the index when a file was uploaded; what lies in a folder has no such day, and pip takes it.

Test runners and build backends are the newest all the same: those of the time know nothing of the interpreter of today.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from agent.verify.toolchains.base import VENV, Step

_NEWER_PIP: Final = (f"{VENV}/bin/python", "-m", "pip", "install", "--no-input", "--quiet", "--upgrade", "pip>=26")


def dated(steps: Sequence[Step], before: str) -> tuple[Step, ...]:
    """``steps`` as on the day ``before`` (``YYYY-MM-DD``); as they are where it is empty."""
    if not before:
        return tuple(steps)
    bare = tuple(itertools.takewhile(lambda step: step.bare, steps))
    newer = (Step(_NEWER_PIP, reads=frozenset()),) if bare else ()
    return (*bare, *newer, *(_dated(step, before) for step in steps[len(bare) :]))


def _dated(step: Step, before: str) -> Step:
    """What the project needs comes before the project itself, which then takes it as it is."""
    if not step.tools:
        return replace(step, env={**step.env, **_env(before)}, ahead=False)
    if step.ahead or "--" not in step.argv:
        return step
    at = step.argv.index("--")
    return replace(step, argv=(*step.argv[:at], "--upgrade", *step.argv[at:]))


def _env(before: str) -> Mapping[str, str]:
    midnight = f"{before}T00:00:00Z"
    return {"PIP_UPLOADED_PRIOR_TO": midnight, "UV_EXCLUDE_NEWER": midnight, "npm_config_before": midnight}
