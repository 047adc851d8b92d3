"""Who defines, imports, uses and tests what. Every answer says how sure it is.

``RESOLVED``: an import chain, or the same file, leads from the use to the definition. ``BY_NAME``: the same word,
nothing more.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

from agent.index.languages import LANGUAGES
from agent.index.languages.base import parent
from agent.index.record import Import, Record, Symbol


class Certainty(StrEnum):
    """How a use was connected to what it uses: by an import that leads there, or by its name alone."""

    RESOLVED = "resolved"
    BY_NAME = "by name"


class Located(NamedTuple):
    """A symbol and where it is."""

    path: str
    symbol: Symbol


class Reference(NamedTuple):
    """A use of a name. ``inside`` is the function or class it stands in, '' at module level."""

    path: str
    line: int
    inside: str
    certainty: Certainty


class Reach(NamedTuple):
    """A file that another file leads to, and how sure that is."""

    path: str
    certainty: Certainty


class Paths:
    """The paths of a tree as import resolution asks for them."""

    def __init__(self, paths: Sequence[str], read: Callable[[str], str]) -> None:
        self._paths = frozenset(paths)
        self._read = read
        self._by_end: dict[str, list[str]] = defaultdict(list)
        """Last part, and last two parts, of the paths."""
        self._by_folder: dict[str, list[str]] = defaultdict(list)
        for path in paths:
            folder, _, name = path.rpartition("/")
            self._by_end[name].append(path)
            if folder:
                self._by_end[f"{folder.rpartition('/')[2]}/{name}"].append(path)
            self._by_folder[folder].append(path)
        self._texts: dict[str, str] = {}

    def __contains__(self, path: str, /) -> bool:
        return path in self._paths

    def ending(self, tail: str, /) -> list[str]:
        end = "/".join(tail.rsplit("/", 2)[-2:])
        found = [path for path in self._by_end.get(end, ()) if path == tail or path.endswith("/" + tail)]
        return sorted(found, key=lambda path: (len(path), path))

    def under(self, folder: str, /) -> list[str]:
        return self._by_folder.get(folder, [])

    def text(self, path: str, /) -> str:
        if path not in self._texts:
            self._texts[path] = self._read(path) if path in self._paths else ""
        return self._texts[path]


class Graph:
    """Definitions and imports of a tree.

    Args:
        paths: of all files.
        records: of the same files, in the same order.
        read: text of a file, '' where it can't be read.
    """

    def __init__(self, paths: Sequence[str], records: Sequence[Record], read: Callable[[str], str]) -> None:
        self.paths = paths
        self.records = records
        self.number = {path: i for i, path in enumerate(paths)}
        self.files = Paths(paths, read)
        self.defined: dict[str, list[tuple[int, int]]] = defaultdict(list)
        """Unqualified name → (file, index of the symbol)."""
        for file, record in enumerate(records):
            for at, symbol in enumerate(record.symbols):
                self.defined[symbol.name.rpartition(".")[2]].append((file, at))
        self.tests = frozenset(i for i, path in enumerate(paths) if is_test(path, records[i].language))
        self._targets: dict[int, tuple[int, ...]] = {}
        self._importers: dict[int, list[int]] | None = None

    def definitions(self, name: str) -> list[Located]:
        """Symbols called ``name``, plain or qualified (``Class.method``)."""
        short = name.rpartition(".")[2]
        found = [Located(self.paths[f], self.records[f].symbols[at]) for f, at in self.defined.get(short, ())]
        if short != name:
            found = [item for item in found if ("." + item.symbol.name).endswith("." + name)]
        return found

    def imports(self, file: int) -> tuple[int, ...]:
        """Files that ``file`` imports, each once, in order."""
        known = self._targets.get(file)
        if known is None:
            record = self.records[file]
            seen: dict[int, None] = {}
            for item in record.imports:
                for path in self.resolve(item, file):
                    seen.setdefault(self.number[path])
            seen.pop(file, None)
            known = self._targets[file] = tuple(seen)
        return known

    def resolve(self, item: Import, file: int) -> list[str]:
        """Files that one import reaches."""
        language = LANGUAGES.get(self.records[file].language)
        if language is None:
            return []
        return [path for path in language.resolve(item, self.paths[file], self.files) if path in self.number]

    def importers(self, file: int) -> list[int]:
        """Files that import ``file``, in order."""
        if self._importers is None:
            self._importers = defaultdict(list)
            for i in range(len(self.paths)):
                for target in self.imports(i):
                    self._importers[target].append(i)
        return self._importers.get(file, [])

    def behind(self, name: str, file: int, *, depth: int = 4) -> list[tuple[int, int]]:
        """What ``name`` means in ``file``: (file, symbol) of definitions, through imports and re-exports."""
        own = [(f, at) for f, at in self.defined.get(name, ()) if f == file]
        if own or depth == 0:
            return own
        found: list[tuple[int, int]] = []
        for item in self.records[file].imports:
            for there, here in item.names:
                if here not in (name, "*"):
                    continue
                wanted = name if there == "*" else there
                for path in self.resolve(item, file):
                    target = self.number[path]
                    if target != file:
                        found += self.behind(wanted, target, depth=depth - 1)
        return list(dict.fromkeys(found))

    def sees(self, file: int, target: int) -> bool:
        """Whether ``file`` imports ``target``, directly or through one file that re-exports it."""
        direct = self.imports(file)
        return target in direct or any(target in self.imports(middle) for middle in direct)


def is_test(path: str, language: str) -> bool:
    """Whether the conventions of the file's language make it a test."""
    known = LANGUAGES.get(language)
    if known is not None:
        return known.is_test(path)
    return bool(_TEST_FOLDER.search(path))


_TEST_FOLDER = re.compile(r"(?:^|/)(?:tests?|specs?|__tests__|testdata|fixtures)/", re.IGNORECASE)


_REACH = 3
"""How many imports may lie between a test and what it reaches."""


def affected_tests(graph: Graph, changed: Iterable[int]) -> list[tuple[int, Certainty]]:
    """Tests that reach a changed file through imports, nearest first; then tests that carry its name."""
    start = list(dict.fromkeys(changed))
    seen = dict.fromkeys(start, 0)
    frontier = start
    found: dict[int, Certainty] = {i: Certainty.RESOLVED for i in start if i in graph.tests}
    for _ in range(_REACH):
        frontier = [i for i in dict.fromkeys(up for file in frontier for up in graph.importers(file)) if i not in seen]
        seen.update(dict.fromkeys(frontier, 0))
        found.update({i: Certainty.RESOLVED for i in frontier if i in graph.tests})
    stems = {called(graph.paths[i]) for i in start} | {parent(graph.paths[i]).rpartition("/")[2] for i in start}
    stems.discard("")
    for i in sorted(graph.tests):
        if i not in found and called(graph.paths[i]) in stems:
            found[i] = Certainty.BY_NAME
    return list(found.items())


_TEST_AFFIX = re.compile(r"^(?:test_?|spec_?)|(?:[._-]?(?:tests?|spec))$", re.IGNORECASE)


def called(path: str) -> str:
    """What a file and its tests have in common: ``a/test_query.py`` and ``b/query.py`` → ``query``."""
    return _TEST_AFFIX.sub("", path.rpartition("/")[2].partition(".")[0]).lower()
