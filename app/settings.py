"""Settings: read once from the environment and ``.env``, typed, frozen, and passed on as a value.

The only module that reads environment variables. Names that people know from other GitHub Apps and OpenAI clients keep
their spelling (``APP_ID``, ``OPENAI_MODEL``, …); everything of our own starts with ``GRAFTSMITH_``.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from dotenv import dotenv_values
from pydantic import AfterValidator, Field, SecretStr, ValidationError, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from agent.errors import OperatorError
from agent.types import Budget, ModelEndpoint
from agent.verify.registries import places
from app import addresses
from app.addresses import GitHubAddresses, safe_url, web_url
from app.private_key import in_file, rsa_pem

_PREFIX = "GRAFTSMITH_"
_PUBLIC_OPENAI = "https://api.openai.com/v1"


def environment() -> dict[str, str]:
    """A copy of this process's environment, for what belongs to other programs (``PATH``, package clients)."""
    return dict(os.environ)


def default_state_dir() -> Path:
    """Where state goes unless told otherwise (XDG Base Directory Specification)."""
    base = os.environ.get("XDG_STATE_HOME", "")
    return (Path(base) if Path(base).is_absolute() else Path.home() / ".local" / "state") / "graftsmith"


def _web(name: str) -> AfterValidator:
    """An address that can be asked; ``name`` is what a person knows it by."""
    return AfterValidator(lambda value: web_url(value, name))


def _reachable(value: str) -> str:
    places(value)
    return value


def _postgres(value: str) -> str:
    if not value.startswith(("postgresql://", "postgresql+psycopg://")):
        raise ValueError("only postgresql://user@host/name works here; without it SQLite is used")
    return value


def _there(path: Path) -> Path:
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    return path


_Postgres = Annotated[str, AfterValidator(_postgres)]
_Place = Annotated[Path, AfterValidator(lambda path: path.expanduser().absolute())]
_File = Annotated[_Place, AfterValidator(_there)]
_Provider = Annotated[str, _web("OPENAI_BASE_URL")]
_Registry = Annotated[str, _web("a package registry")]


class SearchSettings(BaseSettings):
    """What ``graftsmith search`` can use; nothing of it is needed."""

    model_config = SettingsConfigDict(
        frozen=True, extra="ignore", env_ignore_empty=True, env_file_encoding="utf-8", hide_input_in_errors=True
    )

    openai_base_url: _Provider = Field(default=_PUBLIC_OPENAI, validation_alias="OPENAI_BASE_URL")
    openai_api_key: SecretStr = Field(default=SecretStr(""), validation_alias="OPENAI_API_KEY")
    embedding_model: str | None = Field(default=None, validation_alias="GRAFTSMITH_EMBEDDING_MODEL")
    """Code is compared with the issue by meaning too; without it by words alone."""
    embedding_base_url: Annotated[str, _web("GRAFTSMITH_EMBEDDING_BASE_URL")] | None = Field(
        default=None, validation_alias="GRAFTSMITH_EMBEDDING_BASE_URL"
    )
    """Where that model is, when it is elsewhere than ``OPENAI_BASE_URL``."""
    embedding_api_key: SecretStr = Field(default=SecretStr(""), validation_alias="GRAFTSMITH_EMBEDDING_API_KEY")

    @property
    def embeddings(self) -> ModelEndpoint | None:
        """The real embedding endpoint, with the real key: for our own process only, never for a run of the App."""
        if self.embedding_model is None:
            return None
        key = self.embedding_api_key.get_secret_value()
        if self.embedding_base_url in (None, self.openai_base_url):  # a key never goes to another provider than its own
            key = key or self.openai_api_key.get_secret_value()
        return ModelEndpoint(
            base_url=self.embedding_base_url or self.openai_base_url, api_key=key or "none", model=self.embedding_model
        )


class MachineSettings(BaseSettings):
    """What a machine has to be told on which runs are carried out."""

    model_config = SearchSettings.model_config

    state_dir: _Place = Field(default_factory=default_state_dir, validation_alias="GRAFTSMITH_STATE_DIR")
    """Everything we keep: databases, runs, caches. Others can pass through to a checkout, and list nothing."""
    pip_index_url: _Registry | None = Field(default=None, validation_alias="GRAFTSMITH_PIP_INDEX_URL")
    """Package index for the set-up phase of Python targets. Without secrets: code under test can read it."""
    npm_registry: _Registry | None = Field(default=None, validation_alias="GRAFTSMITH_NPM_REGISTRY")
    """The same for JavaScript targets."""
    egress_allow: Annotated[str, AfterValidator(_reachable)] = Field(
        default="", validation_alias="GRAFTSMITH_EGRESS_ALLOW"
    )
    """Places besides the registries that set-ups may reach: ``host:port``, separated by commas."""


class StoreSettings(MachineSettings):
    """Where jobs are kept."""

    database_url: _Postgres | None = Field(default=None, validation_alias="GRAFTSMITH_DATABASE_URL")
    """``postgresql://…`` for several machines; without it, SQLite under ``state_dir``."""


class RunnerSettings(MachineSettings):
    """What ``graftsmith runner`` needs inside a job of GitHub Actions, which sets the first two."""

    identity_url: str = Field(validation_alias="ACTIONS_ID_TOKEN_REQUEST_URL")
    identity_token: SecretStr = Field(validation_alias="ACTIONS_ID_TOKEN_REQUEST_TOKEN")


class EngineSettings(SearchSettings, MachineSettings):
    """What a run of the engine needs, also without GitHub (``graftsmith run``)."""

    openai_api_key: SecretStr = Field(default=SecretStr(""), validation_alias="OPENAI_API_KEY", validate_default=True)
    """Empty only for an endpoint of the operator's own that asks for none."""
    openai_model: str = Field(validation_alias="OPENAI_MODEL")
    openai_fallback_model: str = Field(default="", validation_alias="OPENAI_FALLBACK_MODEL")
    """At the same endpoint: asked when the first one does not answer for long, is gone, or has no credit left."""
    context_tokens: int | None = Field(default=None, ge=4_000, validation_alias="GRAFTSMITH_CONTEXT_TOKENS")
    """How long a request to the model may get; without it, looked up by the model's name."""

    max_dollars: float | None = Field(default=5.0, gt=0, validation_alias="GRAFTSMITH_MAX_DOLLARS")
    max_tokens: int | None = Field(default=1_000_000, gt=0, validation_alias="GRAFTSMITH_MAX_TOKENS")
    max_minutes: float | None = Field(default=60.0, gt=0, validation_alias="GRAFTSMITH_MAX_MINUTES")
    max_steps: int | None = Field(default=100, gt=0, validation_alias="GRAFTSMITH_MAX_STEPS")
    fix_rounds: int = Field(default=3, ge=0, le=20, validation_alias="GRAFTSMITH_FIX_ROUNDS")
    review: bool = Field(default=True, validation_alias="GRAFTSMITH_REVIEW")
    """An accepted change is read once more by the model: one call, at most one more round of repairs."""
    rerank: bool = Field(default=False, validation_alias="GRAFTSMITH_RERANK")
    """One model call puts the files and functions that were found into an order before the work begins."""
    command_timeout_s: float = Field(default=900.0, gt=0, validation_alias="GRAFTSMITH_COMMAND_TIMEOUT")
    """Wall seconds for one command of the target, its whole test suite included."""
    prices: _File | None = Field(default=None, validation_alias="GRAFTSMITH_PRICES")
    """A price table that replaces the shipped one."""
    keep_days: float | None = Field(default=90.0, ge=7, validation_alias="GRAFTSMITH_KEEP_DAYS")
    """How long the folders of jobs that are done, and of runs from the shell, are kept. Not less than a week: GitHub
    delivers again for three days."""
    log_level: str = Field(
        default="info", pattern="^(debug|info|warning|error)$", validation_alias="GRAFTSMITH_LOG_LEVEL"
    )

    @field_validator("max_dollars", "max_tokens", "max_minutes", "max_steps", "keep_days", mode="before")
    @classmethod
    def _none_means_unlimited(cls, value: object) -> object:
        return None if isinstance(value, str) and value.strip().lower() == "none" else value

    @field_validator("openai_api_key")
    @classmethod
    def _public_endpoint_needs_a_key(cls, value: SecretStr, info: ValidationInfo) -> SecretStr:
        if info.data.get("openai_base_url") == _PUBLIC_OPENAI and not value.get_secret_value():
            raise PydanticCustomError("missing", "missing")
        return value

    @property
    def budget(self) -> Budget:
        """The bounds of one run."""
        return Budget(
            dollars=self.max_dollars,
            tokens=self.max_tokens,
            minutes=self.max_minutes,
            steps=self.max_steps,
            fix_rounds=self.fix_rounds,
        )

    @property
    def provider(self) -> ModelEndpoint:
        """The real model endpoint, with the real key: for our own process only, never for a run of the App."""
        return self._at_the_provider(self.openai_model)

    @property
    def fallback(self) -> ModelEndpoint | None:
        """The second model at the same endpoint, with the same key."""
        return self._at_the_provider(self.openai_fallback_model) if self.openai_fallback_model else None

    @property
    def models(self) -> tuple[str, ...]:
        """What a run may ask for, first choice first."""
        return tuple(filter(None, (self.openai_model, self.openai_fallback_model)))

    def _at_the_provider(self, model: str) -> ModelEndpoint:
        key = self.openai_api_key.get_secret_value() or "none"
        return ModelEndpoint(
            base_url=self.openai_base_url, api_key=key, model=model, context_tokens=self.context_tokens
        )


class Settings(EngineSettings, StoreSettings):
    """What ``graftsmith serve`` needs."""

    app_id: int = Field(gt=0, validation_alias="APP_ID")
    private_key: SecretStr = Field(validation_alias="PRIVATE_KEY")
    """PEM text of the App's RSA key, wherever it came from."""
    webhook_secret: SecretStr = Field(validation_alias="WEBHOOK_SECRET", min_length=8)
    github_api_url: str = Field(default=addresses.PUBLIC.api, validation_alias="GITHUB_API_URL")

    host: str = Field(default="127.0.0.1", validation_alias="GRAFTSMITH_HOST")
    port: int = Field(default=8000, ge=0, le=65535, validation_alias="GRAFTSMITH_PORT")
    runner: Literal["local", "actions"] = Field(default="local", validation_alias="GRAFTSMITH_RUNNER")
    """Where code under test is run: on this machine, or by GitHub Actions in the repository's own workflow."""
    public_url: str | None = Field(default=None, validation_alias="GRAFTSMITH_PUBLIC_URL", validate_default=True)
    """Where the workflow reaches this server."""
    workflow: str = Field(default="graftsmith.yml", pattern=r"^[\w.-]+\.ya?ml$", validation_alias="GRAFTSMITH_WORKFLOW")
    """Name of the workflow's file."""
    label: str = Field(default="agent", min_length=1, max_length=50, validation_alias="GRAFTSMITH_LABEL")
    allowed_bots: Annotated[frozenset[str], NoDecode] = Field(
        default=frozenset(), validation_alias="GRAFTSMITH_ALLOWED_BOTS"
    )
    """Logins of bots that may command us, separated by commas; names only, no patterns."""
    concurrency: int = Field(default=2, ge=1, le=64, validation_alias="GRAFTSMITH_CONCURRENCY")
    """Jobs at a time in this process."""
    max_waiting: int = Field(default=500, ge=1, validation_alias="GRAFTSMITH_MAX_WAITING")
    max_waiting_per_person: int = Field(default=50, ge=1, validation_alias="GRAFTSMITH_MAX_WAITING_PER_PERSON")
    """Unfinished jobs of one repository; above it a delivery is turned away with 503 and can be redelivered."""

    @model_validator(mode="before")
    @classmethod
    def _one_private_key(cls, data: Any) -> Any:
        """Hand the path to the field's own check when only ``PRIVATE_KEY_PATH`` is given."""
        path = data.pop("PRIVATE_KEY_PATH", None)
        if path:
            data["PRIVATE_KEY"] = _TwoKeys() if data.get("PRIVATE_KEY") else Path(path)
        return data

    private_key_path: Path | None = Field(default=None, validation_alias="PRIVATE_KEY_PATH", exclude=True, repr=False)

    @field_validator("private_key", mode="before")
    @classmethod
    def _check_private_key(cls, value: object) -> SecretStr:
        if isinstance(value, _TwoKeys):
            raise ValueError("PRIVATE_KEY and PRIVATE_KEY_PATH are both set: remove one of them")
        if isinstance(value, Path):
            return rsa_pem(in_file(value.expanduser()))
        return rsa_pem(value.get_secret_value() if isinstance(value, SecretStr) else str(value))

    @field_validator("github_api_url")
    @classmethod
    def _check_github_api_url(cls, value: str) -> str:
        value = safe_url(value, "GITHUB_API_URL")
        at = addresses.by_web(value.removesuffix("/api/v3"))
        if "://api." not in value and "://api." in at.api:
            raise ValueError(f"the API of {at.web} is at {at.api}")
        return value

    @field_validator("public_url")
    @classmethod
    def _check_public_url(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is None:
            if info.data.get("runner") == "actions":
                raise PydanticCustomError("missing", "missing")
            return None
        return safe_url(value, "GRAFTSMITH_PUBLIC_URL")

    @property
    def required_public_url(self) -> str:
        """``public_url`` where runs are carried out elsewhere."""
        assert self.public_url is not None, "checked when the settings were read"
        return self.public_url

    @field_validator("allowed_bots", mode="before")
    @classmethod
    def _split_bots(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        names = frozenset(name.strip() for name in value.split(",") if name.strip())
        if any("*" in name for name in names):
            raise ValueError("name each bot; a pattern such as * would let any app command us")
        return names

    @property
    def secrets(self) -> frozenset[str]:
        """Every value that must never leave this process."""
        values = (self.webhook_secret, self.private_key, self.openai_api_key, self.embedding_api_key)
        return frozenset(value.get_secret_value() for value in values) - {""}

    @property
    def github(self) -> GitHubAddresses:
        """Where the App's GitHub is."""
        return addresses.by_api(self.github_api_url)


class _TwoKeys:
    """Stands for a private key that was given twice."""


# What to do about each setting, shown when it is missing or wrong.
_TODO = {
    "APP_ID": "copy the number 'App ID' from the App's settings page on GitHub",
    "PRIVATE_KEY": "generate a private key on the App's settings page and set PRIVATE_KEY_PATH to the .pem file, "
    "or PRIVATE_KEY to its text",
    "WEBHOOK_SECRET": "set it to the webhook secret from the App's settings page (8 characters or more)",
    "GITHUB_API_URL": f"leave it out for github.com ({addresses.PUBLIC.api}); for an Enterprise server use https://HOST/api/v3",
    "OPENAI_API_KEY": "set it to your provider's key, or point OPENAI_BASE_URL at an endpoint that asks for none",
    "OPENAI_BASE_URL": "set it to the address of an OpenAI-compatible endpoint, for example http://127.0.0.1:8080/v1",
    "GRAFTSMITH_EMBEDDING_BASE_URL": "set it to the address of an OpenAI-compatible endpoint, or leave it out",
    "GRAFTSMITH_PUBLIC_URL": "set it to this server's address as workflows of GitHub Actions reach it, or leave "
    "GRAFTSMITH_RUNNER out to run tests on this machine",
    "ACTIONS_ID_TOKEN_REQUEST_URL": "GitHub sets it in a job that has `permissions: id-token: write`",
    "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "GitHub sets it in a job that has `permissions: id-token: write`",
    "OPENAI_MODEL": "set it to a model name that the endpoint knows",
}

S = TypeVar("S", bound=BaseSettings)


def load(kind: type[S], *, env_file: Path | None = Path(".env")) -> S:
    """Read the settings.

    Args:
        kind: ``Settings`` for the server, ``EngineSettings`` for a run without GitHub, ``SearchSettings`` for a search,
            ``RunnerSettings`` inside a workflow, ``StoreSettings`` to look at jobs.
        env_file: read below the environment's own values; may be missing.

    Raises:
        OperatorError: names every missing or wrong setting at once, and what to do about each. Holds no secret.
    """
    given = _from_file(env_file)
    problems = list(_unknown_names(given))
    if issubclass(kind, SearchSettings) and kind is not Settings:  # started in a checkout, whose file may be anybody's
        problems += _lures(given)
    try:
        settings = kind(_env_file=env_file)
    except ValidationError as error:
        wrong = error.errors(include_input=False, include_url=False, include_context=False)
        problems = [*(_describe(e["loc"], e["type"], e["msg"], kind) for e in wrong), *problems]
    if problems:
        listed = "\n".join(f"  - {problem}" for problem in problems)
        last = "Set them in the environment or in .env, then start again."
        raise OperatorError(f"The settings are not usable:\n{listed}\n{last}")
    return settings


def _describe(location: tuple[int | str, ...], kind: str, message: str, cls: type[BaseSettings]) -> str:
    field = cls.model_fields.get(str(location[0]))
    name = str(field.validation_alias if field else location[0])
    what = "is missing" if kind == "missing" else f"is wrong: {message.removeprefix('Value error, ')}"
    return ": ".join(part for part in (f"{name} {what}", _TODO.get(name, "")) if part)


def _from_file(env_file: Path | None) -> Mapping[str, str | None]:
    if env_file is None or not env_file.is_file():
        return {}
    try:
        return dotenv_values(env_file, interpolate=False)
    except UnicodeDecodeError as error:
        raise OperatorError(f"{env_file} can't be read", why="it is not UTF-8 text", todo="Save it as UTF-8") from error


def _lures(given: Mapping[str, str | None]) -> Iterable[str]:
    """What in a file would send values of the environment to where the file says."""
    ours = {name.upper(): value or "" for name, value in given.items()}
    environment = {name.upper() for name, value in os.environ.items() if value}
    for name in sorted(_ENGINE_NAMES & ours.keys()):
        if "${" in ours[name]:
            yield f"{name} in .env holds ${{…}}, which is not filled in here: write the value itself"
    for address, keys in _ADDRESSES.items():
        for key in keys:
            if ours.get(address) and address not in environment and key in environment:
                yield (
                    f"{address} is from .env and {key} is not, so the key would go where that file says: "
                    "set both in the same place"
                )


_ADDRESSES = {
    "OPENAI_BASE_URL": ("OPENAI_API_KEY",),
    "GRAFTSMITH_EMBEDDING_BASE_URL": ("GRAFTSMITH_EMBEDDING_API_KEY",),
}
_ENGINE_NAMES = frozenset(str(field.validation_alias) for field in EngineSettings.model_fields.values())


def _unknown_names(from_file: Iterable[str]) -> Iterable[str]:
    """A misspelt name of our own would be ignored in silence; name it instead."""
    known = {str(field.validation_alias) for field in Settings.model_fields.values()}
    for name in sorted({*os.environ, *from_file}):
        if name.startswith(_PREFIX) and name not in known:
            close = difflib.get_close_matches(name, known, 1)
            yield f"{name} is not a setting" + (f": did you mean {close[0]}?" if close else "")
