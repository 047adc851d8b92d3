"""The languages that the index reads: a plain dict, filled file by file. Where two want a suffix, the later has it."""

from __future__ import annotations

from agent.index.languages import (
    bash,
    c,
    c_sharp,
    cpp,
    go,
    java,
    javascript,
    kotlin,
    lua,
    php,
    python,
    ruby,
    rust,
    scala,
    swift,
    tail,
    typescript,
)
from agent.index.languages.base import Language

LANGUAGES: dict[str, Language] = {
    language.name: language
    for language in (
        *tail.TAIL,
        bash.LANGUAGE,
        c.LANGUAGE,
        c_sharp.LANGUAGE,
        cpp.LANGUAGE,
        go.LANGUAGE,
        java.LANGUAGE,
        javascript.LANGUAGE,
        kotlin.LANGUAGE,
        lua.LANGUAGE,
        php.LANGUAGE,
        python.LANGUAGE,
        ruby.LANGUAGE,
        rust.LANGUAGE,
        scala.LANGUAGE,
        swift.LANGUAGE,
        typescript.LANGUAGE,
        typescript.TSX,
    )
}

_BY_SUFFIX = {suffix: language for language in LANGUAGES.values() for suffix in language.suffixes}
_BY_NAME = {name: language for language in LANGUAGES.values() for name in language.file_names}
_BY_INTERPRETER = {name: language for language in LANGUAGES.values() for name in language.interpreters}


def language_by_name(path: str) -> Language | None:
    """The language that a file's name tells; ``None`` for text, or where only its ``#!`` line can tell."""
    name = path.rpartition("/")[2]
    return _BY_NAME.get(name) or _BY_SUFFIX.get(name[name.rfind(".") :].lower() if "." in name[1:] else "")


def language_by_head(head: bytes) -> Language | None:
    """The language that a ``#!`` line names."""
    if not head.startswith(b"#!"):
        return None
    words = head[2:].split(b"\n", 1)[0].decode("ascii", "replace").replace("/", " ").split()
    programs = [word for word in words if word in _BY_INTERPRETER]
    return _BY_INTERPRETER[programs[0]] if programs else None
