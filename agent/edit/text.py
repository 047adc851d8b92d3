"""Bytes ↔ text that a model can read, such that what is not edited comes back bit for bit."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass, replace

from agent.errors import ToolRefusal

_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_ODD_BYTE = re.compile("[\udc80-\udcff]")
_UTF32 = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)


class NotText(ToolRefusal):
    """The bytes are no text, or the text does not fit the file's encoding."""


@dataclass(frozen=True)
class Text:
    """The text of a file and how it was stored. ``text`` keeps its line endings."""

    text: str
    encoding: str = "utf-8"
    mark: bytes = b""
    """The byte order mark, kept apart from the text."""

    @classmethod
    def decode(cls, data: bytes) -> Text:
        """Read a file.

        UTF-16 needs its mark. What is not UTF-8 is read as Latin-1, or, where most of it is UTF-8 after all, as UTF-8
        with its odd bytes kept as surrogates. Both give back every byte.

        Raises:
            NotText: binary.
        """
        for mark, encoding in _MARKS:
            if data.startswith(mark) and not data.startswith(_UTF32):
                try:
                    return cls(data[len(mark) :].decode(encoding), encoding, mark)
                except UnicodeDecodeError:
                    break
        if b"\0" in data:
            raise NotText("The file is binary", todo="Leave it as it is")
        try:
            return cls(data.decode("utf-8"))
        except UnicodeDecodeError:
            loose = data.decode("utf-8", "surrogateescape")
        odd = sum("\udc80" <= char <= "\udcff" for char in loose)
        proper = sum(char > "\x7f" for char in loose) - odd
        return cls(loose) if proper > odd else cls(data.decode("latin-1"), "latin-1")

    def with_text(self, text: str) -> Text:
        return replace(self, text=text)

    def encode(self) -> bytes:
        """The bytes of the file.

        Raises:
            NotText: a character that the encoding does not have.
        """
        try:
            return self.mark + self.text.encode(self.encoding, self._errors)
        except UnicodeEncodeError as error:
            char = error.object[error.start]
            raise NotText(
                f"The file is stored as {self.encoding}, which has no {char!r} (U+{ord(char):04X})",
                todo="Use characters of that encoding, or an escape sequence of the language",
            ) from error

    @property
    def _errors(self) -> str:
        return "surrogateescape" if self.encoding == "utf-8" else "strict"

    @property
    def newline(self) -> str:
        """The line ending that most lines have; ``\\n`` where there is none."""
        crlf = self.text.count("\r\n")
        return "\r\n" if crlf * 2 > self.text.count("\n") else "\n"


def shown(text: str) -> str:
    """``text`` for a reader: line ends as ``\\n``, bytes that are no text as U+FFFD."""
    return _ODD_BYTE.sub("\ufffd", text.replace("\r\n", "\n"))
