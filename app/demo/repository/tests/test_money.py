import pytest

from ledger.money import format_cents, parse_cents


@pytest.mark.parametrize(("text", "cents"), [("12.50", 1250), ("0.05", 5), ("7", 700), ("-3", -300)])
def test_parse(text, cents):
    assert parse_cents(text) == cents


@pytest.mark.parametrize("text", ["", "1,50", "1.234", "abc"])
def test_parse_refuses_what_is_no_amount(text):
    with pytest.raises(ValueError):
        parse_cents(text)


def test_format():
    assert format_cents(1250) == "12.50"
    assert format_cents(5) == "0.05"
