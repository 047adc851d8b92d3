"""Others' text in our Markdown: nothing in it is live, nothing breaks out, the reader sees what it says."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.report import markdown as md
from tests.unit.report.rendered import Rendered

OWN = "https://github.com/acme/widget/blob/"

_TOKENS = r"""
@octo-cat @acme/core-team fixes #1 acme/other#2 GH-3 ` `` ``` ````` ~~~ < > <!-- --> </details> <details>
<img/src=https://evil.invalid/x> ![x](https://evil.invalid/p.png) [a](https://evil.invalid) [a]: [a] [^1] ( ) :
https://evil.invalid www.evil.invalid # ## --- === |a|b| |---|---| | \ \\ * ** _ __ &lt; &#64;x - 1. > x é a.b_c
$x$ a@example.com
"""
_BLANKS = [" ", " ", "\n", "\n\n", "    ", "\t", "\r", "\x00", "\x1b[31m", "\u202e"]
_LINKS = [f"[ok]({OWN}main/a.py)", f"{OWN}main/a.py"]
_NASTY = st.lists(st.sampled_from(_TOKENS.split()) | st.sampled_from(_BLANKS + _LINKS), max_size=24).map("".join)


@given(_NASTY, st.sampled_from(["prose", "inline", "code", "fence", "details", "cell"]))
@settings(max_examples=600, derandomize=True)
def test_nothing_is_live_and_nothing_breaks_out(text: str, kind: str) -> None:
    shown = {
        "prose": lambda: md.prose(text, (OWN,)),
        "inline": lambda: "- " + md.inline(text, (OWN,)),
        "code": lambda: md.code(text),
        "fence": lambda: md.fence(text),
        "details": lambda: md.details("Log", md.fence(text)),
        "cell": lambda: md.rows(("A", "B"), "ll", [(md.cell(text), "end")]),
    }[kind]()
    page = Rendered(f"### Before\n\n{shown}\n\n### After\n\ntext of our own\n")
    assert page.headings == ["Before", "After"]
    assert not page.open
    assert page.texts[-2].strip() == "text of our own" or "text of our own" in page.texts
    assert not set(page.tags) & {"img", "hr", "script", "blockquote", "h1", "h2", "input"}
    assert all(href.startswith(OWN) for href in page.hrefs)
    assert not page.mentions, page.html
    assert not page.references, page.html
    assert not [link for text in page.texts for link in [text] if "://" in text and OWN not in text], page.html
    assert "<!--" not in page.html
    if kind == "cell":
        assert page.tags.count("td") == 2


def test_every_mention_is_neutralised_and_mail_stays() -> None:
    shown = md.prose("cc @octo-cat and @acme/core-team, again @octo-cat\n\nwrite to a@example.com (@octo-cat).")
    page = Rendered(shown)
    assert page.mentions == []
    assert page.codes == ["@octo-cat", "@acme/core-team", "@octo-cat", "@octo-cat"]
    assert "a@example.com" in page.text


def test_decorators_in_a_log_stay_as_they_are() -> None:
    log = 'File "m.py": @dataclass'
    assert Rendered(md.fence(log)).codes == [log + "\n"]


@pytest.mark.parametrize(
    "text",
    [
        "fixes #1",
        "Closes other/repo#2",
        "resolves GH-3",
        "fix https://github.com/acme/widget/issues/1",
        "close: #4 and fixed [#5](https://github.com/acme/widget/issues/5)",
        "**fixes** #6",
    ],
)
def test_closing_words_of_others_close_nothing(text: str) -> None:
    for shown in (md.prose(text, (OWN,)), md.inline(text, (OWN,))):
        page = Rendered(shown)
        assert not page.references and not page.bare_links and not page.hrefs
    assert not any(mark in md.plain(text, 200) for mark in ("#1", "#2", "GH-3", "issues/1", "#4", "#5", "#6"))


def test_a_fence_is_longer_than_any_run_inside() -> None:
    log = "a\n```\nb\n`````\n![x](https://example.invalid/p.png)\n</details>\r\n~~~~~~\rend"
    shown = md.details("Log", md.fence(log))
    assert "``````\n" in shown
    page = Rendered(shown + "\n\n### Next\n")
    assert page.headings == ["Next"] and page.hrefs == [] and "img" not in page.tags
    assert page.codes == ["a\n```\nb\n`````\n![x](https://example.invalid/p.png)\n</details>\n~~~~~~\nend\n"]


def test_fifty_backticks_in_a_code_span() -> None:
    text = "a" + "`" * 50 + "b"
    assert Rendered(md.code(text)).codes == [text]


def test_terminal_sequences_and_control_signs_are_gone() -> None:
    text = "\x1b[31mFAILED\x1b[0m \x1b]8;;https://evil.invalid\x07link\x1b]8;;\x07 a\x00b\x07 \x9b1mz \x1bc"
    assert md.clean(text, most=100) == "FAILED link ab z "
    assert md.clean("10 %\r20 %\r\ndone", most=100) == "10 %\n20 %\ndone"


def test_direction_signs_are_dropped_in_words_and_shown_in_code() -> None:
    assert md.inline("a\u202eb") == "ab"
    assert md.fence("a\u202eb") == "```\na‹U+202E›b\n```"


def test_links_live_only_inside_the_allowed_prefix() -> None:
    page = Rendered(
        md.prose(
            f"[code]({OWN}main/a.py#L3) [bad](https://evil.invalid/?d=1) {OWN}x.py "
            "[twin](https://github.com.evil.invalid/acme/widget/blob/) ![pic](https://evil.invalid/p.png) "
            f"[up]({OWN}../../../../evil) <https://evil.invalid> [js](javascript:alert(1))",
            (OWN,),
        )
    )
    assert page.hrefs == [f"{OWN}main/a.py#L3"]
    assert "img" not in page.tags and "https://evil.invalid/p.png" in page.codes


def test_words_keep_their_shape() -> None:
    text = "The `parse` function dropped:\n\n- **bold** text\n  - deeper\n- more\n\n```python\nx = 1\n```\n\n1. a\n2. b"
    page = Rendered(md.prose(text))
    assert page.codes == ["parse", "x = 1\n"]
    assert page.tags.count("ul") == 2 and page.tags.count("ol") == 1 and page.tags.count("li") == 5
    assert "**bold** text" in page.text


def test_a_fence_of_tildes_is_code_too() -> None:
    page = Rendered(md.prose("Before\n\n~~~python\n@octo-cat # fixes #1\n```\n~~~\n\nafter `x`"))
    assert page.codes == ["@octo-cat # fixes #1\n```\n", "x"]


def test_an_image_is_none_wherever_it_comes_from() -> None:
    page = Rendered(md.prose(f"![pic]({OWN}p.png)", (OWN,)))
    assert (page.hrefs, page.codes, "img" in page.tags) == ([], [f"{OWN}p.png"], False)


def test_a_heading_of_others_is_no_section_of_ours() -> None:
    assert Rendered(md.prose("## Proof\n\nall fine\n\nProof\n=====\n")).headings == []


def test_formulas_stay_words() -> None:
    assert Rendered(md.inline("costs $5 and $6")).codes == ["$5", "$6"]


def test_pipes_in_a_cell_keep_the_table_whole() -> None:
    for test_id in ("t[a|b]", "t[a\\|b]", "t[`|`]", "t[a\\\\|@user b]"):
        page = Rendered(md.rows(("Test", "After"), "ll", [(md.cell(test_id), "green")]))
        assert page.tags.count("td") == 2 and page.codes == [test_id] and not page.mentions


@pytest.mark.parametrize("limit", range(8, 24))
def test_cutting_never_splits_a_character(limit: int) -> None:
    text = "ab😀é\ncd😀é\nef😀é"
    for kept in (md.head(text, limit), md.tail(text, limit)):
        assert md.size(kept) <= limit and "\ufffd" not in kept


def test_the_end_of_a_log_is_what_stays() -> None:
    log = "".join(f"line {n}\n" for n in range(100_000)) + "1 failed, 2 passed\n"
    kept = md.tail(log, 1_000)
    assert kept.endswith("1 failed, 2 passed\n") and kept.startswith("line ")


@given(st.text(max_size=400))
@settings(max_examples=200, derandomize=True)
def test_a_title_is_one_harmless_line(text: str) -> None:
    title = md.plain(text, 72)
    assert len(title) <= 72
    bad = {"Cc", "Cs", "Zl", "Zp"}
    assert not any(unicodedata.category(char) in bad for char in title)


@pytest.mark.parametrize(
    "words",
    [
        "[skip ci]",
        "[CI SKIP]",
        "[no ci]",
        "[skip actions]",
        "[actions skip]",
        "skip-checks: true",
        "[skip-ci]",
        "***NO_CI***",
    ],
)
def test_words_that_switch_off_checks_do_not(words: str) -> None:
    shown = md.plain(f"broken {words} thing", 72)
    assert words not in shown and shown.replace("\u200b", "") == f"broken {words} thing"


def test_a_long_line_of_marks_costs_little() -> None:
    for text in ("`" * 50_000, "` `` " * 10_000, "[" * 50_000, "@a*" * 20_000, "(" * 50_000 + "@a"):
        assert md.size(md.prose(text)) < 60_000
