"""The long tail: definitions only, from the grammars inside ``tree-sitter-languages``.

That package's own loader works with no tree-sitter after 0.21, but its compiled grammars do: they are taken from its
library and handed over as capsules. Where the package is missing (Python 3.13) these languages are read as plain text.
"""

from __future__ import annotations

import ctypes
import importlib.util
import re
from collections.abc import Callable
from pathlib import Path

from agent.index.languages.base import Grammar, Language, Node, Pattern, descend, same_kind, text


def bundled(name: str) -> Callable[[], Grammar]:
    """A grammar of ``languages.so``.

    Raises:
        ImportError: when called, where the package or the grammar is missing.
    """

    def load() -> Grammar:
        spec = importlib.util.find_spec("tree_sitter_languages")
        if spec is None or spec.origin is None:
            raise ImportError("tree_sitter_languages is not installed")
        library = ctypes.CDLL(str(Path(spec.origin).with_name("languages.so")))
        try:
            function = getattr(library, f"tree_sitter_{name}")
        except AttributeError as error:
            raise ImportError(f"no grammar for {name}") from error
        function.restype = ctypes.c_void_p
        capsule = ctypes.pythonapi.PyCapsule_New
        capsule.restype = ctypes.py_object
        capsule.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        return capsule(function(), b"tree_sitter.Language", None)

    return load


_NAME_NODES = (
    "identifier", "name", "symbol", "sym_lit", "value_name", "module_name", "type_constructor", "atom", "word",
    "lower_case_identifier", "upper_case_identifier", "constant", "alias", "variable", "type", "string_lit",
)  # fmt: skip


def _name(node: Node) -> str:
    """The ``name`` field where there is one, else the first identifier inside."""
    named = next((found for field in _FIELDS if (found := node.child_by_field_name(field)) is not None), None)
    if named is None:
        named = next(iter(descend(node, *_NAME_NODES)), None)
    name = text(named).strip("\"'") if named is not None else ""
    return re.sub(r"\s+", " ", name)[:100]


_FIELDS = ("name", "function_name", "selector", "pattern")


def _elixir(node: Node) -> str:
    """``defmodule A do`` and ``def f(x)`` are calls; every other call is looked into."""
    target = node.child_by_field_name("target")
    verb = text(target) if target is not None else ""
    if not re.fullmatch(r"def(?:module|p|macrop?|protocol|impl|guardp?|struct)?", verb):
        return ""
    arguments = next((child for child in node.named_children if child.type == "arguments"), None)
    first = arguments.named_children[0] if arguments is not None and arguments.named_children else None
    return re.split(r"[\s(]", text(first), maxsplit=1)[0] if first is not None else ""


def _elixir_kind(node: Node, kind: str) -> str:
    target = node.child_by_field_name("target")
    return "class" if target is not None and text(target) in ("defmodule", "defprotocol", "defimpl") else kind


def _block(node: Node) -> str:
    """``resource "aws_vpc" "main" {`` → ``resource.aws_vpc.main``."""
    labels = [text(child).strip('"') for child in node.named_children if child.type in ("identifier", "string_lit")]
    return ".".join(labels)


_TESTS = Pattern(
    folders=frozenset({"test", "tests", "spec", "t"}), names=re.compile(r"(?:_|-|\.)(?:test|spec)s?\.\w+$")
)


def _language(
    name: str,
    suffixes: str,
    definitions: dict[str, str],
    *,
    scopes: str = "",
    transparent: str = "",
    name_of: Callable[[Node], str] = _name,
    kind_of: Callable[[Node, str], str] = same_kind,
    files: str = "",
) -> Language:
    return Language(
        name=name,
        suffixes=tuple(suffixes.split()),
        file_names=tuple(files.split()),
        grammar=bundled(name),
        definitions=definitions,
        scopes=frozenset(scopes.split()),
        transparent=frozenset(transparent.split()),
        name_of=name_of,
        kind_of=kind_of,
        is_test=_TESTS,
    )


TAIL = (
    _language("perl", ".pl .pm .t", {"function_definition": "function", "package_statement": "module"}),
    _language("haskell", ".hs", {"function": "function", "adt": "type", "newtype": "type", "class": "interface",
              "type_alias": "type", "instance": "class"}),
    _language("elixir", ".ex .exs", {"call": "function"}, scopes="call", transparent="do_block", name_of=_elixir,
              kind_of=_elixir_kind),
    _language("ocaml", ".ml", {"value_definition": "function", "type_definition": "type", "module_definition": "module",
              "class_definition": "class"}),
    _language("julia", ".jl", {"function_definition": "function", "short_function_definition": "function",
              "struct_definition": "class", "macro_definition": "function", "module_definition": "module",
              "abstract_definition": "type"}, scopes="module_definition"),
    _language("r", ".r", {"left_assignment": "function", "equals_assignment": "function"}),
    _language("erlang", ".erl .hrl", {"fun_decl": "function", "record_decl": "type", "module_attribute": "module"}),
    _language("elm", ".elm", {"value_declaration": "function", "type_declaration": "type",
              "type_alias_declaration": "type"}),
    _language("fortran", ".f90 .f95 .f03 .f08", {"subroutine": "function", "function": "function", "module": "module",
              "program": "module"}, scopes="module program", transparent="internal_procedures"),
    _language("objc", ".m .mm", {"class_interface": "class", "class_implementation": "class", "protocol_declaration":
              "interface", "method_definition": "function", "function_definition": "function"},
              scopes="class_interface class_implementation protocol_declaration",
              transparent="implementation_definition"),
    _language("commonlisp", ".lisp .cl .lsp", {"defun": "function"}, transparent="list_lit"),
    _language("elisp", ".el", {"function_definition": "function", "macro_definition": "function"}),
    _language("hcl", ".tf .hcl .tfvars", {"block": "class"}, transparent="body", name_of=_block),
    _language("hack", ".hack .hh", {"function_declaration": "function", "class_declaration": "class",
              "method_declaration": "function"}, scopes="class_declaration", transparent="member_declarations"),
    _language("make", ".mk", {"rule": "function", "variable_assignment": "variable"}, files="Makefile GNUmakefile"),
)  # fmt: skip
