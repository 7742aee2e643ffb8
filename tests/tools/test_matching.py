"""Texts are found where they stand, and nearly so."""

import time

from hypothesis import given
from hypothesis import strategies as st

from lockstitch.tools.matching import find_places, replace_places, show_candidates

SOURCE = """def first(value):
    if value:
        return 1
    return 0


def second(value):
    if value:
        return 2
    return 0
"""


def test_places_have_lines_and_offsets() -> None:
    assert [place.line for place in find_places(SOURCE, "    return 0\n")] == [4, 10]
    (place,) = find_places(SOURCE, "return 2")
    assert (place.line, SOURCE[place.start : place.end]) == (9, "return 2")


def test_feed_matches_a_pair_also_where_both_are_mixed() -> None:
    text = "a\r\nb\nc\r\n"
    (place,) = find_places(text, "a\nb\nc\n")
    assert (place.start, place.end) == (0, len(text))
    (place,) = find_places(text, "\nc")
    assert text[place.start : place.end] == "\nc"


def test_place_that_overlaps_makes_it_two() -> None:
    assert len(find_places("}\n}\n}\n", "}\n}\n")) == 2
    assert replace_places("}\n}\n}\n", find_places("}\n}\n}\n", "}\n}\n"), "x") == "x}\n"


@given(st.text("ab\n", max_size=30), st.text("ab\n", min_size=1, max_size=3), st.text("ab\r\n", max_size=3))
def test_replacing_all_is_what_python_does(text: str, old: str, new: str) -> None:
    assert replace_places(text, find_places(text, old), new) == text.replace(old, new)


@given(st.text("ab\r\n", max_size=30), st.text("ab\n", min_size=1, max_size=4))
def test_every_place_reads_as_the_text_wanted(text: str, wanted: str) -> None:
    for place in find_places(text, wanted):
        assert text[place.start : place.end].replace("\r\n", "\n") == wanted
        assert place.line == text.count("\n", 0, place.start) + 1


def test_search_stays_linear_in_text_that_nearly_repeats() -> None:
    began = time.perf_counter()
    assert find_places("a\n" * 200_000, "a\n" * 2_000 + "b") == []
    assert time.perf_counter() - began < 1  # by trying at every place: 200,000 x 2,000 steps, minutes


def test_wrong_indent_shows_the_lines_meant() -> None:
    said = show_candidates(SOURCE, "def second(value):\n  if value:\n    return 2\n")
    assert said.startswith(
        "The nearest places are:\n     7\tdef second(value):\n     8\t    if value:\n     9\t"
    )


def test_near_word_is_found_and_the_nearest_is_first() -> None:
    said = show_candidates(SOURCE, "def secnd(value):")
    assert said.splitlines()[1] == "     7\tdef second(value):"


def test_copied_line_numbers_are_pointed_out() -> None:
    said = show_candidates(SOURCE, "     3\t        return 1\n     4\t    return 0")
    assert said.startswith("Leave out the line numbers")


def test_nothing_near_is_said() -> None:
    assert "Nothing in the file comes near" in show_candidates(SOURCE, "class Zebra:")
    assert "Nothing in the file comes near" in show_candidates("", "class Zebra:")
    assert "Nothing in the file comes near" in show_candidates(SOURCE, "}\n")


def test_candidates_of_long_lines_are_short() -> None:
    assert len(show_candidates("word " * 100_000, "word " * 3)) < 1000
