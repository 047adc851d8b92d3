"""Secrets are found by value and by shape, and placeholders are not."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from agent import secrets
from agent.events import EventLog

R = "aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW3xY5"


@pytest.mark.parametrize(
    "text",
    [f"gh{letter}_{R}" for letter in "pousr"]
    + [f"ghs_{R}.{R}-{R}", f"github_pat_{R}", f"glpat-{R}", f"sk-{R}", f"sk-proj-{R}", "AKIA" + "Q3EGRIFXUJW2LMN7"]
    + [
        f"eyJhbGciOiJI.eyJzdWIiOiIx.{R}",
        f"-----BEGIN RSA PRIVATE KEY-----\n{R}{R}\n",
        f"-----BEGIN PRIVATE KEY-----\n{R}{R}\n",
    ]
    + [f"xoxb-1234567890-{R}", "AIza" + R[:35], f"npm_{R}", f"rk_live_{R}", f"pypi-AgEIcHlwaS5vcmc{R}{R}"],
)
def test_shapes_are_found_and_redacted(text: str) -> None:
    (hit,) = secrets.find(f"first line\ntoken = '{text}'\n")
    assert hit.line == 2 and R[:20] not in repr(hit)
    assert R[:12] not in secrets.redact(f"x {text} y")
    assert R[:12] not in secrets.redact(f'"x\\n{text}\\n"'), "a line end as a string spells it"
    assert secrets.may_hold(json.dumps({"said": f"\n{text}"}))


def test_a_log_holds_no_token_wherever_in_an_event_it_stands(tmp_path: Path) -> None:
    token, other, told = f"ghp_{R}", f"ghp_{R[::-1]}", []
    log = EventLog(tmp_path / "log", listeners=[told.append])

    outcomes = {f"test_it[{token}]": ["passed", {"at": Path(token)}], f"test_it[{other}]": 2}
    log.emit("note", text=f"\n{token}", outcomes=outcomes, n=1.5)
    log.close()

    (line,) = (tmp_path / "log").read_text().splitlines()
    assert R[:12] not in line and told == [json.loads(line)]
    kept = {"test_it[[redacted]]": ["passed", {"at": "[redacted]"}], "test_it[[redacted]] 1": 2}
    assert (told[0]["outcomes"], told[0]["n"]) == (kept, 1.5)


@pytest.mark.parametrize("between", ["\\n", "\\\\n", "\\r\\n", "\n    ", '\\n"\n    "', '",\n    "', "\r\n"])
def test_a_private_key_is_found_however_a_file_spells_its_lines(between: str) -> None:
    lines = [R + R[:28], R[::-1] + R[:28], R[:20]]
    key = between.join(["-----BEGIN RSA PRIVATE KEY-----", *lines, "-----END RSA PRIVATE KEY-----"])
    assert [hit.name for hit in secrets.find(f'{{"key": "{key}"}}')] == ["private key"]
    assert not any(line in secrets.redact(f'{{"key": "{key}"}}') for line in lines)


@pytest.mark.parametrize(
    "text",
    (
        "ghp_" + "x" * 36,
        "AKIAIOSFODNN7EXAMPLE",
        "sk-learn",
        "sk-estimator-doc-link-fitted",
        'MARK = "-----BEGIN PRIVATE KEY-----"\nimport os\nimport sys\nfrom pathlib import Path',
        "task-force-of-several-people",
        f"-----BEGIN PUBLIC KEY-----\n{R}{R}",
        "-----BEGIN PRIVATE KEY-----\n...\n",
        "a" * 40,
        "ghp_short",
    ),
)
def test_what_only_looks_like_one_passes(text: str) -> None:
    assert not list(secrets.find(text))
    assert secrets.redact(text) == text


def test_our_own_values_are_found_under_usual_spellings() -> None:
    value = "hook/secret+of ours"
    for spelled in (
        value,
        value.encode().hex(),
        "hook%2Fsecret%2Bof%20ours",
        value[::-1],
        *(base64.b64encode(b"x" * n + value.encode() + b"tail").decode() for n in range(4)),
    ):
        assert [hit.name for hit in secrets.find(f"a {spelled} b", [value])] == ["one of our own secrets"]
        assert secrets.redact(f"a {spelled} b", [value]) != f"a {spelled} b"
    assert not list(secrets.find("nothing here, in short", [value, "short"]))
    assert secrets.redact(f"a {value}-longer b", [value, f"{value}-longer"]) == "a [redacted] b", "no rest of it stays"


def test_utf16_hides_nothing() -> None:
    content = f"token = ghp_{R}".encode("utf-16")
    assert any(list(secrets.find(text)) for text in secrets.as_text(content))
