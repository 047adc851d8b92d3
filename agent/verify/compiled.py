"""Which changed files a compiler has to see before a test can, and does not; what it made of them.

What is compiled for an interpreter (C, Cython or Rust of a Python package, native modules of node and Ruby) is built by
the set-up, from the base. Where that took no network, the same steps build a change's compiled files too: see
``Layers.rebuilt``.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Final

from agent.tree import Draft
from agent.types import Proof
from agent.verify.paths import is_test

_COMPILED: Final = re.compile(r".*\.(?:c|cc|cpp|cxx|h|hh|hpp|pyx|pxd|pxi|f|f90|rs|m|mm)", re.IGNORECASE)
_BUILDS: Final = re.compile(
    r"\b(?:\w*build\w*|c?make|ctest|ninja|meson|maturin|pip|tox|nox|\w*-gyp|cargo|go|mvn|gradlew?|compile|rake|xcodebuild)\b"
)
"""Words in a line that runs tests by which it may build, too."""
_HOW: Final = re.compile(
    r"(?:.*/)?(?:setup\.(?:py|cfg)|pyproject\.toml|meson\.(?:build|options)|meson_options\.txt|CMakeLists\.txt)|.*\.(?:cmake|rs)"
)
"""Files that say how to build, and what runs then."""
_ASKS: Final = re.compile(rb"(?mi)^[ \t]*#[ \t]*distutils[ \t]*:.*$")
_LIBRARIES: Final = frozenset({".so", ".pyd", ".dylib"})
_ERROR: Final = re.compile(r"\berror(?: \w+){0,4}:", re.IGNORECASE)
_TOLD_LINES: Final = 25


def unbuilt(line: str, changed: Collection[str]) -> tuple[str, ...]:
    """Those of the paths ``changed`` that ``line``, which runs the tests, sees as they were before, or not at all."""
    sources = (path for path in changed if _COMPILED.fullmatch(path) and not is_test(path))
    return () if _BUILDS.search(line) else tuple(sorted(sources))


def to_build(line: str, draft: Draft) -> Draft | None:
    """The base with those files of ``draft``, and nothing else of it; ``None`` where there are none, or where something
    of the change would run then: what says how to build, or anything in Rust (``build.rs``, macros)."""
    sources = unbuilt(line, draft.edits)
    if not sources or any(map(_HOW.fullmatch, draft.edits)):
        return None
    if any(_options(draft, path) != _options(draft.base.draft(), path) for path in sources):
        return None
    return replace(draft, edits=MappingProxyType({path: draft.edits[path] for path in sources}))


def native(folders: Iterable[Path]) -> dict[str, str]:
    """Path → digest of each library that is loaded into an interpreter below ``folders``, as a compiler made it."""
    found = ((path, path.relative_to(folder)) for folder in folders for path in sorted(folder.rglob("*")))
    return {
        str(below): _digest(path)
        for path, below in found
        if path.suffix in _LIBRARIES and path.is_file() and not path.is_symlink()
    }


def _options(tree: Draft, path: str) -> list[bytes]:
    """What a Cython file asks of the compiler, which can be to run a program."""
    return _ASKS.findall(tree.content(path)) if path in tree else []


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def telling(output: str) -> str:
    """Of what a build printed, from its first error on."""
    lines = output.splitlines()
    first = next((n for n, line in enumerate(lines) if _ERROR.search(line)), 0)
    return "\n".join(lines[first : first + _TOLD_LINES])


def unseen(unbuilt: Collection[str], changed: Iterable[str], proof: Iterable[Proof]) -> tuple[str, ...]:
    """``unbuilt``, or nothing where a test turned that only these of the paths ``changed`` can have turned: then the
    command builds them, whatever it is called."""
    others = [path for path in changed if path not in unbuilt and not is_test(path)]
    return () if not others and any(one.holds for one in proof) else tuple(unbuilt)
