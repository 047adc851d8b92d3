"""History as a signal: what commits that talk like the issue have touched."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from agent.index.corpus import Floats
from agent.index.history import Commit
from agent.index.words import Stems, words

_MAX_FILES = 12
"""A commit that touches more says little about each of them."""

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

    def signals(self, paths: Sequence[str], query: Mapping[str, float], files: Floats) -> dict[str, Floats]:
        number = {path: i for i, path in enumerate(paths)}
        scores = self.scores(query)
        order = np.argsort(-scores, kind="stable")[:300]
        best = np.zeros(len(paths), np.float32)
        total = np.zeros(len(paths), np.float32)
        seen = np.zeros(len(paths), np.int32)
        for commit in order.tolist():
            if scores[commit] <= 0:
                break
            touched = [number[f] for f in self.commits[commit].files if f in number]
            if not 0 < len(touched) <= _MAX_FILES:
                continue
            value = scores[commit] / np.log2(1 + len(touched))
            for file in touched:
                best[file] = max(best[file], value)
                seen[file] += 1
                total[file] += value / seen[file]
        rate = np.zeros(len(paths), np.float32)
        recent = np.zeros(len(paths), np.float32)
        together = np.zeros(len(paths), np.float32)
        top = set(np.argsort(-files, kind="stable")[:5].tolist())
        for at, commit in enumerate(self.commits):
            touched = [number[f] for f in commit.files if f in number]
            if not 0 < len(touched) <= _MAX_FILES:
                continue
            for file in touched:
                rate[file] += 1
                recent[file] += 1.0 / (1 + at / 300)
            if top.intersection(touched):
                for file in touched:
                    together[file] += 1.0 / len(touched)
        return {
            "history: best commit": best,
            "history: commits": total,
            "history: change rate": np.log1p(rate),
            "history: recent": np.log1p(recent),
            "history: together": np.log1p(together),
        }
