"""What a scripted model says: sessions of replies, by the conversation that they answer.

Pure, but for reading the file.
Which session of the script answers, and with which step, follows from the request alone: the session is the first
whose ``when`` texts all stand in the messages before the first reply, the step is the number of replies so far (which
the ids of calls hold, so that a client may leave out old replies), and the attempt is the client's retry count. Nothing
is remembered between requests, so a run that was killed and is repeated gets the same answers from the start, and
several runs can be under way at once.

A script is JSON::

    {"sessions": [
      {"name": "fix", "when": ["median"], "steps": [
        {"content": "{\\"intent\\": \\"bug_fix\\"}"},
        {"expect": ["2 failed"], "tool_calls": [{"name": "edit", "arguments": {"path": "a.py"}}]},
        {"attempts": [{"status": 502, "raw": "<h1>Bad gateway</h1>", "content_type": "text/html"},
                      {"content": "done"}]}
      ]}
    ]}
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from agent.errors import UserError
from agent.types import Value


class ScriptedCall(Value):
    """A tool call to make. ``arguments`` as an object is sent as its JSON text, a string as it is."""

    name: str
    arguments: Mapping[str, Any] | str = Field(default_factory=dict)
    id: str | None = None
    """``None``: a unique one."""


class Step(Value):
    """One reply, or one way to fail."""

    expect: tuple[str, ...] | str = ()
    """Texts that must stand in the last message; otherwise the request is answered with an error that names them."""
    content: str | None = None
    reasoning: str = ""
    tool_calls: tuple[ScriptedCall, ...] = ()
    finish_reason: str | None = None
    """``None``: ``tool_calls`` or ``stop``, as the reply is."""
    usage: bool | Mapping[str, Any] | None = True
    """True: counted. False: left out. A mapping or null: sent as it is."""
    status: int = 200
    error: str | Mapping[str, Any] = "a scripted failure"
    """Sent when ``status`` is 400 or more."""
    raw: Any = None
    """Sent in place of everything else: a string as it is, anything else as JSON."""
    content_type: str = "application/json"
    """Of ``raw``."""
    headers: Mapping[str, str] = Field(default_factory=dict)
    delay_s: float = 0.0
    refuse: tuple[str, ...] = ()
    """Parameters that are answered with 400 when the request has one of them."""
    drop: bool = False
    """Close the connection without an answer."""
    drop_after: int | None = None
    """Close the connection after this many events of a stream."""
    attempts: tuple[Step, ...] = ()
    """Instead of the above: one step for each attempt at the same request; the last one answers all later ones."""


class Session(Value):
    """The replies of one conversation, in order."""

    name: str
    when: tuple[str, ...] | str = ()
    """Texts that must all stand in the messages before the first reply. Empty: any conversation."""
    steps: tuple[Step, ...]


class Script(Value):
    """A whole script file."""

    sessions: tuple[Session, ...]
    model: str = "scripted"
    only: bool = False
    """Requests for another model are answered as one that is not there."""
    comment: str = ""

    @classmethod
    def load(cls, source: Path | Mapping[str, Any]) -> Script:
        """
        Raises:
            UserError: the file can't be read or has another form; the message names the place.
        """
        try:
            return cls.model_validate(json.loads(source.read_text("utf-8")) if isinstance(source, Path) else source)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            raise UserError(f"the script is wrong at {where}", why=first["msg"], todo="Correct the script") from error
        except (OSError, ValueError) as error:
            raise UserError(f"the script {source} can't be read", why=str(error), todo="Correct the script") from error

    def step(self, messages: Sequence[Mapping[str, Any]], attempt: int) -> Step:
        """The step that answers this conversation.

        Raises:
            Mismatch: no session or step is meant for it, or the last message is not what the step expects.
        """
        replies = [index for index, message in enumerate(messages) if message.get("role") == "assistant"]
        opening = "\n".join(_text(message) for message in messages[: replies[0] if replies else len(messages)])
        session = next((s for s in self.sessions if all(text in opening for text in _several(s.when))), None)
        if session is None:
            wanted = "; ".join(f"{s.name} wants {_several(s.when)}" for s in self.sessions)
            raise Mismatch(f"no session of the script is meant for this conversation ({wanted})", opening)
        last = _text(messages[-1]) if messages else ""
        at = position(messages)
        where = f"session {session.name!r}, step {at + 1}"
        if at >= len(session.steps):
            raise Mismatch(f"{where}: the script ends after {len(session.steps)} steps", last)
        step = session.steps[at]
        if step.attempts:
            step = step.attempts[min(attempt, len(step.attempts) - 1)]
        missing = [text for text in _several(step.expect) if text not in last]
        if missing:
            raise Mismatch(f"{where}: the last message should contain {missing}", last)
        return step


class Mismatch(UserError):
    """The conversation is not the one that the script was written for."""

    def __init__(self, what: str, text: str) -> None:
        shown = text if len(text) <= 400 else f"{text[:200]} […] {text[-200:]}"
        super().__init__(what, why=f"it reads: {shown!r}", todo="Correct the script or what calls it")


def position(messages: Sequence[Mapping[str, Any]]) -> int:
    """Replies so far: those since the last one that says which it was, and that one with those before it."""
    since = 0
    for message in reversed(messages):
        if message.get("role") == "assistant":
            since += 1
            for call in message.get("tool_calls") or ():
                if numbered := _OUR_ID.fullmatch(str(call.get("id"))):
                    return int(numbered[1]) + since
    return since


_OUR_ID = re.compile(r"call_(\d+)_\d+")


def _several(texts: tuple[str, ...] | str) -> tuple[str, ...]:
    return (texts,) if isinstance(texts, str) else texts


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    return content if isinstance(content, str) else json.dumps(content) if content else ""
