"""What goes to a model and what comes back, apart from any wire format."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, Literal, Protocol

from pydantic import BeforeValidator

from agent.types import CallUsage, Value
from sandbox.text import sound

OnText = Callable[[str], None]
"""Gets visible text as it arrives, in pieces, in the caller's thread."""

ToolSpec = Mapping[str, Any]
"""One tool in OpenAI's form: ``{"type": "function", "function": {"name", "description", "parameters"}}``."""

JsonSchema = Mapping[str, Any]

Text = Annotated[str, BeforeValidator(sound)]


class ToolCall(Value):
    """One call that the model asks for. ``arguments`` is what it wrote: meant to be a JSON object, not checked."""

    id: Text
    name: Text
    arguments: Text


class Message(Value):
    """One entry of a conversation."""

    role: Literal["system", "user", "assistant", "tool"]
    content: Text = ""
    tool_calls: tuple[ToolCall, ...] = ()
    """Of an assistant message."""
    tool_call_id: str = ""
    """Of a tool message: the call that it answers."""

    @classmethod
    def system(cls, content: str) -> Message:
        return cls(role="system", content=content)

    @classmethod
    def user(cls, content: str) -> Message:
        return cls(role="user", content=content)

    @classmethod
    def assistant(cls, content: str, tool_calls: Sequence[ToolCall] = ()) -> Message:
        return cls(role="assistant", content=content, tool_calls=tuple(tool_calls))

    @classmethod
    def tool(cls, call: ToolCall, content: str) -> Message:
        return cls(role="tool", content=content, tool_call_id=call.id)


class Finish(StrEnum):
    """Why a reply ended."""

    STOP = "stop"
    TOOL_CALLS = "tool_calls"
    LENGTH = "length"  # cut off at the output limit, whatever the endpoint called it
    CONTENT_FILTER = "content_filter"
    REFUSAL = "refusal"


class Reply(Value):
    """One answer. ``text`` never holds reasoning; ``tool_calls`` is empty unless the reply is whole."""

    text: Text = ""
    tool_calls: tuple[ToolCall, ...] = ()
    finish: Finish
    usage: CallUsage
    refusal: Text = ""
    """The model's words when it declines."""

    @property
    def whole(self) -> bool:
        """False for a reply that was cut or withheld: nothing in it may be applied."""
        return self.finish in (Finish.STOP, Finish.TOOL_CALLS)

    def as_message(self) -> Message:
        """This reply as the next entry of the conversation; never empty, since some endpoints refuse that."""
        text = self.text or self.refusal
        if not text and not self.tool_calls:
            text = "[cut off at the output limit]" if self.finish is Finish.LENGTH else "[no text]"
        return Message.assistant(text, self.tool_calls)


class Model(Protocol):
    """Whatever completes a conversation: an endpoint, or the record of an earlier run."""

    def complete(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[ToolSpec] = (),
        schema: JsonSchema | None = None,
        max_output_tokens: int | None = None,
        on_text: OnText | None = None,
    ) -> Reply:
        """The next reply.

        Args:
            schema: a JSON schema that the reply's text should follow. The endpoint may not enforce it: validate.
            max_output_tokens: upper bound of the reply; the endpoint's own when ``None``.

        Raises:
            GraftsmithError: one of the rows in ``agent.model.errors.RECOVERIES``.
        """
        ...


class Embedder(Protocol):
    """Text → vectors."""

    @property
    def model(self) -> str: ...

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector for each text, in their order.

        Raises:
            InputRefused: the endpoint will never take this request as it is.
            GraftsmithError: anything else.
        """
        ...
