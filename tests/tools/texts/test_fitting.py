"""A new text takes on the file's way of writing, and only the lines that it changes are changed."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstitch.state.errors import ToolExecutionError
from lockstitch.tools.texts.fitting import fit_all
from lockstitch.tools.texts.matching import find_places


def edited(text: str, old: str, new: str) -> str:
    places = find_places(text, old)
    assert len(places) == 1
    return fit_all(text, places, old=old, new=new).text


METHOD = "class A:\n    def f(self):\n        x = 1   \n\n        return x\n"
CASES = [
    # a block at the margin, with a line that goes deeper than any it had
    (
        METHOD,
        "def f(self):\n    x = 1\n",
        "def f(self):\n    if y:\n        x = 1\n",
        METHOD.replace("        x = 1   \n", "        if y:\n            x = 1   \n"),
    ),
    # tabs for blanks, blanks for tabs, two for four
    (METHOD, "\tdef f(self):\n\t\tx = 1\n", "\tdef f(self):\n\t\tx = 2\n", METHOD.replace("x = 1", "x = 2")),
    ("{\n\ta\n\t\tb\n}", "    a\n        b", "    a\n        c\n            d", "{\n\ta\n\t\tc\n\t\t\td\n}"),
    ("f\n    a\n        b", "f\n  a\n    b", "f\n  a\n    b\n      c", "f\n    a\n        b\n            c"),
    # what was not meant to change keeps its bytes
    (METHOD, "x = 1\nreturn x", "x = 1\nreturn -x", METHOD.replace("return x", "return -x")),
    (METHOD, "x = 1\nreturn x", "x = 2\nreturn x", METHOD.replace("x = 1", "x = 2")),
    ("a\n\nb\nc\n", "a\nb\nc", "a\nc", "a\n\nc\n"),
    ("a\nb\nc\n", "a\n\nb\n\nc", "a\n\nB\n\nc", "a\nB\nc\n"),
    # one that is added where a blank line was left out goes to the lines it is indented like
    ("  a\n\nb\n", "  a\nb", "  a\n  x\nb", "  a\n  x\n\nb\n"),
    ("  a\n\nb\n", "  a\nb", "  a\nx\nb", "  a\n\nx\nb\n"),
    # quotes
    ("say(“hi”, 1)\n", 'say("hi", 1)', 'say("hi", 2)', "say(“hi”, 2)\n"),
    ('a("x")\nb("y")\n', "a(“x”)\nb(“y”)", "a(“x”)\nnew(“z”)\nb(“y”)", 'a("x")\nnew("z")\nb("y")\n'),
    ('a = "x"\n', 'a = "x"', "a = “x”", "a = “x”\n"),
    # newlines
    ("a\r\nb\r\nc", "a\nb\n", "a\nx\ny\n", "a\r\nx\r\ny\r\nc"),
    ("a\r\nb\nc\r\n", "a\nb\nc\n", "a\nB\nc\n", "a\r\nB\nc\r\n"),
    ("a\rb\rc\r", "b\nc\n", "b\nx\n", "a\rb\rx\r"),
    ("a\nb", "a\nb\n", "a\nc\n", "a\nc"),
    ("a\n  b", "a\nb\n", "a\n", "a"),
    ("x\n  a\ny\n", "a\n\n", "", "x\ny\n"),
    # the old text copied badly, the new one written well
    ("f:\n      b\n      c\n", "f:\n  b\n  c", "f:\n      b\n      d\n", "f:\n      b\n      d\n"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "old", "new", "after"), CASES)
def test_new_text_is_written_as_the_file_is(text: str, old: str, new: str, after: str) -> None:
    assert edited(text, old, new) == after


def test_indent_that_nothing_tells_is_not_guessed() -> None:
    text = "if a:\n    b()\n"
    assert edited(text, "if a: \nb()", "if a: \nb(1)") == "if a:\n    b(1)\n"
    with pytest.raises(ToolExecutionError, match="not clear"):
        edited(text, "if a: \nb()", "if a: \nb()\nc()")


@pytest.mark.parametrize(
    ("text", "old", "said"),
    [
        ("    a\n    b\n", "a\nb\n", "the indentation differs by 4 spaces"),
        ("\ta\n", "    a", "the indentation differs (tabs and spaces)"),
        ("a\nb \n", "a\nb\n", "blanks at line ends differ"),
        ("a\n\nb\n", "a\nb\n", "blank lines differ"),
        ("“a”\n", '"a"', "quotes or dashes differ"),
        ("a  b\n", "a b", "the space between words differs"),
        ("a", "a\n", "the file ends without a newline"),
        (
            "\ta \n\nb\n",
            "a\nb",
            "the indentation differs and blanks at line ends differ and blank lines differ",
        ),
    ],
)
def test_what_differed_is_said(text: str, old: str, said: str) -> None:
    assert fit_all(text, find_places(text, old), old=old, new="").although == said


def test_every_place_of_the_level_is_fitted_by_itself() -> None:
    text = "  a = 1\n  b\n\n\ta = 1\n\tb\n"
    fitted = fit_all(text, find_places(text, "a = 1\nb\n"), old="a = 1\nb\n", new="a = 2\nb\n")
    assert fitted.text == text.replace("1", "2")


LINES = st.lists(
    st.sampled_from(["a", "bb", "  c", "    d", "\te", "", "f(“x”)", 'g("y")', "h "]), max_size=8
)


@given(LINES, LINES, LINES, st.sampled_from(["\n", "\r\n"]), st.randoms(use_true_random=False))
def test_no_byte_outside_the_block_changes(
    head: list[str], block: list[str], tail: list[str], newline: str, chance: random.Random
) -> None:
    unique = ["begin = 1", *block, "end = 1"]
    text = "".join(line + newline for line in [*head, *unique, *tail])
    written = [
        chance.choice([line, f"{line}  ", line.replace('"', "”"), line.replace("“", '"')]) for line in unique
    ]
    written = [line for line in written if line.strip() or chance.random() < 0.5]
    new = [*written[:-1], "end = 2"]
    places = find_places(text, "\n".join(written))
    fitted = fit_all(text, places, old="\n".join(written), new="\n".join(new))
    assert len(places) == 1
    assert fitted.text.replace("end = 2", "end = 1") == text


@given(LINES, LINES)
def test_exact_old_text_gives_exactly_the_new_one(old: list[str], new: list[str]) -> None:
    before, after = "\n".join(["<", *old, ">"]), "\n".join(["<", *new, ">"])
    assert edited(f"x\n{before}\ny", before, after) == f"x\n{after}\ny"
