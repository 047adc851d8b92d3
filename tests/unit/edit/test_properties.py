"""What holds for every file and every edit."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from agent.edit import Edit, EditRefused, NotText, edited, inserted
from agent.edit.match import locate, unified
from agent.edit.text import Text

WORDS = st.sampled_from(["a", "b", "x = 1", "  x = 1", "\tx", "é", "  ", "", "return", "    return", "ab", "aab"])
ENDS = st.sampled_from(["\n", "\r\n"])


@st.composite
def files(draw: st.DrawFn) -> str:
    lines = draw(st.lists(st.tuples(WORDS, ENDS), max_size=8))
    return "".join(word + end for word, end in lines) + draw(WORDS)


@st.composite
def cases(draw: st.DrawFn) -> tuple[str, str]:
    """A file and a text to search in it: mostly a piece of it, sometimes with another indentation or ending."""
    content = draw(files())
    flat = unified(content)
    start = draw(st.integers(0, len(flat)))
    piece = flat[start : draw(st.integers(start, len(flat)))]
    kind = draw(st.integers(0, 5))
    if kind == 0:
        return content, draw(texts())
    if kind == 1:
        return content, "\n".join(f"  {line}" for line in piece.split("\n"))
    if kind == 2:
        return content, "\n".join(line.removeprefix("  ") for line in piece.split("\n"))
    return content, piece.replace("\n", "\r\n") if kind == 3 else piece


def texts() -> st.SearchStrategy[str]:
    return st.lists(WORDS, min_size=1, max_size=3).map("\n".join)


def attempt(data: bytes, search: str, replace: str) -> bytes | None:
    try:
        return edited("a.txt", data, [Edit(search, replace)])
    except (EditRefused, NotText):
        return None


@given(st.binary(max_size=60))
@example(b"\xff\xfea\x00\r\x00\n\x00")
@example(b"\xef\xbb\xbf\xff")
@example(b"\xed\xa0\x80")
def test_reading_and_writing_is_identity(data: bytes) -> None:
    try:
        text = Text.decode(data)
    except NotText:
        return
    assert text.encode() == data


@settings(max_examples=400)
@given(cases(), texts(), st.sampled_from(["utf-8", "latin-1", "utf-16"]))
def test_bytes_outside_the_edit_never_change(case: tuple[str, str], replace: str, encoding: str) -> None:
    content, search = case
    data = content.encode(encoding)
    after = attempt(data, search, replace)
    if after is None:
        return
    text = Text.decode(data)
    assert after.startswith(text.mark)
    result = text.with_text(after[len(text.mark) :].decode(text.encoding))
    flat = unified(text.text)
    place = locate(flat, unified(search))
    head, tail = flat[: place.start], flat[place.end :]
    new = unified(result.text)
    assert new.startswith(head)
    assert new.endswith(tail)
    assert new == head + place.shift(replace) + tail
    before, behind = _stored(text.text, len(head)), _stored(text.text[::-1], len(tail), "\n\r")
    assert result.text.startswith(before)
    assert result.text[::-1].startswith(behind)
    assert "\r\r\n" not in result.text or "\r\r\n" in text.text


def _stored(text: str, length: int, pair: str = "\r\n") -> str:
    """The prefix of ``text`` that has ``length`` characters when a pair counts once."""
    at = 0
    for _ in range(length):
        at += 2 if text.startswith(pair, at) else 1
    return text[:at]


@settings(max_examples=400)
@given(cases(), texts())
def test_a_second_time_is_refused_or_the_same(case: tuple[str, str], replace: str) -> None:
    content, search = case
    first = attempt(content.encode(), search, replace)
    if first is not None:
        assert attempt(first, search, replace) in (None, first)


@settings(max_examples=400)
@given(cases(), texts())
def test_back_again_is_identity(case: tuple[str, str], replace: str) -> None:
    content, search = case
    data = unified(content).encode()
    after = attempt(data, search, replace)
    if after is None or unified(search) not in unified(content):
        return
    back = attempt(after, replace, search)
    assert back in (None, data)


@settings(max_examples=200)
@given(cases(), texts())
def test_inserting_only_adds(case: tuple[str, str], text: str) -> None:
    content, anchor = case
    data = content.encode()
    try:
        after = inserted("a.txt", data, anchor, text)
    except EditRefused:
        return
    rest = iter(after)
    assert all(byte in rest for byte in data)
    try:
        again = inserted("a.txt", after, anchor, text)
    except EditRefused:
        return
    assert again == after


@settings(max_examples=200)
@given(files(), st.lists(st.tuples(texts(), texts()), min_size=2, max_size=3))
def test_several_edits_are_the_single_ones_or_nothing(content: str, pairs: list[tuple[str, str]]) -> None:
    data = content.encode()
    try:
        together = edited("a.txt", data, [Edit(*pair) for pair in pairs])
    except EditRefused:
        return
    assert edited("a.txt", data, [Edit(*pair) for pair in reversed(pairs)]) == together
    assert all(attempt(data, *pair) is not None for pair in pairs)
