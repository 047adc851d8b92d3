"""Everything that the model can do, one file per tool, in one registry."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from agent.errors import GraftsmithError
from agent.tools import (
    delete,
    diff,
    edit_file,
    find_symbol,
    finish,
    grep,
    insert,
    list_files,
    move,
    outline_file,
    plan,
    read,
    references,
    rename,
    replace_symbol,
    run_command,
    run_tests,
    search,
    step_done,
    undo,
    write,
)
from agent.tools.base import Claim, Conclusion, Limits, Registry, StepDone, Tool, ToolContext, ToolResult
from agent.types import Plan

__all__ = [
    "REGISTRY",
    "Claim",
    "Conclusion",
    "Limits",
    "Registry",
    "StepDone",
    "Tool",
    "ToolContext",
    "ToolResult",
    "call",
    "offered",
    "specs",
]

_MODULES = (
    *(plan, search, grep, find_symbol, references, read, list_files, outline_file),
    *(edit_file, insert, replace_symbol, rename, write, delete, move, undo, diff, run_tests, run_command),
    *(step_done, finish),
)
REGISTRY: Registry = {module.TOOL.name: module.TOOL for module in _MODULES}


def offered(registry: Mapping[str, Tool[Any]], plan: Plan | None) -> Registry:
    """What a model that works by ``plan`` is shown: a plan with one step has nothing to mark, and pays for no word."""
    several = plan is not None and len(plan.steps) > 1
    return {name: tool for name, tool in registry.items() if several or name != "step_done"}


def call(registry: Mapping[str, Tool[Any]], context: ToolContext, name: str, raw_arguments: str) -> ToolResult:
    """Run one call as the model sent it. What is wrong with it is a result that says what to do next.

    Args:
        raw_arguments: the JSON text of the arguments, untrusted.
    """
    tool = registry.get(name)
    if tool is None:
        return _failed(f"There is no tool {name[:60]!r}. The tools are: {', '.join(registry)}.")
    try:
        arguments = tool.arguments.model_validate(_parsed(raw_arguments, context.limits))
    except ValidationError as error:
        return _failed(f"Wrong arguments for {name}: {_problems(error, _schema(tool))}.")
    except (ValueError, RecursionError) as error:
        why = "they are nested too deeply" if isinstance(error, RecursionError) else str(error)
        return _failed(f"The arguments of {name} can't be read: {why}. Send one JSON object.")
    try:
        return tool.run(context, arguments)
    except GraftsmithError as error:
        return _failed(str(error))


def specs(registry: Mapping[str, Tool[Any]]) -> list[dict[str, Any]]:
    """The tools in the form of the OpenAI API, without anything that says nothing: it is sent with every request."""
    return [
        {
            "type": "function",
            "function": {"name": tool.name, "description": tool.description, "parameters": _schema(tool)},
        }
        for tool in registry.values()
    ]


def _failed(text: str) -> ToolResult:
    return ToolResult(text, ok=False)


def _parsed(raw: str, limits: Limits) -> dict[str, Any]:
    if len(raw) > limits.argument_bytes:
        raise ValueError(f"they have {len(raw)} characters, at most {limits.argument_bytes} are taken")
    value = json.loads(raw or "{}", strict=False)  # models send raw newlines inside strings
    if not isinstance(value, dict):
        raise ValueError(f"they are {type(value).__name__}, not an object")
    if re.search(r"\\u[dD][89a-fA-F]", raw):
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            raise ValueError("they hold half a character (a lone surrogate)") from error
    return value


def _problems(error: ValidationError, schema: Mapping[str, Any]) -> str:
    return "; ".join(
        f"`{'.'.join(map(str, problem['loc'])) or 'arguments'}`: {_problem(problem, schema)[:200]}"
        for problem in error.errors(include_url=False, include_input=False)[:5]
    )


_SHAPES = {"tuple_type": "a list", "model_type": "an object", "dict_type": "an object"}
"""Kinds of errors that pydantic tells in Python's words."""


def _problem(problem: ErrorDetails, schema: Mapping[str, Any]) -> str:
    if problem["type"] in _SHAPES:
        return f"Input should be {_SHAPES[problem['type']]}"
    if problem["type"] != "extra_forbidden":
        return problem["msg"]
    for part in problem["loc"][:-1]:
        schema = schema["items"] if isinstance(part, int) else schema["properties"][part]
    return f"there is no such field, only {', '.join(schema['properties'])}"


def _schema(tool: Tool[Any]) -> dict[str, Any]:
    schema = tool.arguments.model_json_schema()
    definitions = schema.pop("$defs", {})
    return _compact(schema, definitions)  # type: ignore[no-any-return]


_SILENT = frozenset({"title", "default", "minLength", "maxLength", "minItems", "maxItems", "minimum", "maximum"})
"""Checked here anyway, and said in the result when it matters."""


def _compact(node: Any, definitions: Mapping[str, Any]) -> Any:
    """Definitions in place, no titles, no bounds, and ``X or null`` as ``X``: optional is what is not required."""
    if isinstance(node, list):
        return [_compact(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        target = definitions[node["$ref"].rsplit("/", 1)[-1]]
        node = {k: v for k, v in {**target, "description": None, **node}.items() if k != "$ref" and v is not None}
    kept = [option for option in node.get("anyOf", ()) if option.get("type") != "null"]
    if len(kept) == 1:
        node = {**kept[0], **{k: v for k, v in node.items() if k != "anyOf"}}
    out = {}
    for key, value in node.items():
        if key == "properties":
            out[key] = {name: _compact(item, definitions) for name, item in value.items()}
        elif key not in _SILENT and value is not False and not (key == "description" and "properties" in node):
            out[key] = _compact(value, definitions)
    return out
