"""On a miss the nearest places are shown, with what differs."""

import pytest
from tests.tools.texts.test_matching import SOURCE

from lockstitch.tools.texts.nearest import show_candidates


def test_near_word_is_found_and_the_nearest_is_first() -> None:
    said = show_candidates(SOURCE, "def secnd(value):")
    assert said.splitlines()[1] == "     7\tdef second(value):"


def test_what_differs_is_said_line_against_line() -> None:
    said = show_candidates(SOURCE, "def second(value):\n    if valeu:\n        return 2\n")
    assert said.endswith("line 8: the file has '    if value:', you wrote '    if valeu:'")


def test_typo_in_the_longest_line_does_not_hide_the_place() -> None:
    said = show_candidates(SOURCE, "    return 0\n\n\ndefsecondvalue\n")
    assert said.splitlines()[1] == "     4\t    return 0"


def test_copied_line_numbers_are_pointed_out() -> None:
    said = show_candidates(SOURCE, "     3\t        return 1\n     4\t    return 0")
    assert said.startswith("Leave out the line numbers")


@pytest.mark.parametrize(
    ("text", "wanted"), [(SOURCE, "class Zebra:"), ("", "class Zebra:"), (SOURCE, "}\n")]
)
def test_nothing_near_is_said(text: str, wanted: str) -> None:
    assert "Nothing in the file comes near" in show_candidates(text, wanted)


def test_candidates_of_long_lines_are_short() -> None:
    assert len(show_candidates("word " * 100_000, "word " * 3)) < 1500
