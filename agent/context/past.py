"""History as a signal: what commits that talk like the issue, or that it names, have touched."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from agent.context.issue import Issue, tickets_in
from agent.context.lexical import Documents
from agent.index.corpus import Floats
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
        self._files = len(paths)
        number = {path: file for file, path in enumerate(paths) if wanted[file]}
        self._touched = [[number[path] for path in commit.files if path in number] for commit in commits]
        self._messages = Documents(len(commits))
        self._subjects = Documents(len(paths), b=0.5)
        for at, (commit, touched) in enumerate(zip(commits, self._touched, strict=True)):
            self._messages.add(stems.of(words(_TRAILER.sub("", commit.message[:3000]))), [at])
            if 0 < len(touched) <= _MAX_FILES_OF_SUBJECT:
                self._subjects.add(_subject(commit, stems), touched, 1.0 / math.sqrt(len(touched)))

    def signal(self, query: Mapping[str, float]) -> Floats:
        """For each file the best matching commits that touched it: 1 · best + ½ · second + ⅓ · third + …

        A commit counts less the older it is, and the more files it touched.
        """
        scores = self._messages.score(query) / (1.0 + np.arange(len(self._commits), dtype=np.float32) / _HALF)
        total = np.zeros(self._files, np.float32)
        seen = np.zeros(self._files, np.int32)
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
        """BM25 of each file as a document made of its share of the first lines of all commits that touched it."""
        return self._subjects.score(query)

    def named(self, issue: Issue) -> Floats:
        """Files of the commits that the issue names by id, or by a ticket that their message names too."""
        out = np.zeros(self._files, np.float32)
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
