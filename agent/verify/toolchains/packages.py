"""The packages that a JavaScript repository puts together, and the lines that run a script of each. Pure.

A line with an option that is not known here may leave packages out or run something else, and is not understood.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from agent.verify.files import Files, matching, text

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
    left_out = [_regex(pattern[1:]) for pattern in patterns if pattern.startswith("!")]
    named = (folder for pattern in patterns for folder in known if _regex(pattern).fullmatch(folder))
    kept = (f for f in named if "node_modules" not in f.split("/") and not any(o.fullmatch(f) for o in left_out))
    return tuple(dict.fromkeys(kept))


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


_GLOB: Final[Mapping[str, str]] = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}


def _regex(pattern: str) -> re.Pattern[str]:
    words = re.split(r"(\*\*/|\*\*|\*|\?|\{[^{}]*\})", pattern.removeprefix("./").rstrip("/"))
    return re.compile("".join(_GLOB.get(word) or _literal(word) for word in words))


def _literal(word: str) -> str:
    if word.startswith("{") and word.endswith("}"):
        return f"(?:{'|'.join(map(re.escape, word[1:-1].split(',')))})"
    return re.escape(word)
