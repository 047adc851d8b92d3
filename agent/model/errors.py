"""What can go wrong with a model call, and what is done about it: one table.

``RECOVERIES`` is the only place that decides; the client, the engine and the documentation read it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from agent.budget import BudgetReached as BudgetReached
from agent.errors import GraftsmithError, OperatorError, RetryLater, UserError


class RateLimited(RetryLater):
    """The endpoint asks us to slow down."""


class Overloaded(RetryLater):
    """The endpoint, or a gateway before it, is failing."""


class Unreachable(RetryLater):
    """No connection, or it broke before the first byte of a reply."""


class TimedOut(RetryLater):
    """Nothing came for too long, or the whole call took too long."""


class StreamBroken(RetryLater):
    """The reply stopped midway."""


class MalformedReply(RetryLater):
    """A success whose body is no reply: a web page, broken JSON, far too much data."""


class EmptyReply(RetryLater):
    """A success that holds no choice."""


class Unsupported(OperatorError):
    """The endpoint refuses one of the optional parameters.

    Args:
        parameter: its name as sent: ``tools``, ``response_format``, ``stream_options``, ``stream``, ``max_tokens``.
    """

    def __init__(self, what: str, *, parameter: str, why: str) -> None:
        super().__init__(what, why=why)
        self.parameter = parameter


class ContextTooLong(OperatorError):
    """The conversation does not fit into the model's window."""


class InputRefused(GraftsmithError):
    """One of the texts to embed is too long, empty or otherwise not to the endpoint's liking."""


class QuotaExhausted(OperatorError):
    """The account behind the key has no credit left."""


class KeyRefused(OperatorError):
    """The endpoint does not accept the key."""


class ModelMissing(OperatorError):
    """The endpoint does not have this model, or this path."""


class RequestRefused(OperatorError):
    """The endpoint calls the request wrong, and waiting will not change that."""


class ContentRefused(UserError):
    """The provider's filter or the model itself declines the task."""


class InvalidOutput(OperatorError):
    """Structured output that stayed wrong after the model was told what is wrong."""


class CallCancelled(UserError):
    """Somebody stopped the run."""


class Recovery(StrEnum):
    """What is done about an error."""

    RETRY = "retry"  # the same request again, after a pause
    SIMPLIFY = "simplify"  # again without the refused parameter, remembered for this endpoint
    SHRINK = "shrink"  # the engine shortens the conversation and asks again
    FALL_BACK = "fall back"  # go on with the second model, when one is configured
    ASK = "ask"  # end the run with a question to a person
    STOP = "stop"  # end the run with this reason


@dataclass(frozen=True)
class Rule:
    """One row: what is done first, how many tries that has in all, what is done after them."""

    error: type[GraftsmithError]
    cause: str
    first: Recovery
    tries: int = 1
    after: Recovery = Recovery.STOP


RECOVERIES: tuple[Rule, ...] = (
    Rule(RateLimited, "429, or an error that names a rate limit", Recovery.RETRY, 6, Recovery.FALL_BACK),
    Rule(Overloaded, "408, 409, 425, 5xx, or an error that names overload", Recovery.RETRY, 5, Recovery.FALL_BACK),
    Rule(Unreachable, "connection refused, reset, or dropped before a reply", Recovery.RETRY, 5, Recovery.FALL_BACK),
    Rule(TimedOut, "silence longer than the read limit, or the call's deadline", Recovery.RETRY, 3, Recovery.FALL_BACK),
    Rule(StreamBroken, "the stream ends without a finish reason", Recovery.RETRY, 4, Recovery.FALL_BACK),
    Rule(MalformedReply, "200 with a web page, broken JSON or too much data", Recovery.RETRY, 4, Recovery.FALL_BACK),
    Rule(EmptyReply, "200 without choices", Recovery.RETRY, 3, Recovery.FALL_BACK),
    Rule(Unsupported, "an optional parameter is refused", Recovery.SIMPLIFY),
    Rule(ContextTooLong, "the conversation exceeds the model's window", Recovery.SHRINK),
    Rule(QuotaExhausted, "402, or an error that names quota or credit", Recovery.FALL_BACK),
    Rule(ModelMissing, "404, or an error that names the model", Recovery.FALL_BACK),
    Rule(KeyRefused, "401 or 403", Recovery.STOP),
    Rule(RequestRefused, "any other 3xx or 4xx", Recovery.STOP),
    Rule(ContentRefused, "a content filter, or the model declines", Recovery.ASK),
    Rule(InvalidOutput, "structured output is still wrong after one correction", Recovery.STOP),
    Rule(BudgetReached, "a bound of the run's budget is reached", Recovery.STOP),
    Rule(CallCancelled, "a person stopped the run", Recovery.STOP),
)


def rule_for(error: BaseException) -> Rule:
    """The row of ``error``'s class; an error without a row stops the run."""
    for rule in RECOVERIES:
        if type(error) is rule.error:
            return rule
    return Rule(GraftsmithError, "anything else", Recovery.STOP)
