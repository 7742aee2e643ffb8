import unittest

from fairsplit.shares import split, split_evenly


class SplitTest(unittest.TestCase):
    def test_shares_add_up_to_the_total(self) -> None:
        for total in range(1, 200):
            self.assertEqual(sum(split(total, {"Ann": 3, "Bob": 2, "Cem": 2}).values()), total)

    def test_even_shares_differ_by_one_cent_at_most(self) -> None:
        self.assertEqual(split_evenly(1000, ["Ann", "Bob", "Cem"]), {"Ann": 334, "Bob": 333, "Cem": 333})

    def test_left_over_cents_go_to_the_largest_fractions(self) -> None:
        # Exactly 333 1/3 and 666 2/3 cents: Bob lost more by rounding down, so the cent is his.
        self.assertEqual(split(1000, {"Ann": 1, "Bob": 2}), {"Ann": 333, "Bob": 667})

    def test_weights_of_zero_are_refused(self) -> None:
        with self.assertRaises(ValueError):
            split(1000, {"Ann": 0})
