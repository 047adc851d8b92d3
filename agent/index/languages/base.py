"""What one language must say about itself. A new language is a new file beside this one and a line in the registry."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from agent.index.record import Import

Grammar = Any
"""What ``tree_sitter.Language`` is made from: a pointer or a capsule."""


class Node(Protocol):
    """The part of ``tree_sitter.Node`` that languages use."""

    @property
    def type(self) -> str: ...
    @property
    def text(self) -> bytes | None: ...
    @property
    def start_byte(self) -> int: ...
    @property
    def end_byte(self) -> int: ...
    @property
    def named_children(self) -> list[Node]: ...
    @property
    def children(self) -> list[Node]: ...
    @property
    def parent(self) -> Node | None: ...
    def child(self, index: int, /) -> Node | None: ...
    def child_by_field_name(self, name: str, /) -> Node | None: ...


class Files(Protocol):
    """The paths of a tree, as import resolution asks for them."""

    def __contains__(self, path: str, /) -> bool: ...

    def ending(self, tail: str, /) -> list[str]:
        """Paths that are ``tail`` or end in ``/tail``, shortest first."""

    def under(self, folder: str, /) -> list[str]:
        """Files directly in ``folder`` (no trailing slash; '' is the root), in order."""

    def text(self, path: str, /) -> str:
        """Content of a small configuration file (``go.mod``, ``tsconfig.json``), '' where there is none."""


def wheel(module: str, function: str = "language") -> Callable[[], Grammar]:
    """A grammar from its own wheel, loaded when the first file needs it."""
    return lambda: getattr(importlib.import_module(module), function)()


def field_name(node: Node) -> str:
    """Name of a definition where the grammar has a ``name`` field."""
    name = node.child_by_field_name("name")
    return text(name) if name is not None else ""


def text(node: Node) -> str:
    """Source of a node."""
    return (node.text or b"").decode("utf-8", "replace")


def same_kind(node: Node, kind: str) -> str:
    return kind


def no_imports(node: Node) -> Iterable[Import]:
    return ()


def no_target(item: Import, path: str, files: Files) -> list[str]:
    return []


def no_tests(path: str) -> bool:
    return False


@dataclass(frozen=True)
class Language:
    """How to read one language. Node types are those of its tree-sitter grammar."""

    name: str
    suffixes: tuple[str, ...]
    grammar: Callable[[], Grammar]
    definitions: Mapping[str, str]
    """Node type → kind of symbol."""
    file_names: tuple[str, ...] = ()
    interpreters: tuple[str, ...] = ()
    """Names on a ``#!`` line."""
    scopes: frozenset[str] = frozenset()
    """Definitions whose members are symbols too, named ``Outer.member``."""
    transparent: frozenset[str] = frozenset()
    """Node types that are looked into and define nothing: blocks, conditions, namespaces' bodies."""
    wrappers: frozenset[str] = frozenset()
    """Node types whose span a definition inside takes over: decorators, ``export``, ``template <…>``."""
    bodies: frozenset[str] = frozenset()
    """Node types that end a signature, where the grammar has no ``body`` field."""
    name_of: Callable[[Node], str] = field_name
    """Name of a definition; '' for a node that turns out not to be one, which is then looked into."""
    kind_of: Callable[[Node, str], str] = same_kind
    """Kind of a definition where its node type alone does not tell."""
    import_nodes: frozenset[str] = frozenset()
    imports: Callable[[Node], Iterable[Import]] = no_imports
    resolve: Callable[[Import, str, Files], list[str]] = no_target
    """(import, importing path, files) → the files it reaches, best first; [] for what lies outside the tree."""
    is_test: Callable[[str], bool] = no_tests
    """Says of a path whether the language's own conventions make it a test."""
    docstring: Callable[[Node], str] | None = None
    """First line of a docstring inside the definition; by default the comment above is taken."""
    comments: frozenset[str] = frozenset({"comment", "line_comment", "block_comment"})


@dataclass(frozen=True)
class Pattern:
    """A test-path rule: names of folders anywhere, of top folders, and a pattern of file names."""

    folders: frozenset[str] = frozenset()
    top: frozenset[str] = frozenset()
    names: re.Pattern[str] = field(default_factory=lambda: re.compile(r"(?!)"))

    def __call__(self, path: str) -> bool:
        *folders, name = path.split("/")
        return (
            self.names.search(name) is not None
            or not self.folders.isdisjoint(folders)
            or (bool(folders) and folders[0] in self.top)
        )


def descend(node: Node, *types: str) -> Iterator[Node]:
    """All nodes of the given types below ``node``, outermost first, in order; bounded to 10,000 nodes."""
    stack, seen = [node], 0
    while stack and seen < 10_000:
        current = stack.pop()
        seen += 1
        if current is not node and current.type in types:
            yield current
        else:
            stack.extend(reversed(current.named_children))


def line_of(node: Any) -> int:
    """1-based line on which a node starts."""
    return int(node.start_point[0]) + 1


def unquote(value: str) -> str:
    """A string literal without its quotes."""
    return value.strip("\"'`<>")


def join(folder: str, relative: str) -> str | None:
    """``a/b`` and ``../c`` → ``a/c``; ``None`` when it leaves the tree."""
    out = [part for part in folder.split("/") if part]
    for part in relative.split("/"):
        if part == "..":
            if not out:
                return None
            out.pop()
        elif part not in ("", "."):
            out.append(part)
    return "/".join(out)


def parent(path: str) -> str:
    """The folder of a path; '' at the root."""
    return path.rpartition("/")[0]


def declared_name(node: Node) -> str:
    """Name inside a chain of C declarators: ``char *(*f)(int)`` → ``f``."""
    current: Node | None = node.child_by_field_name("declarator")
    while current is not None:
        inner = current.child_by_field_name("declarator")
        if inner is None and current.type in ("parenthesized_declarator", "reference_declarator"):
            inner = current.named_children[0] if current.named_children else None
        if inner is None:
            return text(current) if current.type in _NAMES else ""
        current = inner
    return ""


_NAMES = frozenset(
    {
        "identifier", "field_identifier", "qualified_identifier", "destructor_name", "operator_name", "type_identifier",
        "template_function",
    }
)  # fmt: skip


def dotted_file(module: str, files: Files, suffixes: tuple[str, ...]) -> list[str]:
    """``a.b.C`` (or ``a.b.C.member``) → the file ``…/a/b/C`` with one of the suffixes."""
    parts = [part for part in module.split(".") if part and part != "*"]
    for tail in (parts, parts[:-1]):
        for suffix in suffixes:
            found = files.ending("/".join(tail) + suffix) if len(tail) > 1 else []
            if found:
                return found[:1]
    return []
