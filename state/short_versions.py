"""Versions of channels in 7 characters, where the stock saver writes 50, 17 of them by chance.

They sort before all of the stock saver's, which reads their number and goes on with it in its own form.
"""

from typing import Final

SHORT_VERSION_MAX: Final = 999_999  # supersteps; beyond, six digits no longer sort as numbers do
_SHORT: Final = " "  # sorts before the zeros that the stock saver's versions begin with


def next_short(current: str | int | None) -> str | None:
    """The version after `current`; None where it has the stock saver's form, or must go on in it."""
    if current is not None and not str(current).startswith(_SHORT):
        return None
    number = int(current or 0) + 1
    return f"{_SHORT}{number:06}" if number <= SHORT_VERSION_MAX else None
