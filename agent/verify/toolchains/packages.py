"""The packages that a JavaScript repository puts together, and the lines that run a script of each. Pure.

A line with an option that is not known here may leave packages out or run something else, and is not understood.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final

from agent.verify.files import Files, matching, text

_MOST_CHOICES: Final = 64
"""So many ways to read the braces of one pattern are followed."""

_EVERY: Final[Mapping[str, tuple[str, str]]] = {
    "npm": (r"--workspaces|--?ws", r"--if-present|--silent|-s"),
    "pnpm": (
        r"-r|--recursive",
        r"--if-present|--silent|-s|--stream|--parallel|--aggregate-output|--(no-)?(bail|sort)|--workspace-concurrency=\d+",
    ),
    "yarn": (r"", r"-[AWpitv]+|--all|--worktree|--parallel|--interlaced|--topological(-dev)?|--verbose|--silent|-s"),
}
"""Package manager → the options that mean every package, and those that change nothing of what is run."""

_SCRIPT: Final = re.compile(r"(?:(?:run|run-script) )?(t|test[\w:.-]*)|(?:run|run-script) ([\w:.-]+)")
_OF_YARN: Final = re.compile(r"workspaces (?:foreach )?run ([\w:.-]+)")


def script_of_each(call: str) -> str:
    """The script that ``call`` runs in every package which has it; empty where the call does anything else."""
    manager, *words = call.split() or [""]
    if manager not in _EVERY:
        return ""
    every, harmless = _EVERY[manager]
    options = [word for word in words if word.startswith("-")]
    said = [word for word in options if re.fullmatch(every, word)]
    if (every and not said) or not all(re.fullmatch(harmless, word) for word in options if word not in said):
        return ""
    rest = " ".join(word for word in words if word not in options)
    found = (_OF_YARN if manager == "yarn" else _SCRIPT).fullmatch(rest)
    name = next(filter(None, found.groups())) if found else ""
    return "test" if name == "t" else name


def folders(files: Files) -> tuple[str, ...]:
    """Where the packages are, without the root: in the order of the patterns that name them, then by name."""
    patterns = _patterns(files)
    known = [path.removesuffix("/package.json") for path in matching(files, "*/package.json")]
    left_out = [words for pattern in patterns if pattern.startswith("!") for words in _alternatives(pattern[1:])]
    wanted = (words for pattern in patterns if not pattern.startswith("!") for words in _alternatives(pattern))
    named = dict.fromkeys(folder for words in wanted for folder in known if _fits(folder, words))
    return tuple(f for f in named if "node_modules" not in f.split("/") and not any(_fits(f, w) for w in left_out))


def manifest(files: Files, folder: str = "") -> Mapping[str, Any]:
    """``package.json``; empty where it is none."""
    try:
        data = json.loads(text(files, f"{folder}/package.json".removeprefix("/")) or "{}")
    except (ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


def scripts(files: Files, folder: str = "") -> Mapping[str, str]:
    found = manifest(files, folder).get("scripts")
    return {k: v for k, v in found.items() if isinstance(v, str)} if isinstance(found, dict) else {}


_LISTED: Final = re.compile(r"^packages:[ \t]*(?:#.*)?\n((?:[ \t]*(?:-.*|#.*)?\n?)*)", re.MULTILINE)
_ITEM: Final = re.compile(r"""^[ \t]*-[ \t]+(?:'([^'\n]+)'|"([^"\n]+)"|([^\s'"#][^\s#]*))""", re.MULTILINE)


def _patterns(files: Files) -> tuple[str, ...]:
    """Of ``pnpm-workspace.yaml`` as pnpm's own documentation writes it, else of ``package.json``."""
    listed = _LISTED.search(text(files, "pnpm-workspace.yaml"))
    if listed:
        return tuple(next(filter(None, item.groups())) for item in _ITEM.finditer(listed[1]))
    named = manifest(files).get("workspaces")
    named = named.get("packages") if isinstance(named, dict) else named
    return tuple(pattern for pattern in named if isinstance(pattern, str)) if isinstance(named, list) else ()


def _alternatives(pattern: str) -> Iterator[tuple[str, ...]]:
    """The words between the slashes of a pattern, once for each choice that its braces give."""
    parts = re.split(r"\{([^{}]*)\}", pattern.removeprefix("./").rstrip("/"))
    choices = (part.split(",") if at % 2 else [part] for at, part in enumerate(parts))
    for chosen in itertools.islice(itertools.product(*choices), _MOST_CHOICES):
        yield tuple("".join(chosen).split("/"))


def _fits(folder: str, words: Sequence[str]) -> bool:
    """In time that grows with both alone, since a repository can write any pattern."""
    names = folder.split("/")
    reached = {0}  # so many names are matched by the words so far
    for word in words:
        if word == "**":
            reached = set(range(min(reached, default=len(names) + 1), len(names) + 1))
        else:
            reached = {at + 1 for at in reached if at < len(names) and fnmatchcase(names[at], word)}
    return len(names) in reached
