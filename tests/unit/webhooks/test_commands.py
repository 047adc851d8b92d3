"""A command is what a reader of the comment sees as one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.jobs.types import Word
from app.webhooks.commands import find, talk

NOT_COMMANDS = {
    "quoted": "> /agent fix the parser\n\nI disagree",
    "quoted, with lazy continuation": "> they said\n/agent fix the parser",
    "inline code": "Use `/agent fix` to start it",
    "inline code over two lines": "Use `this\n/agent fix it`",
    "backtick fence": "```\n/agent fix x\n```",
    "tilde fence": "~~~\n/agent fix x\n~~~",
    "fence that never ends": "```text\n\n/agent fix x",
    "HTML comment": "<!-- /agent fix x -->",
    "HTML comment over lines": "<!--\n\n/agent fix x\n\n-->",
    "HTML comment inside a paragraph": "Well <!--\n/agent fix x\n-->",
    "HTML block": "<details>\n/agent fix x\n</details>",
    "indented code": "See:\n\n    /agent fix x",
    "longer word": "/agents fix x",
    "part of a path": "me/agent fix x",
    "escaped": "\\/agent fix x",
    "in the middle of a line": "please /agent fix x",
    "list item": "- /agent fix x",
    "heading": "# /agent fix x",
    "link text": "[see\n/agent fix x](https://example.org)",
    "nothing": "",
}


@pytest.mark.parametrize("body", NOT_COMMANDS.values(), ids=NOT_COMMANDS.keys())
def test_text_about_commands_is_no_command(body: str) -> None:
    assert find(body) is None
    assert talk(body) == body


@pytest.mark.parametrize(
    "body",
    [
        "/agent fix the parser",
        "Thanks!\n\n/agent fix the parser",
        "Thanks!\n/agent fix the parser",
        "Thanks!\r\n\r\n/agent fix the parser\r\n",
        "   /agent \t fix the parser   ",
        "> quoted\n\n/agent fix the parser",
        "```\ncode\n```\n/agent fix the parser",
        "**Thanks**\n/agent fix the parser",
        "/Agent fix the parser",
        "/agent: fix the parser",
        "/agent\u00a0fix the parser",
    ],
)
def test_command_at_the_start_of_a_line(body: str) -> None:
    found = find(body)
    assert found is not None and found[:3] == (Word.FIX, "fix the parser", "")
    assert talk(body) == found.before and body.replace("\r", "").startswith(found.before)


def test_text_is_kept_as_written() -> None:
    found = find("/agent fix `parse()` in **a_b_c.py** <now> & then")
    assert found is not None
    assert found.text == "fix `parse()` in **a_b_c.py** <now> & then"


def test_following_lines_are_details_without_quotes_and_html() -> None:
    body = "/agent fix it\nTrace:\n```\n> boom\n```\n\n> somebody else's words\n\n<!-- unseen -->\n\nThanks"
    found = find(body)
    assert found is not None
    assert "```\n> boom\n```" in found.details
    assert found.details.endswith("Thanks")
    assert "somebody" not in found.details
    assert "unseen" not in found.details


@pytest.mark.parametrize("body", ["/agent fix: the parser", "/agent Fix the parser", "/agent FIX, the parser"])
def test_a_word_is_the_same_with_what_phones_make_of_it(body: str) -> None:
    found = find(body)
    assert found is not None and found.word is Word.FIX


@pytest.mark.parametrize("rest", ["/agent fix x", "\n\nAnd then:\n/agent status"])
def test_of_several_commands_none_is_chosen(rest: str) -> None:
    found = find(f"/agent stop\n{rest}")
    assert found is not None and found[:2] == (None, "stop")
    again = find("/agent stop\n\n> /agent fix x\n\n```\n/agent fix y\n```")
    assert again is not None and again.word is Word.STOP, "talk about commands is none"


@pytest.mark.parametrize("body", ["/agent", "/agent dance", "/agent fixit", "/agent pushed", "/agent stop\n/agent why"])
def test_unknown_words_have_no_meaning(body: str) -> None:
    found = find(body)
    assert found is not None
    assert found.word is None


@given(st.text(alphabet="/agent fix`~>\n <!-[]()*_\\#\t\r", max_size=120))
def test_any_text_is_read_without_error(body: str) -> None:
    found = find(body)
    assert found is None or "/agent" in body.lower()


@pytest.mark.parametrize("piece", ["[", "![[", "*a **", "<!--", "`a``", ">", "&", "[]("])
def test_hostile_markdown_around_a_command_stays_readable(piece: str) -> None:
    found = find("/agent fix x\n\n" + piece * (60_000 // len(piece)))
    assert found is not None
    assert found.text == "fix x"
    find("/agent fix x " + piece * (60_000 // len(piece)))
