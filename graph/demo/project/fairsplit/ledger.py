"""Expenses, and what they add up to for each person."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from fairsplit.shares import split


@dataclass(frozen=True)
class Expense:
    """Something one person paid for several.

    ``weights`` says who takes part and how much: someone with weight 2 bears twice the share of
    someone with weight 1. The payer need not be among them.
    """

    title: str
    payer: str
    cents: int
    weights: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.cents <= 0:
            raise ValueError(f"{self.title}: an expense must be above zero")
        if not self.weights:
            raise ValueError(f"{self.title}: nobody takes part")


def balances(expenses: Iterable[Expense]) -> dict[str, int]:
    """Add up what everyone is owed (above zero) or owes (below zero), in cents.

    The balances of all people together are always zero.
    """
    result: dict[str, int] = {}
    for expense in expenses:
        result[expense.payer] = result.get(expense.payer, 0) + expense.cents
        for name, share in split(expense.cents, expense.weights).items():
            result[name] = result.get(name, 0) - share
    return result


def total_spent(expenses: Iterable[Expense]) -> int:
    """Add up all expenses, in cents."""
    return sum(expense.cents for expense in expenses)
