"""What ``tox.ini`` has tests need, in its section ``[testenv]``. Pure."""

from __future__ import annotations

import itertools
import posixpath
import re
from collections.abc import Iterator
from typing import Final

_ENVIRONMENTS: Final = 200
"""That one line may stand for."""


def requirements(config: str) -> tuple[str, ...]:
    """Plain ones in ``deps``, and of those behind factors what the first environment for tests has; not what holds a
    substitution or an option."""
    return tuple(line for line in _first_deps(config) if re.fullmatch(r"[A-Za-z0-9][\w.,<>=!~\[\]; '\"-]*", line))


def requirement_files(config: str) -> tuple[str, ...]:
    """The requirements files among them."""
    found = (re.fullmatch(r"-r ?(?:\{tox(?:_root|inidir|_ini_dir)\}/)?(\w[\w./-]*)", d) for d in _first_deps(config))
    return tuple(posixpath.normpath(match[1]) for match in found if match and ".." not in match[1])


def extras(config: str) -> Iterator[str]:
    """Those of the project, with those that stand behind a factor (``crypto: crypto``): a test that needs one is
    skipped without it, and nothing that it covers is proven."""
    for line in _lines(config, "extras"):
        yield from re.findall(r"[\w.-]+", line.rpartition(":")[2])


def _first_deps(config: str) -> Iterator[str]:
    factors = _first_factors(config)
    for line in _lines(config, "deps"):
        behind = re.fullmatch(r"([\w.,{}!-]+):\s+(.*)", line)
        if not behind:
            yield line
        elif any(map(factors.issuperset, _alternatives(behind[1]))):
            yield behind[2]


def _first_factors(config: str) -> frozenset[str]:
    """Of the first environment that is named after a Python, without its version: the interpreter is some other."""
    listed = re.search(r"(?m)^env_?list\s*=[ \t]*(.*(?:\n[ \t]+.*)*)", config)
    every = _alternatives(",".join(listed[1].split()) if listed else "")
    first = next((factors for factors in every if factors[0].startswith("py")), [])
    return frozenset({"py", "py3", *(factor for factor in first if not re.fullmatch(r"py[\d.]+", factor))})


def _alternatives(condition: str) -> Iterator[list[str]]:
    """The factors of each environment that a list or a condition stands for; none of one that rules some out."""
    for each in re.split(r",+(?![^{]*\})", condition[:10_000]):
        parts = [group.strip("{}").split(",") for group in re.findall(r"\{[^{}]*\}|[^{}]+", each)]
        for chosen in itertools.islice(itertools.product(*parts), _ENVIRONMENTS):
            factors = "".join(chosen).split("-")
            if not any(factor.startswith("!") for factor in factors):
                yield factors


def _lines(config: str, key: str) -> list[str]:
    section = re.search(r"(?ms)^\[testenv\]\s*\n(.*?)(?=^\[|\Z)", config)
    value = re.search(rf"(?m)^{key}\s*=[ \t]*(.*(?:\n[ \t]+.*)*)", section.group(1)) if section else None
    return [line.split(" #")[0].strip() for line in value.group(1).splitlines()] if value else []
