"""How many tokens a text takes."""

from __future__ import annotations

import re

_PIECE = re.compile(r"[^\W\d_]+|\d|[^\w\s]|_|\s+")


def count(text: str) -> int:
    """An estimate that errs upwards: one token a word of up to six letters, a digit, a sign or a run of blanks."""
    total = 0
    for piece in _PIECE.findall(text):
        if piece[0].isalpha():
            total += -(-len(piece) // 6) if piece.isascii() else 2 * len(piece)
        elif piece.isspace():
            total += piece.count("\n") or (1 if len(piece) > 1 else 0)
        else:
            total += 1 if piece.isascii() else 3
    return total
