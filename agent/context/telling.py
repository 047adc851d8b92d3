"""Which lines of a text say most of a task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agent.context.lexical import Lexical, Query
from agent.index.words import Stems, words

NAMED = 3.0
"""How much more a name says than another word."""


@dataclass(frozen=True)
class Telling:
    """What is looked for, word by word."""

    names: frozenset[str]
    """As they are spelled."""
    stems: Stems
    rarity: Mapping[str, float]
    """Of each stem."""

    @classmethod
    def of(cls, query: Query, names: frozenset[str], lexical: Lexical) -> Telling:
        """
        Args:
            lexical: knows how rare a stem is where the lines come from.
        """
        return cls(names, lexical.corpus.vocabulary.stems, {stem: lexical.rarity(stem) for stem in query})

    def said(self, line: str) -> float:
        """How much one line says; 0 where it shares no word."""
        rarest = {
            word: max((self.rarity.get(s, 0.0) for s in self.stems(word)), default=0.0) for word in set(words(line))
        }
        return sum(rarest[word] * (NAMED if word in self.names else 1.0) for word in sorted(rarest))
