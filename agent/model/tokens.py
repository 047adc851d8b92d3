"""How many tokens a text has, estimated without any tokenizer's data."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

Counter = Callable[[str], int]

# How byte-pair tokenizers cut text before merging: a word with one sign or blank before it, up to three digits, a run
# of signs with the line end after it, a run of white space.
_PIECE = re.compile(r"(?:[^\r\n\w]|_)?([^\W\d_]+)|(\d{1,3})|( ?(?:[^\w\s]|_)+[\r\n]*)|\s+")
_HUMP = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_SHORT = 40
"""Letters of a word that is likely to come again; nobody's endless ones are kept."""


def estimate_tokens(text: str) -> int:
    """Tokens of ``text``, estimated: code, prose, JSON and logs come out within a quarter of the real count."""
    total = 0.0
    for match in _PIECE.finditer(text):
        kind = match.lastindex
        if kind == 1:
            word = match[1]
            total += _short_word(word) if len(word) <= _SHORT else _word(word)
        else:
            total += _signs(match[3]) if kind == 3 else 1.0
    return round(total * 1.03)


def _word(word: str) -> float:
    if word.isascii():
        return sum(max(1.0, len(hump) / (3.5 if hump.isupper() else 7.5)) for hump in _HUMP.findall(word))
    # Latin with accents and Cyrillic have two bytes a letter and some whole words; CJK has three and few.
    return max(1.0, sum(0.3 if sign < "\u0250" else 0.4 if sign < "\u0800" else 0.9 for sign in word))


_short_word = lru_cache(16_384)(_word)


def _signs(signs: str) -> float:
    plain = sum(sign < "\x80" for sign in signs)
    return max(1.0, plain / 2.5 + (len(signs) - plain) * 1.2)
