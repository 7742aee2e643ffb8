"""Splitting one amount among several people without losing a cent."""

from collections.abc import Mapping
from fractions import Fraction


def split(total: int, weights: Mapping[str, int]) -> dict[str, int]:
    """Split ``total`` cents in proportion to ``weights``, by the largest remainder method.

    Every share is rounded down first. The cents that are left over go, one each, to those who
    lost the largest fraction; among equals to the one who is named first. So the shares always
    add up to the total, and nobody is off by a whole cent or more.

    Raises ValueError when a weight is negative, or all of them are zero.
    """
    if any(weight < 0 for weight in weights.values()):
        raise ValueError("a weight cannot be negative")
    whole = sum(weights.values())
    if whole == 0:
        raise ValueError("at least one weight must be above zero")

    exact = {name: Fraction(total * weight, whole) for name, weight in weights.items()}
    shares = {name: share.numerator // share.denominator for name, share in exact.items()}
    left_over = total - sum(shares.values())

    by_fraction = sorted(exact, key=lambda name: exact[name] - shares[name])
    for name in by_fraction[:left_over]:
        shares[name] += 1
    return shares


def split_evenly(total: int, names: list[str]) -> dict[str, int]:
    """Split ``total`` cents into shares that differ by one cent at most."""
    return split(total, dict.fromkeys(names, 1))
