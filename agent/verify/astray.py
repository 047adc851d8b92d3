"""Whether tests in a user's own environment would import another copy of the project than the one that is changed.

A package below ``src`` is found only where it is installed, and what is installed may be a release of it: what has
pytest has pytest's own dependencies. Those at the root are found there first. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from agent.verify.files import Files, matching, text

_PACKAGE: Final = re.compile(r"src/([A-Za-z_]\w*)(?:/__init__)?\.py")
_CONFIGURES: Final = ("pytest.ini", ".pytest.ini", "pytest.toml", "pyproject.toml", "tox.ini", "setup.cfg")
_INTERPRETER: Final = re.compile(r"(?:^|\s)((?!-)[\w./-]*python[\d.]*) -m ")
_FIND: Final = """
import importlib.util, os, sys
here = os.path.realpath(".") + os.sep
for name in sys.argv[1:]:
    spec = importlib.util.find_spec(name)
    places = [spec.origin, *(spec.submodule_search_locations or ())] if spec else []
    places = [os.path.realpath(place) for place in places if place and os.path.exists(place)]
    if places and not any(place.startswith(here) for place in places):
        print(places[0])
"""


def packages(line: str, files: Files) -> tuple[str, ...]:
    """What can be astray: nothing where the tests are told themselves to look below ``src``.

    Args:
        line: runs the tests.
    """
    told = any("pythonpath" in said.lower() for said in (line, *(text(files, name) for name in _CONFIGURES)))
    told = told or any("sys.path" in text(files, path) for path in matching(files, "conftest.py"))
    found = (_PACKAGE.fullmatch(path) for path in files.paths())
    return () if told else tuple(sorted({match[1] for match in found if match}))


def look(line: str, names: Sequence[str]) -> tuple[str, ...]:
    """A command, run where the checkout is, that prints where else ``names`` would be imported from by what ``line``
    runs the tests with."""
    interpreter = _INTERPRETER.search(line)
    return (interpreter[1] if interpreter else "python3", "-c", _FIND, *names)
