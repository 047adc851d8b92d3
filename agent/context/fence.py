"""Fences around untrusted text, which that text can't close: the delimiter is derived from the run's secret."""

from __future__ import annotations

import hashlib
import hmac


def fence(kind: str, label: str, text: str, seed: str) -> str:
    """``text`` between two lines that name ``kind`` and carry a tag only the holder of ``seed`` can make.

    The tag depends on the text too, so that one fence, once seen, opens no other; the same input gives the same bytes.
    """
    tag = hmac.new(
        seed.encode(), f"{kind}\0{label}\0{text}".encode("utf-8", "surrogatepass"), hashlib.sha256
    ).hexdigest()[:16]
    shown = " ".join(label.split())
    return f"<<<{kind} {tag} {shown}\n{text}\n{kind} {tag}>>>"
