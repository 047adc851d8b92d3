"""A model that is made beside other work."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest

from agent.errors import OperatorError
from agent.model.beside import Beside
from agent.model.types import Finish, JsonSchema, Message, Model, OnText, Reply, ToolSpec
from agent.types import CallUsage

ASKED = (Message.user("Go on."),)


class Echo:
    """Says again what it was told, and how much it may say."""

    def complete(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[ToolSpec] = (),
        schema: JsonSchema | None = None,
        max_output_tokens: int | None = None,
        on_text: OnText | None = None,
    ) -> Reply:
        said = f"{messages[-1].content} {max_output_tokens}"
        if on_text:
            on_text(said)
        return Reply(text=said, finish=Finish.STOP, usage=CallUsage(model="echo"))


def test_nobody_waits_for_it_before_the_first_call() -> None:
    let_go = threading.Event()

    def slow() -> Model:
        let_go.wait(10)
        return Echo()

    model = Beside(slow)
    let_go.set()  # a model made on this thread would never get here
    heard: list[str] = []
    assert model.complete(ASKED, max_output_tokens=7, on_text=heard.append).text == "Go on. 7"
    assert heard == ["Go on. 7"]


def test_what_its_making_raises_is_raised_by_each_call() -> None:
    def wrong() -> Model:
        raise OperatorError("The address can't be used", todo="Set OPENAI_BASE_URL")

    model = Beside(wrong)
    for _ in range(2):
        with pytest.raises(OperatorError, match="can't be used"):
            model.complete(ASKED)
