"""A bill as text."""

from ledger.money import format_cents
from ledger.split import split


def receipt(total: int, people: list[str]) -> str:
    """One line a person, then the total."""
    shares = split(total, people)
    width = max(len("Total"), *(len(person) for person in shares))
    lines = [f"{person:<{width}}  {format_cents(cents):>10}" for person, cents in shares.items()]
    lines.append(f"{'Total':<{width}}  {format_cents(sum(shares.values())):>10}")
    return "\n".join(lines)
