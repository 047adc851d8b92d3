"""Which changed files a compiler has to see before a test can, and does not. Pure, by names alone.

What is compiled for an interpreter (C, Cython or Rust of a Python package, native modules of node and Ruby) is built by
the set-up, from the base.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Final

from agent.types import Proof
from agent.verify.paths import is_test

_COMPILED: Final = re.compile(r".*\.(?:c|cc|cpp|cxx|h|hh|hpp|pyx|pxd|pxi|f|f90|rs|m|mm)", re.IGNORECASE)
_BUILDS: Final = re.compile(
    r"\b(?:\w*build\w*|c?make|ctest|ninja|meson|maturin|pip|tox|nox|\w*-gyp|cargo|go|mvn|gradlew?|compile|rake|xcodebuild)\b"
)
"""Words in a line that runs tests by which it may build, too."""


def unbuilt(line: str, changed: Collection[str]) -> tuple[str, ...]:
    """Those of the paths ``changed`` that ``line``, which runs the tests, sees as they were before, or not at all."""
    sources = (path for path in changed if _COMPILED.fullmatch(path) and not is_test(path))
    return () if _BUILDS.search(line) else tuple(sorted(sources))


def unseen(unbuilt: Collection[str], changed: Iterable[str], proof: Iterable[Proof]) -> tuple[str, ...]:
    """``unbuilt``, or nothing where a test turned that only these of the paths ``changed`` can have turned: then the
    command builds them, whatever it is called."""
    others = [path for path in changed if path not in unbuilt and not is_test(path)]
    return () if not others and any(one.holds for one in proof) else tuple(unbuilt)
