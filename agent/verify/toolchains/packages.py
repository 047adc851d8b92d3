"""The packages that a JavaScript repository puts together, and the lines that run a script of each. Pure.

A line with an option that is not known here may leave packages out or run something else, and is not understood.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final

from agent.verify.documents import json_of, strings, table
from agent.verify.files import Files, matching, text

_MOST_CHOICES: Final = 64
"""So many ways to read the braces of one pattern are followed."""


@dataclass(frozen=True)
class Spread:
    """A call that runs a script in several packages."""

    script: str
    folders: tuple[str, ...]
    """Of these packages, in the order in which they run; some may not have the script."""
    before: str
    """A call that comes before all of them; mostly none."""


@dataclass(frozen=True)
class _Program:
    """How a program is told to run a script in packages.

    Args:
        rest: pattern for a call without its options; with a group ``script``, and maybe ``package``.
        harmless: pattern for options that change nothing of what is run.
        every: pattern for options of which one means every package; empty where that is meant anyway.
        choice: pattern for options whose value chooses packages.
        sorts: pattern in a call that has packages run after those that they depend on.
    """

    rest: str
    harmless: str
    every: str = ""
    choice: str = r"(?!)"
    sorts: str = r"(?!)"


_SCRIPT: Final = r"(?:run |run-script )?(?P<script>t|test[\w:.-]*|(?<=run )[\w:.-]+|(?<=run-script )[\w:.-]+)"
_PROGRAMS: Final[Mapping[str, _Program]] = {
    "npm": _Program(_SCRIPT, r"--if-present|--silent|-s", r"--workspaces|--?ws", r"-w|--workspace"),
    "pnpm": _Program(
        _SCRIPT,
        r"--if-present|--silent|-s|--stream|--parallel|--aggregate-output|--(no-)?(bail|sort)|--workspace-concurrency=\d+",
        r"-r|--recursive",
        r"-F|--filter",
        r"^(?!.* --(no-sort|parallel)\b)",
    ),
    "yarn": _Program(
        r"(?:workspaces (?:foreach )?run|workspace (?P<package>[\w@/.-]+)(?: run)?) (?P<script>[\w:.-]+)",
        r"-[AWpitv]+|--all|--worktree|--parallel|--interlaced|--topological(-dev)?|--verbose|--silent|-s",
        sorts=r" (-\w*t|--topological)",
    ),
    "turbo": _Program(
        r"(?:run )?(?P<script>\w[\w:.-]*(?: \w[\w:.-]*)*)",
        r"--(no-cache|force|continue)|--(concurrency|output-logs|log-order|ui)=\S+",
        choice=r"-F|--filter",
    ),
    "nx": _Program(
        r"run-many (?:-t|--targets?)[= ](?P<script>[\w:.,-]+(?: [\w:.-]+)*)",
        r"--all|--parallel(=\d+)?|--output-?style=\S+|--skip-?nx-?cache|--verbose",
    ),
    "lerna": _Program(
        r"run (?P<script>[\w:.-]+)",
        r"--(stream|parallel|no-bail|no-sort|no-prefix|no-progress|skip-nx-cache)|--concurrency=\d+",
        choice=r"--scope",
        sorts=r"^(?!.* --(no-sort|parallel)\b)",
    ),
}
_LEADER: Final = re.compile(r"(?:npx|bunx|(?:pnpm|yarn)(?: exec| run)?) (?=(?:turbo|nx|lerna) )")


def spread(call: str, files: Files) -> Spread | None:
    """What ``call`` runs in which packages; ``None`` where it does anything else."""
    name, *words = _LEADER.sub("", " ".join(call.split())).split(" ")
    program = _PROGRAMS.get(name)
    every, chosen, rest = _told(program, words) if program else (False, [], "")
    found = re.fullmatch(program.rest, rest) if program else None
    if program is None or found is None or (program.every and not (every or chosen)):
        return None
    *others, script = re.split("[ ,]", found["script"])
    chosen += filter(None, [found.groupdict().get("package")])
    known = _of_lerna(files) if name == "lerna" else folders(files)
    before, where = _before(name, script, others, files), _chosen(files, chosen, known)
    if before is None or where is None:
        return None
    sorted_ = re.search(program.sorts, call) is not None
    return Spread("test" if script == "t" else script, _sorted(files, where) if sorted_ else where, before)


def _told(program: _Program, words: Sequence[str]) -> tuple[bool, list[str], str]:
    """Whether every package is meant, those that are chosen, and the call without the options that are known."""
    every, chosen, rest = False, list[str](), list[str]()
    left = iter(words)
    for word in left:
        option, equals, value = word.partition("=")
        if re.fullmatch(program.choice, option):
            chosen.append(value if equals else next(left, ""))
        elif program.every and re.fullmatch(program.every, word):
            every = True
        elif not re.fullmatch(program.harmless, word):
            rest.append(word)
    return every, chosen, " ".join(rest)


def _chosen(files: Files, wanted: Sequence[str], known: Sequence[str]) -> tuple[str, ...] | None:
    """Those of ``known`` that are called so or stand there, all where nothing is wanted; ``None`` where one is meant
    in a way that is not understood, or is not there."""
    found: dict[str, None] = dict.fromkeys(() if wanted else known)
    for word in wanted:
        if not re.fullmatch(r"[@\w./*-]+", word) or "..." in word:
            return None
        path = word.removeprefix("./").rstrip("/").split("/")
        meant = [f for f in known if fnmatchcase(str(manifest(files, f).get("name", "")), word) or _fits(f, path)]
        if not meant:
            return None
        found.update(dict.fromkeys(meant))
    return tuple(folder for folder in known if folder in found)


def _sorted(files: Files, where: Sequence[str]) -> tuple[str, ...]:
    """Packages after those that they depend on; where these depend on them too, after all others."""
    owner = {str(manifest(files, folder).get("name", "")): folder for folder in where}
    found: dict[str, None] = {}
    opened: set[str] = set()
    pending = list(reversed(where))
    while pending:
        folder = pending[-1]
        needs = [owner[name] for name in sorted(_dependencies(manifest(files, folder))) if name in owner]
        first = [other for other in needs if other not in opened]
        if folder in opened or not first:
            found.setdefault(pending.pop())
        else:
            pending += reversed(first)
        opened.add(folder)
    return tuple(found)


def _dependencies(package: Mapping[str, Any]) -> set[str]:
    kinds = ("dependencies", "devDependencies", "optionalDependencies")
    return {name for kind in kinds for name in table(package, kind)}


def _before(program: str, script: str, others: Sequence[str], files: Files) -> str | None:
    """The call for what a task runner does first; ``None`` where a task may be more than the packages' scripts."""
    if program not in ("turbo", "nx", "lerna"):
        return ""
    own = "turbo.json" if program == "turbo" else "nx.json"
    said = json_of(files, own)
    if any(matching(files, f"*/{own}", "project.json")) or said.get("plugins"):
        return None
    keys = ("tasks", "pipeline", "targetDefaults")
    tasks: Mapping[str, Any] = next((said[key] for key in keys if isinstance(said.get(key), dict)), {})
    task = tasks.get(script, {})
    needed = task.get("dependsOn", []) if isinstance(task, dict) else None
    special = any(name.endswith(f"#{script}") for name in tasks) or (isinstance(task, dict) and "executor" in task)
    if special or not isinstance(needed, list):
        return None
    names = list(dict.fromkeys((*others, *(str(name).removeprefix("^") for name in needed))))
    if not all(re.fullmatch(r"[\w:.-]+", name) for name in names):
        return None
    calls = {"turbo": "turbo run", "nx": "nx run-many -t", "lerna": "lerna run"}
    return f"{calls[program]} {(',' if program == 'lerna' else ' ').join(names)}" if names else ""


def folders(files: Files) -> tuple[str, ...]:
    """Where the packages are, without the root: in the order of the patterns that name them, then by name."""
    return _named_by(_patterns(files), files)


def _of_lerna(files: Files) -> tuple[str, ...]:
    named = strings(json_of(files, "lerna.json").get("packages"))
    return _named_by(named, files) if named else folders(files)


def _named_by(patterns: Sequence[str], files: Files) -> tuple[str, ...]:
    known = [path.removesuffix("/package.json") for path in matching(files, "*/package.json")]
    left_out = [words for pattern in patterns if pattern.startswith("!") for words in _alternatives(pattern[1:])]
    wanted = (words for pattern in patterns if not pattern.startswith("!") for words in _alternatives(pattern))
    named = dict.fromkeys(folder for words in wanted for folder in known if _fits(folder, words))
    return tuple(f for f in named if "node_modules" not in f.split("/") and not any(_fits(f, w) for w in left_out))


def manifest(files: Files, folder: str = "") -> Mapping[str, Any]:
    """``package.json``; empty where it is none."""
    return json_of(files, f"{folder}/package.json".removeprefix("/"))


def scripts(files: Files, folder: str = "") -> Mapping[str, str]:
    found = table(manifest(files, folder), "scripts")
    return {name: script for name, script in found.items() if isinstance(script, str)}


_LISTED: Final = re.compile(r"^packages:[ \t]*(?:#.*)?\n((?:[ \t]*(?:-.*|#.*)?\n?)*)", re.MULTILINE)
_ITEM: Final = re.compile(r"""^[ \t]*-[ \t]+(?:'([^'\n]+)'|"([^"\n]+)"|([^\s'"#][^\s#]*))""", re.MULTILINE)


def _patterns(files: Files) -> tuple[str, ...]:
    """Of ``pnpm-workspace.yaml`` as pnpm's own documentation writes it, else of ``package.json``."""
    listed = _LISTED.search(text(files, "pnpm-workspace.yaml"))
    if listed:
        return tuple(next(filter(None, item.groups())) for item in _ITEM.finditer(listed[1]))
    named = manifest(files).get("workspaces")
    named = named.get("packages") if isinstance(named, dict) else named
    return tuple(strings(named))


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
