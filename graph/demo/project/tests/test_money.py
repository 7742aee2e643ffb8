import unittest

from fairsplit.money import format_amount, parse_amount


class MoneyTest(unittest.TestCase):
    def test_amounts_are_read_in_cents(self) -> None:
        self.assertEqual(parse_amount("12.5"), 1250)
        self.assertEqual(parse_amount("1,234.50"), 123450)
        self.assertEqual(parse_amount("-0.99"), -99)

    def test_a_third_decimal_is_refused(self) -> None:
        with self.assertRaises(ValueError):
            parse_amount("1.005")

    def test_amounts_survive_writing_and_reading(self) -> None:
        for cents in (0, 5, -5, 100, 123456789):
            self.assertEqual(parse_amount(format_amount(cents)), cents)
