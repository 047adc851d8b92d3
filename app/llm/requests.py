"""What a run may ask of the model: one table of parameters, everything else refused. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from typing import Any

from agent.errors import UserError

LIMIT_NAMES = ("max_tokens", "max_completion_tokens")


class Refused(UserError):
    """A call that the run does not get.

    Args:
        status: the HTTP status to answer with.
        code: short name for programs, in the answer's error object.
        param: the parameter that is to blame, when it is one.
        headers: for the answer: how long to wait.
    """

    def __init__(
        self,
        what: str,
        *,
        status: int,
        code: str,
        param: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(what)
        self.status = status
        self.code = code
        self.param = param
        self.headers = headers or {}

    @property
    def error(self) -> dict[str, Any]:
        """The answer's error object, in OpenAI's form."""
        return {"message": self.what, "type": self.code, "code": self.code, "param": self.param or None}


def _flag(value: object) -> bool:
    return isinstance(value, bool)


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _messages(value: object) -> bool:
    """Plain text only: pictures and files by address would make the provider fetch what a run names."""
    return isinstance(value, list) and bool(value) and all(map(_message, value))


def _message(value: object) -> bool:
    return isinstance(value, dict) and isinstance(value.get("content"), str | None)


def _functions(value: object) -> bool:
    """Functions only: a provider's own tools (web search, code) cost apart and reach the network."""
    return isinstance(value, list) and all(isinstance(t, dict) and t.get("type") == "function" for t in value)


Check = Callable[[object], bool]

PARAMETERS: Mapping[str, Check] = {
    "model": lambda value: isinstance(value, str),
    "messages": _messages,
    "tools": _functions,
    "tool_choice": lambda value: isinstance(value, str | dict),
    "parallel_tool_calls": _flag,
    "response_format": lambda value: isinstance(value, dict),
    "stream": _flag,
    "stream_options": lambda value: isinstance(value, dict) and set(value) <= {"include_usage"},
    "max_tokens": _count,
    "max_completion_tokens": _count,
    "temperature": _number,
    "top_p": _number,
    "seed": lambda value: isinstance(value, int),
    "stop": lambda value: isinstance(value, str | list),
    "reasoning_effort": lambda value: isinstance(value, str),
}


def _texts(value: object) -> bool:
    return isinstance(value, list) and 0 < len(value) <= MOST_TEXTS and all(isinstance(text, str) for text in value)


MOST_TEXTS = 2048

EMBEDDING: Mapping[str, Check] = {
    "model": lambda value: isinstance(value, str),
    "input": _texts,
    "encoding_format": lambda value: value in ("float", "base64"),
}


def parse(data: bytes, models: Collection[str]) -> dict[str, Any]:
    """The body of a request for a completion, checked.

    Raises:
        Refused: no JSON object, a parameter that is not in the table or has another form, or another model.
    """
    return _checked(data, PARAMETERS, ("model", "messages"), models)


def parse_embedding(data: bytes, model: str) -> dict[str, Any]:
    """The body of a request for vectors, checked.

    Raises:
        Refused: as ``parse``.
    """
    return _checked(data, EMBEDDING, ("model", "input"), (model,))


def _checked(
    data: bytes, table: Mapping[str, Check], needed: Collection[str], models: Collection[str]
) -> dict[str, Any]:
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        raise Refused("the body is not JSON", status=400, code="invalid_request_error") from None
    if not isinstance(body, dict):
        raise Refused("the body is not a JSON object", status=400, code="invalid_request_error")
    for name, value in body.items():
        check = table.get(name)
        if check is None or not check(value):
            # The name comes from a run: shown short, and never the value.
            problem = "is not allowed here" if check is None else "has a form that is not allowed here"
            raise Refused(f"the parameter {name[:40]!r} {problem}", status=400, code="parameter_not_allowed")
    for name in needed:
        if name not in body:
            raise Refused(f"the parameter {name!r} is missing", status=400, code="invalid_request_error")
    if body["model"] not in models:
        raise Refused("this run may not use that model", status=403, code="model_not_allowed")
    return body


def limited(body: Mapping[str, Any], most: int, name: str) -> dict[str, Any]:
    """``body`` with an output limit of at most ``most`` tokens, under the name that the provider takes."""
    asked = [body[known] for known in LIMIT_NAMES if known in body]
    rest = {key: value for key, value in body.items() if key not in LIMIT_NAMES}
    return rest | {name: min([most, *asked])}
