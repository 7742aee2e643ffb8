import unittest

from fairsplit.ledger import Expense, balances
from fairsplit.settle import transfers


class SettleTest(unittest.TestCase):
    def test_balances_add_up_to_zero(self) -> None:
        expenses = [
            Expense("dinner", "Ann", 9001, {"Ann": 1, "Bob": 1, "Cem": 1}),
            Expense("taxi", "Bob", 1550, {"Ann": 2, "Bob": 1}),
        ]
        self.assertEqual(sum(balances(expenses).values()), 0)

    def test_the_largest_debt_meets_the_largest_claim(self) -> None:
        self.assertEqual(
            transfers({"Ann": 5000, "Bob": -3000, "Cem": -2000}),
            [("Bob", "Ann", 3000), ("Cem", "Ann", 2000)],
        )
