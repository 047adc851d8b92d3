"""Bills, split to the cent."""

from ledger.money import format_cents, parse_cents
from ledger.receipt import receipt
from ledger.split import split

__all__ = ["format_cents", "parse_cents", "receipt", "split"]
