"""What stands behind ``npm test`` and its like: the scripts of ``package.json``, and those of each package. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from agent.verify.files import Files
from agent.verify.toolchains import joined, node_runners, packages

_STUB: Final = "no test specified"


def is_stub(script: str) -> bool:
    """Whether it is what ``npm init`` writes."""
    return re.search(r"no tests? specified", script, re.IGNORECASE) is not None


def behind(line: str, files: Files) -> str | None:
    """What a call of a script that tests stands for; ``None`` where the line is none."""
    named = re.fullmatch(
        r"(npm|yarn|pnpm|bun)\s+(?:(?:run|run-script)\s+)?(?:--silent\s+|-s\s+)?(t|test[\w:.-]*)\s*", line
    )
    scripts = packages.scripts(files)
    name = "test" if named and named.group(2) == "t" else named.group(2) if named else ""
    if name not in scripts:
        return None
    names = (each for each in (f"pre{name}", name) if each in scripts)
    return in_each(" && ".join(_follow(scripts[each], scripts, frozenset({name})) for each in names), files)


_CALL: Final = re.compile(r"(?:npm|yarn|pnpm)\s+(?:run\s+)?(?:(?:-s|--silent)\s+)?([\w:.-]+)")


def _follow(script: str, scripts: Mapping[str, str], within: frozenset[str]) -> str:
    """A script with the other ones of the same file in place of the calls of them, as far as it is plain.

    Args:
        within: scripts that are followed already.
    """
    return " && ".join(_behind(call, scripts, within) for call in joined.split(script) or (script.strip(),))


def _behind(call: str, scripts: Mapping[str, str], within: frozenset[str]) -> str:
    """What a call of a script runs, with what npm runs before and after it."""
    inner = _CALL.fullmatch(call)
    name = inner[1] if inner else ""
    if name not in scripts or name in within:
        return call
    names = (each for each in (f"pre{name}", name, f"post{name}") if each in scripts)
    return " && ".join(_follow(scripts[each], scripts, within | {name}) for each in names)


def in_each(line: str, files: Files) -> str:
    """The line with the packages' test scripts in place of a call that runs them; others stay, such as a build."""
    return " && ".join(of_packages(call, files) or call for call in joined.split(line) or (line,))


def of_packages(call: str, files: Files) -> str:
    """What a call runs in the packages that have its script; empty where no runner that we know is among it."""
    spread = packages.spread(call, files)
    if spread is None:
        return ""
    found = ((folder, packages.scripts(files, folder)) for folder in spread.folders)
    having = ((folder, scripts) for folder, scripts in found if not is_stub(scripts.get(spread.script, _STUB)))
    calls = [joined.inside(f, _behind(f"npm run {spread.script}", scripts, frozenset())) for f, scripts in having]
    return " && ".join([*filter(None, [spread.before]), *calls]) if node_runners.parts(" && ".join(calls)) else ""
