"""A model that gets ready while something else is done: importing its client takes longer than many a test run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from agent.model.types import JsonSchema, Message, Model, OnText, Reply, ToolSpec


class Beside:
    """Stands for the model that ``make`` returns; made on a thread of its own from now on.

    What ``make`` raises, the first call raises.
    """

    def __init__(self, make: Callable[[], Model]) -> None:
        thread = ThreadPoolExecutor(1, thread_name_prefix="model")
        self._made = thread.submit(make)
        thread.shutdown(wait=False)

    def complete(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[ToolSpec] = (),
        schema: JsonSchema | None = None,
        max_output_tokens: int | None = None,
        on_text: OnText | None = None,
    ) -> Reply:
        """See :class:`agent.model.types.Model`."""
        model = self._made.result()
        return model.complete(
            messages, tools=tools, schema=schema, max_output_tokens=max_output_tokens, on_text=on_text
        )
