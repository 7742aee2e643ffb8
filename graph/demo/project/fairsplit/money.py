"""Amounts of money: text on the outside, whole cents on the inside."""

import re

_AMOUNT = re.compile(r"(?P<sign>-?)(?P<whole>\d{1,3}(?:,\d{3})+|\d+)(?:\.(?P<cents>\d{1,2}))?")


def parse_amount(text: str) -> int:
    """Read an amount such as ``12``, ``12.5``, ``-0.99`` or ``1,234.50`` and return it in cents.

    Raises ValueError when the text is no amount, or has more than two decimals: an amount is
    never rounded silently.
    """
    match = _AMOUNT.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"no amount of money: {text!r}")
    whole = int(match["whole"].replace(",", ""))
    cents = int((match["cents"] or "0").ljust(2, "0"))
    total = whole * 100 + cents
    return -total if match["sign"] else total


def format_amount(cents: int) -> str:
    """Write an amount of cents with two decimals and separated thousands, as ``-1,234.50``."""
    sign = "-" if cents < 0 else ""
    whole, rest = divmod(abs(cents), 100)
    return f"{sign}{whole:,}.{rest:02d}"
