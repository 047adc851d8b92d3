"""Structured output: asked for, validated, corrected once, then given up by name."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from agent import prompts
from agent.model.errors import ContentRefused, InvalidOutput
from agent.model.jsontext import json_objects, why_none
from agent.model.types import Finish, Message, Model, Reply

T = TypeVar("T", bound=BaseModel)

_TRIES = 2
_SHOWN = 12  # problems named to the model at once


def structured(model: Model, messages: Sequence[Message], schema: type[T]) -> T:
    """One value of ``schema`` from the model.

    Raises:
        InvalidOutput: still wrong after the model was told what is wrong.
        ContentRefused: the model or a filter declined.
        GraftsmithError: whatever else ``Model.complete`` raises.
    """
    asked = list(messages)
    wrong: Sequence[str] = ()
    for _ in range(_TRIES):
        reply = model.complete(asked, schema=schema.model_json_schema())
        value, wrong = read(reply, schema)
        if value is not None:
            return value
        # The calls are not carried out; left in the history they would wait for results for ever.
        asked.append(Message.assistant(reply.as_message().content or "[tool calls, not carried out]"))
        asked.append(Message.user(prompts.render("repair", problems=wrong[:_SHOWN])))
    raise InvalidOutput(
        f"the model gave no usable {schema.__name__.lower()}",
        why="; ".join(wrong[:3]),
        todo="Retry, or use a more capable model",
    )


def read(reply: Reply, schema: type[T]) -> tuple[T | None, Sequence[str]]:
    """The value in the reply's text, or what is wrong with it, one sentence each.

    Raises:
        ContentRefused: the model or a filter declined.
    """
    if reply.finish in (Finish.REFUSAL, Finish.CONTENT_FILTER):
        why = reply.refusal or "the provider's filter withheld the reply"
        raise ContentRefused("the model declined the task", why=why[:300], todo="Rephrase the task")
    if reply.finish is Finish.LENGTH:
        return None, ("It was cut off at the output limit: make it much shorter.",)
    if not reply.text and reply.tool_calls:
        return None, ("It holds tool calls: no tool can be used now, reply with the JSON object.",)
    return _parse(reply.text, schema)


def _parse(text: str, schema: type[T]) -> tuple[T | None, Sequence[str]]:
    """The first object that fits; when none does, what is wrong with the longest."""
    wrong: Sequence[str] = ()
    for candidate in sorted(json_objects(text), key=lambda value: -len(json.dumps(value))):
        try:
            return schema.model_validate_json(json.dumps(candidate)), ()
        except ValidationError as error:
            wrong = wrong or [_sentence(detail) for detail in error.errors(include_url=False)]
    return None, wrong or (why_none(text),)


def _sentence(detail: Any) -> str:
    where = ".".join(str(part) for part in detail["loc"]) or "the object"
    given = repr(detail["input"])
    return f"`{where}`: {detail['msg']} (given: {given if len(given) <= 80 else given[:79] + '…'})"
