"""Turning balances into transfers."""

from collections.abc import Mapping

Transfer = tuple[str, str, int]  # who pays, who receives, cents


def transfers(balances: Mapping[str, int]) -> list[Transfer]:
    """Find transfers that bring every balance to zero.

    The largest debt always meets the largest claim, so there are fewer transfers than people.
    People with equal amounts come in the order of their names.

    Raises ValueError when the balances do not add up to zero.
    """
    if sum(balances.values()) != 0:
        raise ValueError("the balances do not add up to zero")
    open_balances = {name: cents for name, cents in balances.items() if cents}
    result: list[Transfer] = []
    while open_balances:
        by_balance = sorted(open_balances, key=lambda name: (open_balances[name], name))
        giver, taker = by_balance[0], by_balance[-1]
        cents = min(-open_balances[giver], open_balances[taker])
        result.append((giver, taker, cents))
        for name, change in ((giver, cents), (taker, -cents)):
            open_balances[name] += change
            if open_balances[name] == 0:
                del open_balances[name]
    return result
