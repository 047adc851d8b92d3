"""The short-lived token with which one run may use our model endpoint, and nothing else."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import jwt

from agent.errors import OperatorError, UserError

ISSUER = "graftsmith"
AUDIENCE = "graftsmith-llm"
SHORTEST_SECRET = 32
"""Bytes; as long as the hash, which is what RFC 7518 asks of HS256."""
LONGEST_LIFE_S = 24 * 3600.0
_LEEWAY_S = 30.0


class TokenRefused(UserError):
    """The token opens nothing. ``what`` names the check that failed and never holds any part of the token."""


@dataclass(frozen=True)
class RunToken:
    """What a verified token says."""

    run_id: str
    expires_at: float


_BEGAN: Final = time.time() - time.monotonic()


def steady() -> float:
    """Seconds since the epoch that never jump: setting this machine's clock must not end the runs under way.

    Tokens are issued and checked by the same process.
    """
    return _BEGAN + time.monotonic()


Check = Callable[[object, float], bool]

# Every claim must be here and pass; a claim that is not here is refused too.
CHECKS: Mapping[str, Check] = {
    "iss": lambda value, _: value == ISSUER,
    "aud": lambda value, _: value == AUDIENCE,
    "sub": lambda value, _: isinstance(value, str) and value != "",
    "iat": lambda value, now: _number(value) and value <= now + _LEEWAY_S,  # type: ignore[operator]
    "exp": lambda value, now: _number(value) and now < value <= now + LONGEST_LIFE_S + _LEEWAY_S,  # type: ignore[operator]
}


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def check_secret(secret: str) -> None:
    """
    Raises:
        OperatorError: too short to sign with.
    """
    if len(secret.encode()) < SHORTEST_SECRET:
        raise OperatorError(
            "the secret for run tokens is too short", why=f"it needs {SHORTEST_SECRET} bytes", todo="Make a new one"
        )


def issue_token(secret: str, run_id: str, *, ttl_s: float, now: Callable[[], float] = steady) -> str:
    """A token for ``run_id`` that ends after ``ttl_s`` seconds, at most a day.

    Raises:
        OperatorError: the secret is too short.
    """
    check_secret(secret)
    issued = int(now())
    life = int(min(ttl_s, LONGEST_LIFE_S))
    claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": run_id, "iat": issued, "exp": issued + life}
    return jwt.encode(claims, secret, algorithm="HS256")


def verify_token(secret: str, token: str, *, now: Callable[[], float] = steady) -> RunToken:
    """The run that ``token`` speaks for. Whether that run is still under way is the caller's to ask.

    Raises:
        TokenRefused: the signature or one of the checks fails.
    """
    check_secret(secret)
    try:
        # Only the signature here: every claim goes through the table.
        claims = jwt.decode(
            token,
            secret,
            algorithms=["HS256"],
            options={
                "verify_exp": False,
                "verify_iat": False,
                "verify_nbf": False,
                "verify_aud": False,
                "verify_iss": False,
                "verify_sub": False,
            },
        )
    except (jwt.PyJWTError, ValueError) as error:
        raise TokenRefused("the run token is not one of ours") from error
    moment = now()
    for name, check in CHECKS.items():
        if name not in claims or not check(claims[name], moment):
            raise TokenRefused(f"the run token's claim {name!r} does not hold")
    unknown = sorted(set(claims) - set(CHECKS))
    if unknown:
        raise TokenRefused("the run token holds claims that we never write")
    return RunToken(run_id=claims["sub"], expires_at=float(claims["exp"]))
