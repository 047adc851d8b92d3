"""An issue read as a person would: what it shows, what it says and where it points."""

# ruff: noqa: E501 - small files and messages, each on a line

from __future__ import annotations

import pytest

from agent.context.frames import Frame
from agent.context.issue import read_issue

TRACES = {
    "python": ('  File "/home/u/site-packages/pkg/core.py", line 12, in compute\n    x\nValueError: bad value here',
               Frame("/home/u/site-packages/pkg/core.py", 12, "compute")),
    "ipython": ("~/lib/pkg/core.py in compute(x)\n     10 x", Frame("~/lib/pkg/core.py", 0, "compute")),
    "pytest": ("src/pkg/core.py:12: ValueError", Frame("src/pkg/core.py", 12, "")),
    "node": ("    at compute (/srv/app/src/core.js:12:5)", Frame("/srv/app/src/core.js", 12, "")),
    "java": ("\tat com.acme.core.Engine.compute(Engine.java:12)", Frame("com/acme/core/Engine.java", 12, "compute")),
    "go": ("main.compute(0x1)\n\t/srv/app/core/core.go:12 +0x1d", Frame("/srv/app/core/core.go", 12, "")),
    "rust": ("thread 'main' panicked at src/core.rs:12:5:\nboom", Frame("src/core.rs", 12, "")),
    "ruby": ("lib/core.rb:12:in `compute': bad (ArgumentError)", Frame("lib/core.rb", 12, "compute")),
    "php": ("#0 /srv/app/src/Core.php(12): compute()", Frame("/srv/app/src/Core.php", 12, "")),
    "c#": ("   at Acme.Core.Compute(Int32 x) in /srv/Core.cs:line 12", Frame("/srv/Core.cs", 12, "Compute")),
    "c#, a short name": ("   at Acme.Core.Run(Int32 x) in /srv/Core.cs:line 12", Frame("/srv/Core.cs", 12, "Run")),
    "python, a bare file": ('File "/usr/bin/tool", line 12, in Main.run', Frame("/usr/bin/tool", 12, "run")),
    "c": ("core.c:12:3: error: boom", Frame("core.c", 12, "")),
}  # fmt: skip


@pytest.mark.parametrize("language", sorted(TRACES))
def test_frames_of_every_language(language: str) -> None:
    text, frame = TRACES[language]
    assert frame in read_issue(f"It breaks\n\nSeen:\n```\n{text}\n```\n").frames


def test_the_parts_are_told_apart() -> None:
    issue = read_issue(
        "# Parser drops the last line\n\n<!-- please search first: hidden_word -->\n"
        "When I call `Parser.read_all` the last line is gone.\n\n"
        "```python\nfrom pkg.parser import Parser\nParser().read_all('x')\n```\n\n"
        "See https://github.com/acme/pkg/blob/abc123/pkg/parser.py#L10-L20 and pkg/lexer.py.\n"
        "It says \"unexpected end of input here\".\n\n"
        "### Versions\npython: 3.9.1\nnumpy: 1.2.3\nsecret_dump_word 5\n"
    )  # fmt: skip
    assert issue.title == "Parser drops the last line"
    assert "last line is gone" in issue.prose
    assert "read_all('x')" in issue.code
    assert "read_all('x')" not in issue.prose
    assert issue.links == (Frame("pkg/parser.py", 10, ""),)
    assert "pkg/lexer.py" in issue.paths
    assert {"Parser.read_all", "read_all"} <= set(issue.names)
    assert "unexpected end of input here" in issue.messages
    everything = issue.text
    for hidden in ("hidden_word", "secret_dump_word", "1.2.3", "github.com"):
        assert hidden not in everything


def test_code_and_traces_that_stand_in_no_fence() -> None:
    issue = read_issue(
        "Saving twice fails\nDescription\n\t\n\t\t(last modified by A. Person)\n\t\nI have this model:\n"
        "from shop.models import Order\nclass Parcel(Order):\n\tclass Meta:\n\t\tproxy = True\nparcel.save()\n"
        "Saving it a second time (see shop/base.py) raises an error in `full_clean`; this is what it says:\n"
        "Traceback (most recent call last):\n File \"shop/base.py\", line 7, in save\n\tself.full_clean()\n"
        "ValueError: parcel has no address\nSteps to reproduce:\nSave the parcel twice.\n"
    )  # fmt: skip
    assert [line for line in issue.prose.split("\n") if line] == [
        "I have this model:",
        "Saving it a second time (see shop/base.py) raises an error in `full_clean`; this is what it says:",
        "ValueError: parcel has no address",
        "Save the parcel twice.",
    ]  # fmt: skip
    code = [line.strip() for line in issue.code.split("\n") if line.strip()]
    assert code == [
        "from shop.models import Order", "class Parcel(Order):", "class Meta:", "proxy = True", "parcel.save()",
        "self.full_clean()",
    ]  # fmt: skip
    assert issue.frames == (Frame("shop/base.py", 7, "save"),)


@pytest.mark.parametrize(
    ("line", "is_code"),
    [
        ("rows = table.find(1)", True), ("@cached", True), ("let total = sum(prices);", True), ("func Read(r io.Reader) error {", True),
        ("fn main() {", True), ("#include <stdio.h>", True), ("})", True), ("return render(page)", True), ("x == y for all of them", False),
        ("Call rows.find(1) to see it.", False), ("class names are wrong", False), ("import fails for me", False),
        ("(this is an aside)", False), ("I set a = 3 and it fails", False), ("return values are swapped", False),
    ],
)  # fmt: skip
def test_a_line_is_code_or_prose(line: str, is_code: bool) -> None:
    issue = read_issue(f"Title\n{line}\n")
    assert (issue.code.strip(), issue.prose.strip()) == ((line, "") if is_code else ("", line))


@pytest.mark.parametrize(
    "title", ["[Bug]: Parser is slow", "BUG: Parser is slow", "[ENH] Parser is slow", "# Parser is slow"]
)
def test_a_title_says_no_more_than_its_subject(title: str) -> None:
    assert read_issue(title).title == "Parser is slow"


@pytest.mark.parametrize("title", ["[Bug]", "Bug in the parser", "[parser] is slow"])
def test_a_subject_is_no_tag(title: str) -> None:
    assert read_issue(title).title == title


def test_lists_of_versions_in_blocks_are_set_apart() -> None:
    issue = read_issue(
        "x\n\n### Bug summary\nIt leaks.\n```\nattrs   19.3.0\nopen_file()\n```\n"
        "### Versions\n```\nSystem: secret_os\n```\n### Traceback\n```\nbefore = 1.5\n```\n"
    )  # fmt: skip
    assert issue.code.split() == ["open_file()", "before", "=", "1.5"]
    assert issue.prose.split() == ["It", "leaks."]


def test_error_messages_are_kept() -> None:
    issue = read_issue("x\n\nTypeError: cannot add widget to gadget\n")
    assert "cannot add widget to gadget" in issue.messages


@pytest.mark.parametrize(
    "text",
    ["", "\n\n", "<!--", "```", "<" * 50_000, "`" * 50_000, "a." * 50_000, "    at " * 20_000, "/a" * 60_000, "\"" * 50_000,
     "(" * 50_000, "File \"" * 20_000, "x.py:1:" * 20_000, "<!--" * 20_000, "# " * 50_000, "\n" * 100_000, "#L1-" * 30_000,
     "https://a/blob/" * 8_000, "1." * 60_000, "A" * 150_000, "aA" * 75_000, "~~~" * 40_000,
     ("# a" + " " * 1_900 + "!\n") * 100, "+" * 190_000],
)  # fmt: skip
def test_hostile_text_ends(text: str) -> None:
    # A pattern that backtracks would take minutes here; the suite's own time limit ends it.
    assert read_issue("Title\n" + text).title == "Title"
    read_issue(text)


@pytest.mark.parametrize(
    ("text", "commits", "tickets"),
    [
        ("Since d6aff369ad3 it fails", {"d6aff369ad3"}, set()),
        (
            "Since https://forge/o/r/commit/0123456789abcdef0123456789abcdef01234567",
            {"0123456789abcdef0123456789abcdef01234567"},
            set(),
        ),
        ("see #12345, gh-99 and ticket 4711", set(), {"12345", "99", "4711"}),
        ("https://forge/o/r/pull/77 https://forge/o/r/issues/78#note_1", set(), {"77", "78"}),
        ("defaced, 1234567 and facade1x are words, #1 is a heading, a#12b no number", set(), set()),
    ],
)
def test_commits_and_tickets(text: str, commits: set[str], tickets: set[str]) -> None:
    issue = read_issue(text)
    assert (issue.commits, issue.tickets) == (commits, tickets)
