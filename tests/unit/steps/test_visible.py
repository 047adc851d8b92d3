"""What a person does not see of an issue, a model does not get."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.steps.visible import visible


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("no comment\r\n", "no comment\r\n"),
        ("a <!-- x --> b", "a  b"),
        ("a\r\n\r\n<!-- x\n\ny -->\nb", "a\n\n\nb"),
        ("<!-- open\n\nto the end", ""),
        ("a <!-- open, so it is text\n\nand seen", "a <!-- open, so it is text\n\nand seen"),
        ("> quoted <!-- x -->", "> quoted "),
        ("# head <!-- x -->", "# head "),
        ("<!--> text -->", " text -->"),
        ("<!-- a `code` --> b `c <!-- d -->`", " b `c `"),  # a line that begins as HTML is HTML
        ("see <!-- a `code` --> b `c <!-- d -->`", "see  b `c <!-- d -->`"),
        # Code is shown as it is.
        ("`<!-- x -->` and ``<!-- y -->``", "`<!-- x -->` and ``<!-- y -->``"),
        ("```html\n<!-- x -->\n```\n<!-- y -->", "```html\n<!-- x -->\n```\n"),
        ("- item\n\n  ~~~\n  <!-- x -->\n  ~~~\n", "- item\n\n  ~~~\n  <!-- x -->\n  ~~~\n"),
        ("    <!-- x -->\n", "    <!-- x -->\n"),
        # What only looks like code.
        ("` a\n\n<!-- x --> `", "` a\n\n `"),
        ("* `\n* <!-- x --> `", "* `\n*  `"),
        ("\\`<!-- x -->`", "\\``"),
        ("<div>\n```\n<!-- x -->\n```\n</div>", "<div>\n```\n\n```\n</div>"),
        ("<p>`<!-- x -->`", "<p>``"),
        ("a <b> `<!-- x --> <!-- y -->`", "a <b> ` `"),
        ('a <b title="`"> <!-- x --> `</b>', 'a <b title="`">  `</b>'),
        ("| a | b |\n|---|---|\n| ` | <!-- x --> ` |", "| a | b |\n|---|---|\n| ` |  ` |"),
    ],
)
def test_what_is_hidden_goes_and_what_is_shown_stays(text: str, seen: str) -> None:
    assert visible(text) == seen


@given(st.text(alphabet="a`<!->\n ~|", max_size=60))
def test_nothing_is_made_up_and_plain_text_is_untouched(text: str) -> None:
    rest = iter(text)
    assert all(char in rest for char in visible(text)), "what is left stands there in that order"
    if "<!--" not in text:
        assert visible(text) == text
