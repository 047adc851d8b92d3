"""The languages that the index reads: a plain dict, filled file by file."""

from __future__ import annotations

from agent.index.languages import python
from agent.index.languages.base import Language

LANGUAGES: dict[str, Language] = {module.LANGUAGE.name: module.LANGUAGE for module in (python,)}

_BY_SUFFIX = {suffix: language for language in LANGUAGES.values() for suffix in language.suffixes}
_BY_NAME = {name: language for language in LANGUAGES.values() for name in language.file_names}
_BY_INTERPRETER = {name: language for language in LANGUAGES.values() for name in language.interpreters}


def language_of(path: str, head: bytes = b"") -> Language | None:
    """The language of a file, by its name, else by its ``#!`` line; ``None`` for plain text."""
    name = path.rpartition("/")[2]
    known = _BY_NAME.get(name)
    if known is not None:
        return known
    dot = name.rfind(".")
    if dot > 0:
        return _BY_SUFFIX.get(name[dot:].lower())
    if head.startswith(b"#!"):
        line = head.split(b"\n", 1)[0].decode("ascii", "replace")
        program = line[2:].split("/")[-1].split()
        if program and program[0] == "env":
            program = [word for word in program[1:] if not word.startswith("-")]
        return _BY_INTERPRETER.get(program[0]) if program else None
    return None
