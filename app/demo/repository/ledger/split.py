"""Splitting a bill."""


def split(total: int, people: list[str]) -> dict[str, int]:
    """Divide ``total`` cents between ``people``.

    Raises:
        ValueError: there is nobody to pay.
    """
    if not people:
        raise ValueError("nobody to split the bill between")
    share = total // len(people)
    return {person: share for person in people}
