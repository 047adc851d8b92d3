"""Settings are read once, typed, frozen; every missing or wrong one is named with what to do."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from urllib.parse import urljoin

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from pydantic import ValidationError

from agent.errors import OperatorError
from app.addresses import PUBLIC, by_web
from app.settings import EngineSettings, SearchSettings, Settings, load

SECRET = "a-webhook-secret"


@pytest.fixture(scope="session")
def pem() -> str:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()).decode()


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in os.environ:
        if name.startswith(("GRAFTSMITH_", "OPENAI_", "GITHUB_", "APP_ID", "PRIVATE_KEY", "WEBHOOK_")):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def configure(monkeypatch: pytest.MonkeyPatch, pem: str, **more: str) -> None:
    values = {
        "APP_ID": "12",
        "PRIVATE_KEY": pem,
        "WEBHOOK_SECRET": SECRET,
        "OPENAI_API_KEY": "key-of-the-provider",
        "OPENAI_MODEL": "m-1",
        **more,
    }
    for name, value in values.items():
        monkeypatch.setenv(name, value)


def test_well_known_names_and_defaults(monkeypatch: pytest.MonkeyPatch, pem: str) -> None:
    configure(monkeypatch, pem, XDG_STATE_HOME="/var/lib/state")
    settings = load(Settings)
    assert settings.app_id == 12
    assert settings.webhook_secret.get_secret_value() == SECRET
    assert settings.github_api_url == "https://api.github.com"
    assert settings.github == PUBLIC
    assert settings.provider.base_url == "https://api.openai.com/v1"
    assert settings.state_dir == Path("/var/lib/state/graftsmith")
    assert (settings.label, settings.allowed_bots, settings.budget.fix_rounds) == ("agent", frozenset(), 3)
    with pytest.raises(ValidationError):
        settings.app_id = 3


def test_models(monkeypatch: pytest.MonkeyPatch, pem: str) -> None:
    configure(monkeypatch, pem)
    alone = load(Settings)
    assert (alone.models, alone.fallback, alone.provider.context_tokens) == (("m-1",), None, None)
    configure(monkeypatch, pem, OPENAI_FALLBACK_MODEL="m-2", GRAFTSMITH_CONTEXT_TOKENS="32000")
    both = load(Settings)
    assert both.models == ("m-1", "m-2")
    assert both.fallback == both.provider.model_copy(update={"model": "m-2"})
    assert both.provider.context_tokens == 32_000


def test_everything_wrong_is_named_at_once_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("APP_ID", "my-app")
    monkeypatch.setenv("PRIVATE_KEY", "very-secret-not-a-key")
    monkeypatch.setenv("GITHUB_API_URL", "http://ghe.example.org/api/v3")
    monkeypatch.setenv("GRAFTSMITH_CONCURENCY", "4")
    monkeypatch.setenv("GRAFTSMITH_PORT", "http")
    with pytest.raises(OperatorError) as caught:
        load(Settings)
    text = str(caught.value)
    for expected in (
        "APP_ID is wrong",
        "PRIVATE_KEY is wrong: it is not an RSA private key",
        "WEBHOOK_SECRET is missing: set it to the webhook secret",
        "GITHUB_API_URL is wrong: GITHUB_API_URL must start with https://",
        "OPENAI_API_KEY is missing: set it",
        "OPENAI_MODEL is missing",
        "GRAFTSMITH_PORT is wrong",
        "GRAFTSMITH_CONCURENCY is not a setting: did you mean GRAFTSMITH_CONCURRENCY?",
    ):
        assert expected in text
    assert "very-secret" not in text and "?." not in text


def test_no_secret_shows_in_text_forms(monkeypatch: pytest.MonkeyPatch, pem: str) -> None:
    configure(monkeypatch, pem)
    settings = load(Settings)
    shown = repr(settings) + str(settings) + settings.model_dump_json() + repr(settings.provider)
    assert SECRET not in shown
    assert "key-of-the-provider" not in shown
    assert pem.splitlines()[1] not in shown


@pytest.mark.parametrize("form", ["newlines", "written_out", "base64", "windows"])
def test_private_key_forms(monkeypatch: pytest.MonkeyPatch, pem: str, form: str) -> None:
    value = {
        "newlines": pem,
        "written_out": pem.replace("\n", "\\n"),
        "base64": base64.b64encode(pem.encode()).decode(),
        "windows": pem.replace("\n", "\r\n"),
    }[form]
    configure(monkeypatch, pem, PRIVATE_KEY=value)
    got = load(Settings).private_key.get_secret_value()
    assert got.replace("\r\n", "\n") == pem


def test_private_key_from_a_file(monkeypatch: pytest.MonkeyPatch, pem: str, tmp_path: Path) -> None:
    (tmp_path / "app.pem").write_text(pem)
    configure(monkeypatch, pem, PRIVATE_KEY="", PRIVATE_KEY_PATH=str(tmp_path / "app.pem"))
    assert load(Settings).private_key.get_secret_value() == pem


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"PRIVATE_KEY": "", "PRIVATE_KEY_PATH": "/nowhere/app.pem"}, "/nowhere/app.pem can't be read: No such file"),
        ({"PRIVATE_KEY_PATH": "/nowhere/app.pem"}, "are both set: remove one"),
        ({"PRIVATE_KEY": ""}, "PRIVATE_KEY is missing: generate a private key"),
    ],
)
def test_unusable_private_keys(monkeypatch: pytest.MonkeyPatch, pem: str, more: dict[str, str], expected: str) -> None:
    configure(monkeypatch, pem, **more)
    with pytest.raises(OperatorError, match=expected):
        load(Settings)


def test_a_key_that_is_not_rsa_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    configure(monkeypatch, text)
    with pytest.raises(OperatorError, match="not an RSA private key"):
        load(Settings)


def test_dotenv_file_is_read_below_the_environment(monkeypatch: pytest.MonkeyPatch, pem: str, tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(f'OPENAI_MODEL=from-file\nAPP_ID=99\nPRIVATE_KEY="{pem}"\nWEBHOOK_SECRET={SECRET}\n')
    monkeypatch.setenv("OPENAI_MODEL", "from-environment")
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    settings = load(Settings)
    assert (settings.openai_model, settings.app_id) == ("from-environment", 99)


@pytest.mark.parametrize(
    ("file", "says"),
    [
        ("OPENAI_BASE_URL=https://evil.example/v1\n", "set both in the same place"),
        ("openai_base_url=https://evil.example/v1\n", "set both in the same place"),
        ("OPENAI_BASE_URL=https://evil.example/${GITHUB_TOKEN}\nOPENAI_API_KEY=x\n", "not filled in"),
        ("OPENAI_MODEL=${GITHUB_TOKEN}\n", "not filled in"),
        ("GRAFTSMITH_EMBEDDING_BASE_URL=https://evil.example/v1\n", "GRAFTSMITH_EMBEDDING_API_KEY is not"),
    ],
)
def test_a_checkouts_file_says_not_where_secrets_of_its_user_go(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, file: str, says: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "key-of-the-user")
    monkeypatch.setenv("GRAFTSMITH_EMBEDDING_API_KEY", "other-key-of-the-user")
    monkeypatch.setenv("GITHUB_TOKEN", "token-of-the-user")
    (tmp_path / ".env").write_text(f"OPENAI_MODEL=m\n{file}")
    with pytest.raises(OperatorError, match=says) as error:
        load(EngineSettings)
    assert "of-the-user" not in str(error.value)


def test_address_and_key_from_one_place_are_fine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("OPENAI_BASE_URL=https://file.example/v1\nOPENAI_API_KEY=k\nOPENAI_MODEL=m\n")
    assert load(EngineSettings).openai_base_url == "https://file.example/v1"
    monkeypatch.setenv("OPENAI_BASE_URL", "https://environment.example/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "key-of-the-user")
    assert load(EngineSettings).openai_base_url == "https://environment.example/v1"


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    (tmp_path / ".env").write_bytes(b"OPENAI_MODEL=\xff\n")
    with pytest.raises(OperatorError, match="not UTF-8"):
        load(EngineSettings)


def test_misspelt_name_in_the_file_is_named(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("OPENAI_MODEL=m\nOPENAI_API_KEY=k\nGRAFTSMITH_MAX_DOLARS=1\n")
    with pytest.raises(OperatorError, match="did you mean GRAFTSMITH_MAX_DOLLARS"):
        load(EngineSettings)


SERVER = ("https://ghe.example.org", "_services/token", "api/graphql")


@pytest.mark.parametrize(
    ("api", "web", "issuer", "graphql"),
    [
        ("https://api.github.com", "https://github.com", PUBLIC.issuer, "https://api.github.com/graphql"),
        ("https://ghe.example.org/api/v3", *SERVER),
        ("https://GHE.example.org/api/v3/", *SERVER),
        (
            *("https://api.acme.ghe.com", "https://acme.ghe.com", "https://token.actions.acme.ghe.com"),
            "https://api.acme.ghe.com/graphql",
        ),
        ("http://[::1]:3000/api/v3", "http://[::1]:3000", "_services/token", "api/graphql"),
        ("http://127.0.0.2:3000", "http://127.0.0.2:3000", "_services/token", "graphql"),
    ],
)
def test_where_a_github_is(
    monkeypatch: pytest.MonkeyPatch, pem: str, api: str, web: str, issuer: str, graphql: str
) -> None:
    configure(monkeypatch, pem, GITHUB_API_URL=api)
    found = load(Settings).github
    assert (found.web, found.issuer, found.graphql) == (web, urljoin(f"{web}/", issuer), urljoin(f"{web}/", graphql))
    assert api == web or by_web(web) == found


@pytest.mark.parametrize("wrong", ["https://github.com", "https://github.com/api/v3", "https://acme.ghe.com/"])
def test_where_people_go_is_not_where_the_api_is(monkeypatch: pytest.MonkeyPatch, pem: str, wrong: str) -> None:
    configure(monkeypatch, pem, GITHUB_API_URL=wrong)
    with pytest.raises(OperatorError, match=r"the API of https://\S+ is at https://api\."):
        load(Settings)


def test_engine_alone_needs_only_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_MODEL", "m")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:8080/v1/")
    monkeypatch.setenv("GRAFTSMITH_MAX_DOLLARS", "none")
    settings = load(EngineSettings)
    assert settings.provider.base_url == "http://127.0.0.1:8080/v1"
    assert settings.provider.api_key == "none"
    assert settings.budget.dollars is None


def test_bots_are_named_and_never_a_pattern(monkeypatch: pytest.MonkeyPatch, pem: str) -> None:
    configure(monkeypatch, pem, GRAFTSMITH_ALLOWED_BOTS="helper[bot], other[bot] ,")
    assert load(Settings).allowed_bots == {"helper[bot]", "other[bot]"}
    monkeypatch.setenv("GRAFTSMITH_ALLOWED_BOTS", "*")
    with pytest.raises(OperatorError, match="name each bot"):
        load(Settings)


@pytest.mark.parametrize(
    ("more", "address", "key"),
    [
        ({}, "https://api.openai.com/v1", "key-of-the-provider"),
        ({"BASE_URL": "https://other.example/v1/"}, "https://other.example/v1", "none"),
        ({"BASE_URL": "https://other.example/v1", "API_KEY": "k-2"}, "https://other.example/v1", "k-2"),
        ({"API_KEY": "k-2"}, "https://api.openai.com/v1", "k-2"),
    ],
)
def test_a_key_goes_to_its_own_provider_only(
    monkeypatch: pytest.MonkeyPatch, pem: str, more: dict[str, str], address: str, key: str
) -> None:
    configure(monkeypatch, pem)
    assert load(Settings).embeddings is None and not load(Settings).rerank
    monkeypatch.setenv("GRAFTSMITH_EMBEDDING_MODEL", "e-1")
    for name, value in more.items():
        monkeypatch.setenv(f"GRAFTSMITH_EMBEDDING_{name}", value)
    settings = load(Settings)
    assert settings.embeddings is not None
    assert (settings.embeddings.base_url, settings.embeddings.api_key, settings.embeddings.model) == (
        address,
        key,
        "e-1",
    )
    assert settings.embedding_api_key.get_secret_value() in {*settings.secrets, ""}


def test_a_search_needs_no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load(SearchSettings, env_file=None).embeddings is None
    monkeypatch.setenv("GRAFTSMITH_EMBEDDING_BASE_URL", "ftp://x")
    with pytest.raises(OperatorError, match="GRAFTSMITH_EMBEDDING_BASE_URL"):
        load(SearchSettings, env_file=None)
