"""What a run is given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from agent.types.base import Value
from agent.types.change import ChangeSet
from agent.types.plan import Plan


class Task(Value):
    """What a person asked for. Every field is untrusted text."""

    title: str
    body: str = ""
    request: str = ""
    """The words after the command, for example ``fix the parser`` without ``/agent fix``."""
    comments: tuple[str, ...] = ()
    """Earlier comments by people who may command the bot, oldest first."""
    number: int | None = None
    """The issue or pull request, when there is one."""


class Budget(Value):
    """Upper bounds of one run, each checked before every model call. ``None`` means no bound of that kind."""

    dollars: float | None = 5.0
    tokens: int | None = 1_000_000
    minutes: float | None = 60.0
    steps: int | None = 100
    """Model calls."""
    fix_rounds: int = 3


class ModelEndpoint(Value):
    """An OpenAI-compatible endpoint. ``api_key`` is the run's own short-lived token when the App drives the run."""

    base_url: str
    api_key: str = Field(repr=False)
    model: str
    context_tokens: int | None = None
    """How long a request may get, when the operator says so; else it is looked up."""


class Price(Value):
    """What a million tokens of a model cost, in dollars, and how many it can hold."""

    input: float = Field(ge=0)
    cached: float = Field(ge=0)
    """Input that the provider had in its prompt cache."""
    output: float = Field(ge=0)
    context: int | None = Field(None, gt=0)
    """Tokens of the longest input."""


class Commands(Value):
    """How to set up and test the target. Empty means: detect it from the base commit."""

    setup: tuple[str, ...] = ()
    """Shell lines, run with a network and without secrets, before the baseline."""
    test: str = ""
    """One shell line. ``{report}`` in it is replaced by the path where a JUnit XML report is expected."""
    dependencies_before: str = Field(default="", pattern=r"^(\d{4}-\d{2}-\d{2})?$")
    """A day (``YYYY-MM-DD``): the set-up takes no release that is newer."""


Mode = Literal["work", "plan", "ask"]
"""What a run is for: a change, a plan of one, or the answer to a question."""


class RunSpec(Value):
    """Everything a run needs, and nothing that it could leak: no GitHub token, no provider key."""

    run_id: str
    task: Task
    git_dir: str
    """A bare repository that the sandbox can't write, holding ``base_sha`` and its tree."""
    base_sha: str
    rules_sha: str | None = None
    """The commit whose ``.graftsmith.toml`` counts, in ``git_dir`` too; ``base_sha`` when ``None``. For a pull request
    it is its base branch's: who proposes a change must not write the rules that it is judged by."""
    since_sha: str | None = None
    """Where a pull request left its base branch, in ``git_dir`` too: the model sees what it changes since."""
    view: str = "/workspace"
    """Where the checkout appears inside the sandbox. A local run uses the user's own path, so that editable installs
    and absolute shebangs resolve to the copy."""
    mode: Mode = "work"
    plan: Plan | None = None
    """To ``work``: the plan that was approved, carried out as it is. To ``plan``: an earlier one, made anew with what
    ``task.request`` says of it. With a ``change_set``: the one that it was made by."""
    kept: ChangeSet | None = None
    """Unfinished work of an earlier run on the same base, to go on from."""
    review: bool = False
    """An accepted change is read once more by the model before the run ends."""
    change_set: ChangeSet | None = None
    """A change that is there already: it is tested and proven, and no model is asked."""
    origin: str | None = None
    """The user's checkout on this machine (local runs only): the source of ignored files that tests need."""
    work_dir: str
    """A folder of this run for checkouts, logs and reports; removed by whoever made it."""
    cache_dir: str
    """A folder that outlives the run: index and set-up caches."""
    commands: Commands = Commands()
    """What a person asked for; the repository's own configuration fills what is empty."""
    search_path: str = "/usr/local/bin:/usr/bin:/bin"
    """The ``PATH`` on which programs of the target's toolchain are looked for."""
    registries: Mapping[str, str] = Field(default_factory=dict)
    """Settings of this machine's package clients for the set-up phase, without credentials (name → value)."""
    repository: str = "local"
    """A stable key: installed environments are never shared between two repositories."""
    budget: Budget = Budget()
    model: ModelEndpoint
    fallback: ModelEndpoint | None = None
    """Asked when ``model`` does not answer for long, is gone, or has no credit left."""
    prices: Mapping[str, Price] = Field(default_factory=dict)
    """Model → price, from the operator; empty: the table that ships."""
    embeddings: ModelEndpoint | None = None
    """Where code and issue are embedded, so that they are compared by meaning too; without it by words alone."""
    rerank: bool = False
    """One model call puts what was found into an order before the work begins."""
    seed: str
    """Secret of this run; fences around untrusted text are derived from it."""
    command_timeout_s: float = 900.0

    @property
    def secrets(self) -> tuple[str, ...]:
        """What no log may hold."""
        return (self.seed, *(endpoint.api_key for endpoint in self._endpoints.values()))

    @property
    def _endpoints(self) -> Mapping[str, ModelEndpoint]:
        named = {"model": self.model, "fallback": self.fallback, "embeddings": self.embeddings}
        return {name: endpoint for name, endpoint in named.items() if endpoint is not None}

    def without_key(self) -> RunSpec:
        """This spec as it may be kept: the keys are gone, the seed stays, since a replay needs it."""
        bare = {name: endpoint.model_copy(update={"api_key": ""}) for name, endpoint in self._endpoints.items()}
        return self.model_copy(update=bare)
