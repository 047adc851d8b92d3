"""Amounts of money as whole cents."""


def parse_cents(text: str) -> int:
    """Read an amount such as ``"12.50"`` or ``"-3"``.

    Raises:
        ValueError: the text is no amount.
    """
    sign = -1 if text.startswith("-") else 1
    whole, _, fraction = text.lstrip("-").partition(".")
    if not whole.isdigit() or (fraction and not fraction.isdigit()) or len(fraction) > 2:
        raise ValueError(f"not an amount: {text!r}")
    return sign * (int(whole) * 100 + int(fraction.ljust(2, "0") or 0))


def format_cents(cents: int) -> str:
    """Write an amount with two decimals: ``1250`` is ``"12.50"``."""
    return f"{cents // 100}.{cents % 100:02d}"
