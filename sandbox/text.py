"""Turns the raw bytes of a program's output into text that is safe to show, to store and to hand to a model."""

from __future__ import annotations

import re

# Operating-system commands, device-control strings and their kin run to BEL or ST. Cut at the end of the line where
# the terminator is missing, or one broken sequence would swallow the rest of the log.
_STRING_SEQUENCE = re.compile(r"(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?")
_CONTROL_SEQUENCE = re.compile(r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?")
_ESCAPE = re.compile(r"\x1b[ -/]*[0-~]?")
_BACKSPACE = re.compile(r"[^\n\x08]\x08")
# C0 (but tab and newline), DEL, C1, the signs that reorder text, and the invisible tag characters.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028\u2029\u202a-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]"
)
_NOTE = "\n[... {missing} characters left out ...]\n"


def clean(data: bytes, limit: int | None = None) -> str:
    """Decode, strip and shorten a program's output.

    Bad UTF-8 shows as U+FFFD, one for each maximal bad part. Escape sequences, control characters, signs that reorder
    text and invisible ones are gone; tab and newline stay. Of a line that was overwritten with carriage returns the
    last state stays.

    Args:
        limit: most characters to return; a longer text keeps its head (a quarter) and its tail, with a note between.
    """
    text = data.decode("utf-8", "replace").replace("\r\n", "\n")
    text = _STRING_SEQUENCE.sub("", text)
    text = _CONTROL_SEQUENCE.sub("", text)
    text = _ESCAPE.sub("", text)
    text = _last_states(text)
    text = _BACKSPACE.sub("", text)
    return shorten(_UNSEEN.sub("", text), limit)


def sound(text: str) -> str:
    """``text`` as proper Unicode, which alone can be stored and sent.

    What Python makes of bytes that are no UTF-8 (a file's name, an argument) shows as in :func:`clean`. Other halves of
    a character, as JSON may hold them, are joined where they stand together; a lone one becomes U+FFFD.
    """
    if text.isascii():
        return text
    try:
        return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _last_states(text: str) -> str:
    if "\r" not in text:
        return text
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))


def shorten(text: str, limit: int | None) -> str:
    """Cut the middle out of ``text`` so that at most ``limit`` characters remain, the note included."""
    if limit is None or len(text) <= limit:
        return text
    note = _NOTE.format(missing=len(text))  # the widest that it can get; the true number is not longer
    room = max(0, limit - len(note))
    head, tail = room // 4, room - room // 4
    note = _NOTE.format(missing=len(text) - room)
    return (text[:head] + note + text[len(text) - tail :])[:limit]
