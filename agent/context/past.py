"""History as a signal: what commits that talk like the issue have touched."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from agent.index.corpus import Floats
from agent.index.history import Commit
from agent.index.words import Stems, words

_MAX_FILES = 8
"""A commit that touches more says little about each of them."""

_COMMITS = 300
"""How many of the best matching commits are looked at."""

_HALF = 2000.0
"""A commit this many commits back counts half."""

_TRAILER = re.compile(
    r"^(?:signed-off-by|co-authored-by|reviewed-by|git-svn-id|cherry picked|conflicts):?.*$", re.I | re.M
)


class Past:
    """Commit messages as documents, and the files that they stand for."""

    def __init__(self, commits: Sequence[Commit], stems: Stems) -> None:
        self.commits = commits
        postings: dict[str, list[int]] = defaultdict(list)
        times: dict[str, list[int]] = defaultdict(list)
        lengths = np.zeros(len(commits), np.float32)
        for number, commit in enumerate(commits):
            found: dict[str, int] = {}
            for stem in stems.of(words(_TRAILER.sub("", commit.message[:3000]))):
                found[stem] = found.get(stem, 0) + 1
            lengths[number] = sum(found.values())
            for stem, count in found.items():
                postings[stem].append(number)
                times[stem].append(count)
        self._postings = {stem: np.array(numbers, np.int32) for stem, numbers in postings.items()}
        self._times = {stem: np.array(counts, np.float32) for stem, counts in times.items()}
        mean = float(lengths.mean()) if len(commits) else 1.0
        self._norm = 1.2 * (0.25 + 0.75 * lengths / max(mean, 1e-6))

    def scores(self, query: Mapping[str, float]) -> Floats:
        """BM25 of each commit's message."""
        out = np.zeros(len(self.commits), np.float32)
        for stem, weight in query.items():
            found = self._postings.get(stem)
            if found is not None:
                times = self._times[stem]
                idf = np.log1p((len(out) - len(found) + 0.5) / (len(found) + 0.5))
                out[found] += weight * idf * times * 2.2 / (times + self._norm[found])
        return out

    def signal(self, paths: Sequence[str], wanted: NDArray[np.bool_], query: Mapping[str, float]) -> Floats:
        """For each path the best matching commits that touched it: 1 · best + ½ · second + ⅓ · third + …

        A commit counts less the older it is, and the more files it touched of those that ``wanted`` (F) marks.
        """
        number = {path: i for i, path in enumerate(paths) if wanted[i]}
        scores = self.scores(query) / (1.0 + np.arange(len(self.commits), dtype=np.float32) / _HALF)
        total = np.zeros(len(paths), np.float32)
        seen = np.zeros(len(paths), np.int32)
        for commit in np.argsort(-scores, kind="stable")[:_COMMITS].tolist():
            if scores[commit] <= 0:
                break
            touched = [number[path] for path in self.commits[commit].files if path in number]
            if 0 < len(touched) <= _MAX_FILES:
                for file in touched:
                    seen[file] += 1
                    total[file] += scores[commit] / math.sqrt(len(touched)) / seen[file]
        return total
