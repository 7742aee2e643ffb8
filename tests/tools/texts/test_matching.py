"""Texts are found where they stand, exactly or more loosely, and never by a guess."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstitch.tools.texts.fitting import fit_all
from lockstitch.tools.texts.matching import find_places

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
    assert fit_all("}\n}\n}\n", find_places("}\n}\n}\n", "}\n}\n"), old="}\n}\n", new="x").text == "x}\n"
    assert len(find_places("  a\n  a \n a\n", "a\na")) == 2


LOOSE = [
    ("def second(value):  \n    if value:\t\n", "line ends", 7),
    ("\treturn 2\n\treturn 0", "layout", 9),
    ("return 0\n\ndef second(value):", "layout", 4),
    ("    return 0\ndef second(value):\n", "layout", 4),
    ("if value:\n    return 2", "layout", 8),
    ("if value:\n\n  return 2\n\n", "layout", 8),
    ("\n\ndef  second(value):\nif value:", "layout", 5),
]


@pytest.mark.parametrize(("wanted", "level", "line"), LOOSE)
def test_text_is_found_although_blanks_differ(wanted: str, level: str, line: int) -> None:
    (place,) = find_places(SOURCE, wanted)
    assert (place.line, place.whole) == (line, True)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("say(“hi”)\n", 'say("hi")'),
        ('say("hi") # a - b\n', "say(“hi”) # a — b"),
        ("it\u2019s\n", "it's"),
        ("a\u00a0b\n", "a b"),
    ],
)
def test_quotes_dashes_and_hard_blanks_are_alike(text: str, wanted: str) -> None:
    (place,) = find_places(text, wanted)
    assert (place.level, text[place.start : place.end]) == ("typography", text.rstrip("\n"))


def test_strictest_level_that_finds_something_decides() -> None:
    text = "  a = 1\n  b = 2\n\na = 1 \nb = 2\n"
    (place,) = find_places(text, "a = 1\nb = 2")
    assert (place.level, place.line) == ("line ends", 4)
    (place,) = find_places("a  = 1\na = 1\n", "a = 1\n")
    assert (place.level, place.line) == ("exact", 2)


def test_several_places_of_one_level_are_all_given() -> None:
    places = find_places("  a = 1\n  b = 2\n\n    a = 1\n    b = 2\n", "a = 1\nb = 2")
    assert [(place.level, place.line) for place in places] == [("indentation", 1), ("indentation", 4)]


@pytest.mark.parametrize("wanted", ["\t", " \t\n", "return 3", "def second(value)\n    if value:", "secnd"])
def test_what_is_not_there_is_not_found(wanted: str) -> None:
    assert find_places("def second(value):\n    if value:\n", wanted) == []


@given(st.text("ab\n", max_size=30), st.text("ab\n", min_size=1, max_size=3), st.text("ab\n", max_size=3))
def test_replacing_all_is_what_python_does(text: str, old: str, new: str) -> None:
    places = [place for place in find_places(text, old) if place.level == "exact"]
    assert fit_all(text, places, old=old, new=new).text == text.replace(old, new)


@given(st.text("ab\r\n", max_size=30), st.text("ab\n", min_size=1, max_size=4))
def test_every_exact_place_reads_as_the_text_wanted(text: str, wanted: str) -> None:
    for place in find_places(text, wanted):
        if place.level == "exact":
            assert text[place.start : place.end].replace("\r\n", "\n") == wanted
        assert place.line == text.count("\n", 0, place.start) + 1 or "\n" not in text


@given(st.text('ab \t\r\n“"', max_size=40), st.text('ab \t\n"”', min_size=1, max_size=8))
def test_every_place_has_the_words_of_the_text_wanted(text: str, wanted: str) -> None:
    for place in find_places(text, wanted):
        found = text[place.start : place.end].replace("“", '"')
        assert found.split() == wanted.replace("”", '"').split()


def test_search_stays_linear_in_text_that_nearly_repeats() -> None:
    began = time.process_time()
    assert find_places("a\n" * 200_000, "a\n" * 2_000 + "b") == []
    assert find_places("  a\n" * 200_000, "a\n" * 2_000 + "a a") == []
    assert time.process_time() - began < 5  # by trying at every place: 200,000 x 2,000 steps, minutes
