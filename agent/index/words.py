"""Code-aware words: what counts as one, how it splits, and what stands for it in the index.

A file is indexed by its raw words (``getHTTPResponse``); a query is answered by stems (``http``, ``respons``) and by
the compound as a whole. Splitting the vocabulary instead of the text makes it cheap: a repository has a hundred times
more words than different words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import Stemmer  # type: ignore[import-not-found]

WORD = re.compile(r"[^\W\d]\w*")
_ASCII_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")  # the same there, in half the time
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_A-Za-z]+")

# English function words, and the words that every issue template contains. Words that are keywords of a language and
# carry meaning in prose (``class``, ``import``, ``raise``) stay: their weight falls with their frequency anyway.
STOP_WORDS = frozenset(
    """
    a about above after again all also although always am an and any are aren as at be because been before being
    below between both but by can cannot could couldn did didn do does doesn doing don done down during each
    either else etc even ever every few for from further get gets getting give given gives go goes going got had
    has hasn have haven having he her here hers him his how however i if in instead into is isn it its itself
    just know let like likely look looks made make makes many may maybe me might more most much must my need
    needs never no nor not now of off often on once one only or other others otherwise our out over own perhaps
    please possible quite rather really s same see seem seems she should shouldn since so some something still
    such sure t than thank thanks that the their theirs them then there therefore these they thing things think
    this those though through thus to too try trying under until up us use used using very via want wants was
    wasn way we well were weren what when where whether which while who whole whom why will with within without
    won would wouldn yes yet you your yours
    """.split()  # noqa: SIM905 - as a list it would fill a screen
)


def words(text: str) -> list[str]:
    """All raw words of ``text``, in order."""
    return (_ASCII_WORD if text.isascii() else WORD).findall(text)


def parts(word: str) -> list[str]:
    """``getHTTPResponse2`` → ``['get', 'http', 'response', '2']``."""
    return [part.lower() for part in _PART.findall(word)]


class Stems:
    """Raw word → the keys under which it is found. Remembers what it has seen; one a process is enough.

    The keys of a word are the stems of its parts (stop words and single characters left out) and, when it has
    more than one part, the whole word in lower case without underscores at its ends.
    """

    def __init__(self) -> None:
        self._parts = _Parts()
        self._word: dict[str, tuple[str, ...]] = {}

    def __call__(self, word: str) -> tuple[str, ...]:
        keys = self._word.get(word)
        if keys is None:
            keys = self._word[word] = self.keys(word)
        return keys

    def of(self, text: Iterable[str]) -> list[str]:
        """The keys of many words, in order, with repeats."""
        return [key for word in text for key in self(word)]

    def keys(self, word: str) -> tuple[str, ...]:
        """The same, without remembering it: for words that nobody asks about again."""
        split = _PART.findall(word)
        keys = dict.fromkeys(map(self._parts.__getitem__, split))
        if len(split) > 1:
            keys[word.lower().strip("_")] = None
        keys.pop("", None)
        return tuple(keys)


class _Parts(dict[str, str]):
    """Part of a word, as spelled → its stem; '' for one that says nothing."""

    def __init__(self) -> None:
        super().__init__()
        self._stemmer = Stemmer.Stemmer("english")
        self._stemmer.maxCacheSize = 0  # we remember by ourselves

    def __missing__(self, part: str) -> str:
        small = part.lower()
        stem = self[part] = "" if len(small) == 1 or small in STOP_WORDS else self._stemmer.stemWord(small)
        return stem
