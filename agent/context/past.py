"""History as a signal: what commits that talk like the issue, or that it names, have touched."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from agent.context.issue import Issue, tickets_in
from agent.index.corpus import Floats, Ints
from agent.index.history import Commit
from agent.index.words import Stems, words

_MAX_FILES = 8
"""A commit that touches more says little about each of them."""

_MAX_FILES_OF_SUBJECT = 20
"""Subjects are short and many, so that the odd wide commit does less harm."""

_COMMITS = 300
"""How many of the best matching commits are looked at."""

_HALF = 2000.0
"""A commit this many commits back counts half."""

_TRAILER = re.compile(
    r"^(?:signed-off-by|co-authored-by|reviewed-by|git-svn-id|cherry picked|conflicts):?.*$", re.I | re.M
)


class Past:
    """Commit messages as documents, and the files that they stand for.

    Args:
        paths: of the tree (F).
        wanted: the files that are looked for (F).
    """

    def __init__(
        self, commits: Sequence[Commit], stems: Stems, paths: Sequence[str], wanted: NDArray[np.bool_]
    ) -> None:
        self._commits = commits
        number = {path: file for file, path in enumerate(paths) if wanted[file]}
        self._touched = [[number[path] for path in commit.files if path in number] for commit in commits]
        self._messages = _Documents([stems.of(words(_TRAILER.sub("", c.message[:3000]))) for c in commits])
        self._subjects = _Subjects([_subject(c, stems) for c in commits], self._touched, len(paths))

    def signal(self, query: Mapping[str, float]) -> Floats:
        """For each file the best matching commits that touched it: 1 · best + ½ · second + ⅓ · third + …

        A commit counts less the older it is, and the more files it touched.
        """
        scores = self._messages.scores(query) / (1.0 + np.arange(len(self._commits), dtype=np.float32) / _HALF)
        total = np.zeros(self._subjects.files, np.float32)
        seen = np.zeros(self._subjects.files, np.int32)
        for commit in np.argsort(-scores, kind="stable")[:_COMMITS].tolist():
            if scores[commit] <= 0:
                break
            touched = self._touched[commit]
            if 0 < len(touched) <= _MAX_FILES:
                for file in touched:
                    seen[file] += 1
                    total[file] += scores[commit] / math.sqrt(len(touched)) / seen[file]
        return total

    def subjects(self, query: Mapping[str, float]) -> Floats:
        """BM25 of each file as a document made of the first lines of all commits that touched it."""
        return self._subjects.scores(query)

    def named(self, issue: Issue) -> Floats:
        """Files of the commits that the issue names by id, or by a ticket that their message names too."""
        out = np.zeros(self._subjects.files, np.float32)
        if not issue.commits and not issue.tickets:
            return out
        for commit, touched in zip(self._commits, self._touched, strict=True):
            if touched and (
                any(commit.sha.startswith(start) for start in issue.commits)
                or (issue.tickets and not issue.tickets.isdisjoint(tickets_in(commit.message[:3000])))
            ):
                out[touched] = np.maximum(out[touched], 1.0 / math.sqrt(len(touched)))
        return out


def _subject(commit: Commit, stems: Stems) -> frozenset[str]:
    return frozenset(stems.of(words(commit.message.strip().partition("\n")[0][:300])))


class _Documents:
    """BM25 of commit messages."""

    def __init__(self, documents: Sequence[Sequence[str]]) -> None:
        postings: dict[str, list[int]] = defaultdict(list)
        times: dict[str, list[int]] = defaultdict(list)
        for number, document in enumerate(documents):
            found: dict[str, int] = {}
            for stem in document:
                found[stem] = found.get(stem, 0) + 1
            for stem, count in found.items():
                postings[stem].append(number)
                times[stem].append(count)
        self._postings = {stem: np.array(numbers, np.int32) for stem, numbers in postings.items()}
        self._times = {stem: np.array(counts, np.float32) for stem, counts in times.items()}
        lengths = np.array([len(document) for document in documents], np.float32)
        self._norm = 1.2 * (0.25 + 0.75 * lengths / max(float(lengths.mean()) if len(lengths) else 1.0, 1e-6))

    def scores(self, query: Mapping[str, float]) -> Floats:
        out = np.zeros(len(self._norm), np.float32)
        for stem, weight in query.items():
            found = self._postings.get(stem)
            if found is not None:
                times = self._times[stem]
                idf = np.log1p((len(out) - len(found) + 0.5) / (len(found) + 0.5))
                out[found] += weight * idf * times * 2.2 / (times + self._norm[found])
        return out


class _Subjects:
    """BM25 of files, each a document that holds a share of the subject of every commit that touched it."""

    def __init__(self, subjects: Sequence[frozenset[str]], touched: Sequence[Sequence[int]], files: int) -> None:
        self.files = files
        where: dict[str, list[int]] = defaultdict(list)
        share: dict[str, list[float]] = defaultdict(list)
        length = np.zeros(files, np.float32)
        for subject, homes in zip(subjects, touched, strict=True):
            if not 0 < len(homes) <= _MAX_FILES_OF_SUBJECT:
                continue
            part = 1.0 / math.sqrt(len(homes))
            length[homes] += part * len(subject)
            for stem in subject:
                where[stem] += homes
                share[stem] += [part] * len(homes)
        self._where: Mapping[str, Ints] = {stem: np.array(homes, np.int32) for stem, homes in where.items()}
        self._share: Mapping[str, Floats] = {stem: np.array(parts, np.float32) for stem, parts in share.items()}
        known = length[length > 0]
        self._known = len(known)
        self._norm = 1.2 * (0.5 + 0.5 * length / (float(known.mean()) if len(known) else 1.0))

    def scores(self, query: Mapping[str, float]) -> Floats:
        out = np.zeros(self.files, np.float32)
        for stem, weight in query.items():
            homes = self._where.get(stem)
            if homes is not None:
                times = np.bincount(homes, weights=self._share[stem], minlength=self.files).astype(np.float32)
                found = int(np.count_nonzero(times))
                idf = math.log1p((self._known - found + 0.5) / (found + 0.5))
                out += np.float32(weight * idf) * times * 2.2 / (times + self._norm)
        return out
