import pytest

from ledger import receipt, split


def test_even_split():
    assert split(9000, ["Ana", "Ben", "Cy"]) == {"Ana": 3000, "Ben": 3000, "Cy": 3000}


def test_nobody():
    with pytest.raises(ValueError):
        split(100, [])


def test_receipt():
    assert receipt(9000, ["Ana", "Ben", "Cy"]).splitlines()[-1].split() == ["Total", "90.00"]
