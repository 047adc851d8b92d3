"""Edits change what they say and not one byte more, or nothing at all."""

from __future__ import annotations

import codecs

import pytest

from agent.edit import Edit, EditRefused, NotText, edited, inserted, replaced, written
from agent.edit.syntax import Syntax


def one(data: bytes, search: str, replace: str, path: str = "a.py") -> bytes:
    return edited(path, data, [Edit(search, replace)])


def refusal(data: bytes, search: str, replace: str, path: str = "a.py") -> str:
    with pytest.raises(EditRefused) as caught:
        one(data, search, replace, path)
    assert caught.value.todo or caught.value.why
    return str(caught.value)


# ── line endings ──


@pytest.mark.parametrize("replace", ["A\nb\nB2\n", "A\r\nb\r\nB2\r\n"])
@pytest.mark.parametrize("search", ["a\nb\n", "a\r\nb\r\n"])
def test_the_replacement_takes_the_file_s_line_ending(search: str, replace: str) -> None:
    assert one(b"a\r\nb\r\nc\r\n", search, replace) == bytes.fromhex("410d0a620d0a42320d0a630d0a")
    assert one(b"a\nb\nc\n", search, replace) == b"A\nb\nB2\nc\n"


def test_a_single_line_in_a_file_with_crlf() -> None:
    assert one(b"a\r\nb\r\n", "b", "x\ny") == b"a\r\nx\r\ny\r\n"


def test_mixed_endings_stay_where_they_are() -> None:
    data = b"one\r\ntwo\nthree\r\nfour\nfive\r\n"
    assert one(data, "two\nthree\nfour\n", "two\nTHREE\nfour\n") == b"one\r\ntwo\nTHREE\r\nfour\nfive\r\n"
    assert one(data, "two\n", "two\nnew\n") == b"one\r\ntwo\nnew\nthree\r\nfour\nfive\r\n"
    assert one(data, "three\nfour", "three\nnew\nfour") == b"one\r\ntwo\nthree\r\nnew\r\nfour\nfive\r\n"
    assert one(data, "ree", "ree\nnew") == b"one\r\ntwo\nthree\r\nnew\r\nfour\nfive\r\n", (
        "as the line that it is part of"
    )
    assert one(data, "our", "our\nnew") == b"one\r\ntwo\nthree\r\nfour\nnew\nfive\r\n"
    assert one(b"a\r\nb\nc\r\nxd", "d", "d\ne") == b"a\r\nb\nc\r\nxd\r\ne", "as most lines, where none follows"


def test_a_lone_carriage_return_is_a_character() -> None:
    assert one(b"a\rb\nc\n", "c", "d") == b"a\rb\nd\n"
    assert one(b"x\r\r\ny\r\n", "y", "z") == b"x\r\r\nz\r\n"


@pytest.mark.parametrize("data", [b"a\nb", b"a\r\nb", b"a\nb\n", b"b"])
def test_the_final_newline_stays_as_it_is(data: bytes) -> None:
    assert one(data, "b", "x") == data.replace(b"b", b"x")


# ── encodings ──


def test_one_byte_changes_in_a_file_that_is_not_utf8() -> None:
    data = b"# Copyright \xa9 Example\nlimit = 10\n"
    assert one(data, "limit = 10", "limit = 20") == b"# Copyright \xa9 Example\nlimit = 20\n"


def test_text_goes_in_and_out_in_the_file_s_encoding() -> None:
    assert one("naïve\n".encode("latin-1"), "naïve", "café") == "café\n".encode("latin-1")
    with pytest.raises(NotText, match="latin-1"):
        one("naïve\n".encode("latin-1"), "naïve", "€")


@pytest.mark.parametrize(
    ("mark", "encoding"),
    [(codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be")],
)
def test_byte_order_marks_stay(mark: bytes, encoding: str) -> None:
    data = mark + "ä = 1\r\nb = 😊\r\n".encode(encoding)
    assert one(data, "ä = 1\nb", "ä = 2\nb") == mark + "ä = 2\r\nb = 😊\r\n".encode(encoding)
    assert written("a.py", data, "ä = 3\n") == mark + "ä = 3\r\n".encode(encoding)


def test_an_odd_byte_among_utf8_stays() -> None:
    data = "überall größer\n".encode() + b"\xff\nx = 1\n"
    assert one(data, "größer", "kleiner") == "überall kleiner\n".encode() + b"\xff\nx = 1\n"


@pytest.mark.parametrize("data", [b"a\0b", b"\x89PNG\r\n\x1a\n\0", codecs.BOM_UTF32_LE + b"a\0\0\0", b"\xff\xfea"])
def test_binary_is_refused(data: bytes) -> None:
    with pytest.raises(NotText):
        one(data, "a", "b") if b"\0" in data else edited("x", b"\0" + data, [Edit("a", "b")])


# ── finding the place ──


def test_two_places_are_named() -> None:
    data = b"def dev():\n    debug = True\n\ndef prod():\n    debug = True\n"
    told = refusal(data, "    debug = True", "    debug = False")
    assert "2 matches, lines 2 and 5" in told
    assert told.split(" are:\n")[1].split("\n") == [
        f"{n}|{line}" for n, line in enumerate(data.decode().split("\n"), 1) if n in (1, 3, 4, 6)
    ]
    assert one(data, "def prod():\n    debug = True", "def prod():\n    debug = False").endswith(b"debug = False\n")


def test_of_many_places_the_first_are_named() -> None:
    assert "10 matches, lines 1, 2, 3, 4, 5, 6, 7, 8 and …" in refusal(b"a = 1\n" * 10, "a = 1", "a = 2")
    assert "8 matches, lines 1, 2, 3, 4, 5, 6, 7 and 8" in refusal(b"a = 1\n" * 8, "a = 1", "a = 2")


def test_overlapping_places_are_two() -> None:
    assert "2 matches" in refusal(b"aaa\n", "aa", "b")


def test_blanks_inside_a_line_count() -> None:
    data = b"def foo():\n    x = 1\n    y = 2\n    return x + y\n"
    assert "2|    x = 1" in refusal(data, "    x  =  1", "    x = 100")


def test_a_uniform_indentation_is_taken_over() -> None:
    data = b"class K:\n    def a(self):\n        if x:\n            return 1\n\n        return 2\n"
    search = "def a(self):\n    if x:\n        return 1\n\n    return 2\n"
    assert one(data, search, search.replace("1", "10")) == data.replace(b"1", b"10")
    less = "        def a(self):\n            if x:\n                return 1\n\n            return 2\n"
    assert one(data, less, less.replace("2", "20")) == data.replace(b"return 2", b"return 20")
    tabs = data.replace(b"    ", b"\t")
    assert one(tabs, "if x:\n\treturn 1\n", "if x:\n\treturn 3\n") == tabs.replace(b"1", b"3")


def test_an_uneven_indentation_is_refused() -> None:
    data = b"def a():\n    if x:\n        return 1\n"
    assert "No match" in refusal(data, "if x:\n  return 1\n", "if x:\n  return 2\n")
    assert "tabs" in refusal(
        data.replace(b"    ", b"\t"), "    if x:\n        return 1\n", "    if y:\n        return 1\n"
    )


def test_only_white_space_is_an_indentation() -> None:
    assert "No match" in refusal(b"ax = 1\nay = 2\n", "x = 1\ny = 2\n", "x = 3\ny = 4\n")


def test_a_line_end_that_the_file_lacks_is_not_matched_with_another_indentation() -> None:
    assert "No match" in refusal(b"if a:\n    x = 1", "x = 1\n", "x = 2\n")


@pytest.mark.parametrize("replace", ["", "z = 1\n"])
def test_a_shifted_place_is_not_taken_where_the_edit_may_be_made_already(replace: str) -> None:
    data = b"if a:\n    x = 1\n    y = 1\nz = 1\n"
    assert "another indentation" in refusal(data, "x = 1\ny = 1\n", replace)


def test_a_shifted_place_must_be_the_only_one() -> None:
    data = b"if a:\n    x = 1\n    y = 1\nif b:\n        x = 1\n        y = 1\n"
    assert "2 matches, lines 2 and 5" in refusal(data, "x = 1\ny = 1\n", "x = 2\ny = 1\n")


def test_a_replacement_that_can_not_be_shifted_is_refused() -> None:
    data = b"if a:\n  x = 1\n  y = 1\n"
    assert "indentation" in refusal(data, "      x = 1\n      y = 1\n", "x = 2\n")


def test_line_numbers_in_the_search_text_are_told() -> None:
    assert "line numbers" in refusal(b"a = 1\nb = 2\n", "1|a = 1\n2|b = 2", "a = 2")
    for search in ("a = 2", "1|a = 1\nb = 3", "    a = 3", "\ta = 3"):
        said = refusal(b"a = 1\nb = 2\n", search, "x")
        assert "line numbers" not in said and "tabs" not in said


def test_no_match_shows_the_nearest_lines() -> None:
    data = b"def f(x):\n    total = compute(x)\n    return total\n"
    message = refusal(data, "def f(x):\n    totals = compute(x)\n    return totals\n", "pass")
    assert "1|def f(x):" in message
    assert "3|    return total" in message
    assert "1 edit" not in message
    typed = b"a\n\nconst f = (e: Event) => {\n  set(e.value);\n};\n\nz\n"
    assert "are:\n3|const f" in refusal(typed, "const f = (e) => {\n  set(e.value);\n};", "x"), "where the text begins"
    assert "Read the file" in refusal(b"completely = different\n", "for i in range(10):\n    print(i)", "pass")


def test_empty_and_equal_texts_are_refused() -> None:
    assert "empty" in refusal(b"a\n", "", "b")
    assert "changes nothing" in refusal(b"a\n", "a", "a")
    with pytest.raises(EditRefused, match="no edit"):
        edited("a.py", b"a\n", [])


# ── twice ──


def test_an_edit_that_is_made_already_is_not_made_again() -> None:
    first = one(b"def a():\n    pass\n", "def a():", "import b\n\n\ndef a():")
    assert "already" in refusal(first, "def a():", "import b\n\n\ndef a():")
    done = one(b"x = 1\n", "x = 1", "x = 2")
    assert "stands in the file already, line 1" in refusal(done, "x = 1", "x = 2")


def test_an_edit_never_wanders_to_a_similar_place() -> None:
    data = b"def a():\n    return 1\n\nclass K:\n    def b(self):\n        return 1\n"
    search, replace = "    def b(self):\n        return 1\n", "    def b(self):\n        return 2\n"
    after = one(data, search, replace)
    assert "already" in refusal(after, search, replace)
    assert "again" in refusal(b"aab", "ab", "b")


# ── several edits of one file ──


def test_all_edits_or_none() -> None:
    data = b"a = 1\nb = 2\nc = 3\n"
    assert (
        edited("x.py", data, [Edit("c = 3", "c = 30"), Edit("a = 1", "a = 10\nz = 0")])
        == b"a = 10\nz = 0\nb = 2\nc = 30\n"
    )
    with pytest.raises(EditRefused, match="Edit 2 of 2: No match"):
        edited("x.py", data, [Edit("a = 1", "a = 10"), Edit("missing", "x")])
    assert edited("x.py", b"ab\n", [Edit("b", "y"), Edit("a", "x")]) == b"xy\n", "neighbours do not overlap"
    with pytest.raises(EditRefused, match="overlap, line 2"):
        edited("x.py", data, [Edit("a = 1\nb", "x"), Edit("b = 2", "y")])


def test_each_edit_is_matched_against_the_file_as_it_was() -> None:
    assert edited("x.py", b"a = b\nc = d\n", [Edit("a = b", "c = d"), Edit("c = d", "a = b")]) == b"c = d\na = b\n"


# ── markers in the content ──


def test_text_that_looks_like_an_edit_format_is_just_text() -> None:
    data = b"Old title\n=========\n\ntext\n"
    new = "New longer title\n================\n"
    assert one(data, "Old title\n=========\n", new, "docs/intro.rst") == new.encode() + b"\ntext\n"
    fence = "## Use\n\n```python\nx = '<<<<<<< SEARCH'\n```\n"
    assert inserted("README.md", b"# A\n", "# A", fence).endswith(fence.encode())


# ── text left out ──

CLASS = b"class K:\n" + b"".join(b"    def %c(self):\n        return 1\n" % name for name in b"abc")


@pytest.mark.parametrize(
    "mark",
    [
        *(
            "# ... rest of methods unchanged ...",
            "# ...",
            "# … existing code …",
            "# ... (same as before)",
            "# rest of the class...",
        ),
        *(
            "... rest of methods unchanged ...",
            "# The rest of the file remains the same",
            "# existing code here",
            "# [...]",
        ),
        *(
            "// ... existing code ...",
            "/* ... other methods ... */",
            "-- ... rest unchanged",
            "{/* ... rest of body ... */}",
        ),
        *("<!-- ... rest of content unchanged ... -->", "# unchanged", "# ... keep the previous implementation ..."),
    ],
)
def test_marks_for_left_out_code_are_refused(mark: str) -> None:
    replace = f"class K:\n    def a(self):\n        return 2\n    {mark}\n"
    assert "leaves code out" in refusal(CLASS, CLASS.decode(), replace)
    with pytest.raises(EditRefused, match="leaves code out"):
        written("k.js", CLASS, replace)
    with pytest.raises(EditRefused, match="leaves code out"):
        inserted("k.ts", CLASS, "class K:", f"    {mark}\n")


@pytest.mark.parametrize(
    "line",
    [
        *(
            "def f(self): ...",
            'print("...")',
            "...",
            "x: tuple[int, ...]",
            "# wait for the rest",
            "# Loading the content...",
        ),
        *(
            "# see the code above",
            ">>> for x in rest:",
            "...     print(x)",
            "# the remaining rows are summed",
            "f(*args, ...)",
        ),
        *("# Existing rows stay", "a = [1, 2, ...]", "# TODO: other cases", "raise NotImplementedError  # unchanged"),
    ],
)
def test_ordinary_dots_and_comments_pass(line: str) -> None:
    assert one(b"x = 1\n", "x = 1", f"x = 1\n{line}") == f"x = 1\n{line}\n".encode()


def test_a_mark_that_the_file_holds_may_stay() -> None:
    data = b"class K:\n    # ... rest of methods unchanged ...\n    x = 1\n"
    assert one(data, data.decode(), data.decode().replace("1", "2")) == data.replace(b"1", b"2")
    assert written("k.py", data, data.decode().replace("1", "2")) == data.replace(b"1", b"2")


def test_prose_may_have_dots() -> None:
    assert written("README.md", None, "# ...\n\n* ... and the rest\n")
    with pytest.raises(EditRefused):
        written("README.md", b"# A\n", "# A\n<!-- ... rest unchanged ... -->\n")


# ── syntax ──


def test_a_change_must_not_break_the_syntax() -> None:
    with pytest.raises(EditRefused, match=r"no longer parse.*line 1"):
        Syntax()("a.py", b"x = (1)\n", b"x = (1\n")
    with pytest.raises(EditRefused, match="does not parse"):
        Syntax()("a.json", None, b"{")
    for path, deep in (("a.json", b"[" * 100_000), ("a.toml", b"a = " + b"[" * 5_000), ("a.py", b"(" * 5_000)):
        with pytest.raises(EditRefused, match="does not parse"):
            Syntax()(path, None, deep)
    Syntax()("a.py", b"x = (1\ny = 2\n", b"x = (1\ny = 3\n")
    Syntax()("a.py", b"x = (1\n", b"x = 1\n")


BROKEN = {
    "a.go": (b"package a\n\nfunc f() {}\n", b"package a\n\nfunc f() {\n", 3),
    "a.ts": (b"let x: number = 1;\n", b"let x: number = (1;\n", 1),
    "a.rs": (b"fn f() {}\n\nfn g() {}\n", b"fn f() {}\n\nfn g( {}\n", 3),
    "a.java": (b"class A { }\n", b"class A { void f( }\n", 1),
    "a.rb": (b"def f\n  1\nend\n", b"def f\n  (1\nend\n", 2),
    "run": (b"#!/bin/bash\nif true; then echo; fi\n", b"#!/bin/bash\nif true; then echo (; fi\n", 2),
    "a.toml": (b"a = 1\n", b"a = \n", 1),
}


@pytest.mark.parametrize("path", BROKEN)
def test_all_languages_are_refused_in_the_same_words(path: str) -> None:
    sound, broken, line = BROKEN[path]
    with pytest.raises(EditRefused, match=rf"{path} would no longer parse.*line {line}: "):
        Syntax()(path, sound, broken)
    Syntax()(path, broken, broken + b"((\n")  # it was broken before


def test_what_only_a_grammar_objects_to_is_let_through_when_it_is_sent_again() -> None:
    check, (sound, broken, _) = Syntax(), BROKEN["a.go"]
    for path in ("a.go", "b.go"):
        with pytest.raises(EditRefused, match="as it is if you are sure"):
            check(path, sound, broken)
        check(path, sound, broken)
    check("new.go", None, broken)  # a grammar says nothing of a new file
    for _ in range(2):
        with pytest.raises(EditRefused, match="with correct syntax"):
            check("a.json", b"{}", b"{")


def test_the_syntax_check_sees_the_file_s_own_bytes() -> None:
    data = b"# -*- coding: latin-1 -*-\nx = '\xe9'\n"
    after = edited("a.py", data, [Edit("'é'", "'ü'")])
    assert after == b"# -*- coding: latin-1 -*-\nx = '\xfc'\n"
    Syntax()("a.py", data, after)


# ── insert and write ──


def test_insert_puts_whole_lines() -> None:
    assert inserted("a.py", b"a\nb\n", "a", "x") == b"a\nx\nb\n"
    assert inserted("a.py", b"a\r\nb\r\n", "b", "x\ny\n", before=True) == b"a\r\nx\r\ny\r\nb\r\n"
    assert inserted("a.py", b"a\nb", "b", "x\n") == b"a\nb\nx"
    assert inserted("a.py", b"ab cd\n", "cd", "x") == b"ab cd\nx\n"
    assert inserted("a.py", b"a\r\nb\nc\r\n", "b", "x") == b"a\r\nb\nx\nc\r\n"
    assert inserted("a.py", b"class K:\n    a = 1\n    b = 1\n", "a = 1\nb = 1\n", "c = 1\n").endswith(b"    c = 1\n")
    with pytest.raises(EditRefused, match="already"):
        inserted("a.py", b"a\nx\nb\n", "a", "x")
    with pytest.raises(EditRefused, match="already"):
        inserted("a.py", b"x\na\n", "a", "x", before=True)
    with pytest.raises(EditRefused, match="2 matches"):
        inserted("a.py", b"a\na\n", "a", "x")
    with pytest.raises(EditRefused, match="empty"):
        inserted("a.py", b"a\n", "a", "\n")


def test_write_keeps_what_an_existing_file_is_like() -> None:
    assert written("a.py", b"a\r\nb\r\n", "x\ny\n") == b"x\r\ny\r\n"
    assert written("a.py", None, "x\r\ny\n") == b"x\ny\n"
    assert written("a.py", None, "") == b""
    with pytest.raises(EditRefused, match="already"):
        written("a.py", b"a\r\n", "a\n")


def test_text_of_any_content_is_searched_in_bounded_time() -> None:
    """Each would take minutes or hours if time grew with the square of the text."""
    assert "100 or more matches" in refusal(b" " * 2_000_000, " ", "x")
    assert "100 or more matches" in refusal(b"a" * 2_000_000, "a" * 1_000_000, "x")
    assert "100 or more matches" in refusal(b"  a\n" * 200_000, "    a\n" * 2, "x\n")
    assert "No match" in refusal(b" a\n" * 200_000, "a\n" * 100_000 + "b\n", "x\n")
    assert one(b" a\n" * 200_000 + b" b\n", "a\n" * 100_000 + "b\n", "x\n").endswith(b" a\n x\n")
    for marks in (
        "# a" + " " * 100_000 + "b",
        "..." + " rest" * 100_000 + "!",
        "." * 100_000 + "!",
        "... " * 100_000 + "!",
    ):
        assert written("a.py", None, f"{marks}\n")
    decorated = "@a(\n" * 50_000
    assert replaced("a.py", f"{decorated})\ndef f():\n    pass\n".encode(), 1, 50_003, "def f():\n    return 1\n")
