"""Raw output becomes text that can be shown anywhere."""

from __future__ import annotations

import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.text import clean, sound


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"ok \xff\xfe\x80\n", "ok \ufffd\ufffd\ufffd\n"),
        (b"a" * 65535 + "é".encode(), "a" * 65535 + "é"),
        (b"a\0b\x07c\x7f", "abc"),
        (b"\x1b[31mFAILED\x1b[0m\x1b(B", "FAILED"),
        (b"\x1b]8;;https://example.invalid/\x1b\\link\x1b]8;;\x07", "link"),
        (b"\x1b]0;title\nnext line", "\nnext line"),
        (b"\x1bP1;2q stuff \x1b\\seen", "seen"),
        ("\u009b31mred\u0085 \u009d0;x\u009cy".encode(), "red y"),
        (b" 10%\r 50%\r100%\r\nnext\r\n", "100%\nnext\n"),
        (b"half\rfull\r", "full"),
        (b"underlin_\x08e", "underline"),
        ("a\u202eb\u2066c\u200bd\ufeff\U000e0041".encode(), "abcd"),
        ("line\u2028end\tstays\n".encode(), "lineend\tstays\n"),
        (b"", ""),
        (b"\x1b", ""),
        (b"\xe2\x82", "\ufffd"),
    ],
)
def test_what_is_left_is_plain_text(raw: bytes, text: str) -> None:
    assert clean(raw) == text


@given(st.text(st.characters(codec=None)))
def test_every_text_becomes_one_that_can_be_stored(text: str) -> None:
    made = sound(text)
    assert made.encode().decode() == made == sound(made)
    assert made == text or not text.isascii()


@given(st.binary())
def test_a_name_that_is_no_text_is_read_as_output_is(name: bytes) -> None:
    assert sound(name.decode("utf-8", "surrogateescape")) == name.decode("utf-8", "replace")


@pytest.mark.parametrize(
    ("text", "wanted"), [("\ud83d\ude00", "😀"), ("a\ud83d", "a\ufffd"), ("\ude00\udce9 é", "\ufffd\ufffd é")]
)
def test_halves_of_a_character_are_joined_or_marked(text: str, wanted: str) -> None:
    assert sound(text) == wanted


def test_a_long_text_keeps_head_and_tail_with_a_note() -> None:
    text = clean(("é" * 5000 + "🙂" * 5000).encode(), 1000)

    assert len(text) <= 1000
    assert text.startswith("é" * 100)
    assert text.endswith("🙂" * 100)
    assert "characters left out" in text


@given(st.binary(), st.integers(0, 200) | st.none())
def test_never_fails_and_never_lets_a_control_sign_through(raw: bytes, limit: int | None) -> None:
    text = clean(raw, limit)

    assert limit is None or len(text) <= limit
    assert not {sign for sign in text if unicodedata.category(sign) == "Cc"} - {"\n", "\t"}


@pytest.mark.parametrize("raw", [b"\x1b]" * 500_000, b"\r" * 1_000_000, b"x" * 1_000_000 + b"\r", b"\x1b[" * 500_000])
def test_the_work_grows_with_the_length_and_no_faster(raw: bytes) -> None:
    started = time.process_time()
    clean(raw)
    whole = time.process_time() - started
    assert whole < 20  # a quadratic pass over a million signs takes hours
