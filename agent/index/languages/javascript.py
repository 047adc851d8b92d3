"""JavaScript, and what TypeScript shares with it: ES modules, CommonJS, re-exports, ``index`` files, path aliases."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from agent.index.languages.base import Files, Language, Node, Pattern, join, line_of, parent, text, unquote, wheel
from agent.index.record import Import

_ENDINGS = (".ts", ".tsx", ".mts", ".cts", ".d.ts", ".js", ".jsx", ".mjs", ".cjs", ".vue", ".svelte")
_FUNCTIONS = ("arrow_function", "function_expression", "function", "generator_function")


def imports(node: Node) -> Iterable[Import]:
    """``import``, ``export … from``, ``require`` and ``import()`` bound to a name."""
    source = node.child_by_field_name("source")
    if node.type == "variable_declarator":
        yield from _required(node)
    elif source is not None:
        exported = node.type == "export_statement"
        names = tuple(_names(node))
        yield Import(unquote(text(source)), names or ((("*", "*"),) if exported else ()), line_of(node), "", exported)


def _names(node: Node) -> Iterable[tuple[str, str]]:
    for child in node.named_children:
        if child.type in ("import_clause", "named_imports", "export_clause"):
            yield from _names(child)
        elif child.type in ("import_specifier", "export_specifier"):
            name, alias = child.child_by_field_name("name"), child.child_by_field_name("alias")
            if name is not None:
                yield text(name), text(alias or name)
        elif child.type == "namespace_import":
            yield "*", text(child.named_children[-1]) if child.named_children else "*"
        elif child.type == "identifier":
            yield "default", text(child)


def _required(node: Node) -> Iterable[Import]:
    value, name = node.child_by_field_name("value"), node.child_by_field_name("name")
    if value is not None and value.type == "await_expression" and value.named_children:
        value = value.named_children[0]
    if value is None or name is None or value.type != "call_expression":
        return
    function, arguments = value.child_by_field_name("function"), value.child_by_field_name("arguments")
    if function is None or text(function) not in ("require", "import") or arguments is None:
        return
    first = arguments.named_children[0] if arguments.named_children else None
    if first is not None and first.type == "string":
        bound = re.findall(r"(\w+)(?:\s*:\s*(\w+))?", text(name)) if name.type == "object_pattern" else []
        names = tuple((there, here or there) for there, here in bound) or (("default", text(name)),)
        yield Import(unquote(text(first)), names, line_of(node))


def resolve(item: Import, path: str, files: Files) -> list[str]:
    """Relative paths, ``index`` files, ``baseUrl`` and ``paths`` of a ``tsconfig.json``, packages of a workspace."""
    module = item.module
    if module.startswith("."):
        stem = join(parent(path), module)
        return [] if stem is None else _file(stem, files)
    for stem in _aliases(module, path, files):
        found = _file(stem, files)
        if found:
            return found
    return _workspace(module, files)


def _file(stem: str, files: Files) -> list[str]:
    if stem in files:
        return [stem]
    base = re.sub(r"\.[cm]?jsx?$", "", stem)  # ``./a.js`` is how TypeScript writes ``./a.ts``
    for candidate in (stem, base):
        for ending in _ENDINGS:
            for path in (candidate + ending, f"{candidate}/index{ending}".lstrip("/")):
                if path in files:
                    return [path]
    return []


def _aliases(module: str, path: str, files: Files) -> Iterable[str]:
    folder = parent(path)
    while True:
        for name in ("tsconfig.json", "jsconfig.json"):
            options = _options(files.text(f"{folder}/{name}".lstrip("/")))
            base = join(folder, str(options.get("baseUrl", "."))) or ""
            paths = options.get("paths")
            for pattern, targets in paths.items() if isinstance(paths, dict) else ():
                head, star, tail = pattern.partition("*")
                if module.startswith(head) and module.endswith(tail) and (star or module == head):
                    middle = module[len(head) : len(module) - len(tail)]
                    for target in targets if isinstance(targets, list) else ():
                        yield join(base, str(target).replace("*", middle)) or ""
            if "baseUrl" in options:
                yield f"{base}/{module}".lstrip("/")
        if not folder:
            break
        folder = parent(folder)
    if module.startswith(("@/", "~/")):
        yield f"src/{module[2:]}"
        yield module[2:]


_COMMENTS = re.compile(r"//[^\n\"]*$|/\*.*?\*/|,(?=\s*[}\]])", re.MULTILINE | re.DOTALL)


def _options(config: str) -> dict[str, object]:
    if not config:
        return {}
    try:
        found = json.loads(_COMMENTS.sub("", config)).get("compilerOptions", {})
    except (ValueError, AttributeError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _workspace(module: str, files: Files) -> list[str]:
    parts = module.split("/")
    name = "/".join(parts[:2]) if module.startswith("@") else parts[0]
    rest = module[len(name) + 1 :]
    for config in files.ending(f"{name.rpartition('/')[2]}/package.json")[:4]:
        if f'"{name}"' not in files.text(config):
            continue
        folder = parent(config)
        for stem in (
            (f"{folder}/{rest}", f"{folder}/src/{rest}") if rest else (f"{folder}/src/index", f"{folder}/index")
        ):
            found = _file(stem, files)
            if found:
                return found
    return []


def name_of(node: Node) -> str:
    """Also ``exports.x = …`` and ``X.prototype.y = function …``."""
    if node.type == "assignment_expression":
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        if left is None or right is None or right.type not in (*_FUNCTIONS, "class"):
            return ""
        name = re.sub(r"^(?:module\.)?exports\.|\.prototype(?=\.)|^this\.", "", text(left))
        return name if re.fullmatch(r"[\w$.]{1,100}", name) and name != "module.exports" else ""
    name_node = node.child_by_field_name("name") or node.child_by_field_name("property")
    if name_node is None or name_node.type in ("object_pattern", "array_pattern"):
        return "default" if node.type in ("function_declaration", "class_declaration") else ""
    return unquote(text(name_node))


def kind_of(node: Node, kind: str) -> str:
    """A variable or field that holds a function is a function."""
    value = node.child_by_field_name("value") or node.child_by_field_name("right")
    if kind == "variable" and value is not None:
        if value.type in _FUNCTIONS:
            return "function"
        if value.type == "call_expression" and _wraps_function(value):
            return "function"
        if value.type == "class":
            return "class"
    return kind


def _wraps_function(call: Node) -> bool:
    """``memo(() => …)``, ``forwardRef(function …)``, ``defineComponent(…)``."""
    arguments = call.child_by_field_name("arguments")
    return arguments is not None and any(child.type in _FUNCTIONS for child in arguments.named_children[:1])


DEFINITIONS = {
    "function_declaration": "function",
    "generator_function_declaration": "function",
    "class_declaration": "class",
    "method_definition": "function",
    "field_definition": "variable",
    "variable_declarator": "variable",
    "assignment_expression": "variable",
}
# A call at module level may hold the whole module: ``(function () { … })()``, ``define([…], function () { … })``.
TRANSPARENT = frozenset(
    {
        "program", "export_clause", "if_statement", "else_clause", "try_statement", "expression_statement",
        "statement_block", "call_expression", "arguments", "arrow_function", "function_expression",
        "parenthesized_expression", "unary_expression", "class_body",
    }
)  # fmt: skip
IS_TEST = Pattern(
    folders=frozenset({"__tests__", "__mocks__", "test", "tests", "spec", "specs", "e2e", "cypress"}),
    names=re.compile(r"[._-](?:test|spec|e2e|stories)\.[cm]?[jt]sx?$|^(?:test|spec)\.[cm]?[jt]sx?$"),
)

LANGUAGE = Language(
    name="javascript",
    suffixes=(".js", ".jsx", ".mjs", ".cjs"),
    interpreters=("node", "deno", "bun"),
    grammar=wheel("tree_sitter_javascript"),
    definitions=DEFINITIONS,
    scopes=frozenset({"class_declaration"}),
    transparent=TRANSPARENT,
    wrappers=frozenset({"export_statement", "lexical_declaration", "variable_declaration"}),
    name_of=name_of,
    kind_of=kind_of,
    import_nodes=frozenset({"import_statement", "export_statement", "variable_declarator"}),
    imports=imports,
    resolve=resolve,
    is_test=IS_TEST,
)
