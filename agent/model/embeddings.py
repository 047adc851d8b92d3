"""Embeddings from an OpenAI-compatible endpoint: order by index, retries of what may pass, refusals told apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import httpx
import openai
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from agent.budget import Meter
from agent.errors import OperatorError, RetryLater
from agent.model.errors import InputRefused
from agent.model.tokens import estimate_tokens
from agent.outside import proxy_for, tls
from agent.types import CallUsage, ModelEndpoint

_PASSING = (openai.APIConnectionError, openai.RateLimitError, openai.InternalServerError)
_REFUSED = (400, 413, 422)
_PATIENCE_S = 60.0


class OpenAIEmbedder:
    """``POST /embeddings``.

    Args:
        endpoint: address, key and model.
        meter: asked before each request and told after it, where a run pays for it.
        tries: of one request, while what goes wrong may pass.
        longest_pause_s: between two of them.
    """

    def __init__(
        self, endpoint: ModelEndpoint, *, meter: Meter | None = None, tries: int = 4, longest_pause_s: float = 20.0
    ) -> None:
        self.model = endpoint.model
        self._meter = meter
        self._tries = tries
        self._longest = longest_pause_s
        self._openai = openai.OpenAI(
            api_key=endpoint.api_key or "none",
            base_url=endpoint.base_url,
            max_retries=0,
            timeout=_PATIENCE_S,
            http_client=cast(
                Any,  # see ``client.Link``
                httpx.Client(timeout=_PATIENCE_S, verify=tls(), proxy=proxy_for(endpoint.base_url), trust_env=False),
            ),
        )

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """See :class:`agent.model.types.Embedder`.

        Raises:
            BudgetReached: before a request.
            InputRefused: the endpoint will never take this one as it is.
            RetryLater: it failed, or can't be reached.
            OperatorError: it can't be used as it is set up.
        """
        if self._meter:
            self._meter.check()
        reply = self._answer(texts)
        if self._meter:
            self._meter.record(_usage(self.model, texts, reply))
        vectors = {item.index: item.embedding for item in reply.data}
        if sorted(vectors) != list(range(len(texts))):
            raise OperatorError("The embedding endpoint answered with other vectors than asked for")
        return [list(vectors[i]) for i in range(len(texts))]

    def _answer(self, texts: Sequence[str]) -> openai.types.CreateEmbeddingResponse:
        """The endpoint's, after some tries; every failure leaves as one of our errors."""
        retrying = Retrying(
            retry=retry_if_exception_type(_PASSING),
            stop=stop_after_attempt(self._tries),
            wait=wait_random_exponential(multiplier=0.2, max=self._longest),
            reraise=True,
        )
        try:
            return retrying(
                self._openai.embeddings.create, model=self.model, input=list(texts), encoding_format="float"
            )
        except openai.APIStatusError as error:
            if error.status_code in _REFUSED:
                raise InputRefused(
                    "The embedding endpoint refused a request", why=f"HTTP {error.status_code}"
                ) from None
            if isinstance(error, _PASSING):
                raise RetryLater("The embedding endpoint failed", why=f"HTTP {error.status_code}") from None
            raise OperatorError(
                "The embedding endpoint can't be used",
                why=f"HTTP {error.status_code}",
                todo="Check its address and key",
            ) from None
        except openai.OpenAIError as error:
            raise RetryLater("The embedding endpoint can't be reached", why=type(error).__name__) from None

    def close(self) -> None:
        self._openai.close()


def _usage(model: str, texts: Sequence[str], reply: openai.types.CreateEmbeddingResponse) -> CallUsage:
    told = getattr(reply.usage, "prompt_tokens", None)  # some endpoints leave it out
    tokens = told if isinstance(told, int) and told > 0 else sum(map(estimate_tokens, texts))
    return CallUsage(model=model, input_tokens=tokens, estimated=tokens != told, embedding=True)
