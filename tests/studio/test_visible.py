import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstitch.studio import visible
from lockstitch.studio.visible import make_visible, one_line


def test_terminal_commands_are_shown_and_not_obeyed():
    assert make_visible("\x1b[31mred\x07 \x9b2J \x00") == r"\x1b[31mred\x07 \x9b2J \x00"


def test_carriage_return_cannot_write_over_a_line():
    assert make_visible("rm -rf /\rls") == r"rm -rf /\x0dls"


def test_bidi_and_tag_characters_are_shown():
    assert make_visible("a\u202eb\u2066c\U000e0041") == r"a\u202eb\u2066c\U000e0041"


def test_a_lone_surrogate_can_be_printed():
    assert make_visible("\udc80").encode() == rb"\udc80"


def test_newline_tab_and_letters_of_all_scripts_stay():
    text = "a\tb\nüber фонарь 世界 👩‍🚀 שלום"
    assert make_visible(text) == text


@given(st.text())
def test_nothing_a_terminal_obeys_is_left(text: str):
    shown = make_visible(text)
    assert not [c for c in shown if (ord(c) < 32 and c not in "\n\t") or 0x7F <= ord(c) <= 0x9F]
    assert make_visible(shown) == shown


@pytest.mark.parametrize(
    "hidden",
    [
        "\xad",
        "\u200b",
        "\u2060",
        "\u2063",
        "\u180e",
        "\u3164",
        "\ufe00",
        "\ufeff",
        "\U000e0100",
        "\U000e0001",
    ],
)
def test_two_names_that_look_the_same_are_told_apart(hidden: str):
    assert make_visible(f"admin{hidden}.py") == f"admin{ascii(hidden)[1:-1]}.py"


def test_joiners_stay_where_they_join_and_are_shown_where_they_hide():
    assert make_visible("👩‍🚀 ❤️‍🔥 می‌خواهم क्‍ष") == "👩‍🚀 ❤️‍🔥 می‌خواهم क्‍ष"
    assert make_visible("rm\u200d -rf\u200c") == r"rm\u200d -rf\u200c"
    assert make_visible("\u200da é\u200d\u200d") == "\\u200da é\u200d\\u200d"


@given(st.text(alphabet=st.sampled_from("\x1b[31mABC\x9b\u202e\u200d\U000e0041\ud83d\ude00é\n")), st.data())
def test_text_in_pieces_is_as_safe_as_the_whole(text: str, data: st.DataObject):
    cut = data.draw(st.integers(0, len(text)))
    shown = make_visible(text[:cut]) + make_visible(text[cut:])
    assert not set(shown) & set("\x1b\x9b\u202e\U000e0041\ud83d\ude00")


def test_the_page_names_the_same_ranges():
    script = (Path(visible.__file__).parent / "web" / "visible.js").read_text()
    named = "".join(re.findall(r'"(\[?(?:\\\\u.*?))"', script)).strip("[]")
    code = r"\\\\u\{?([0-9a-f]+)\}?"
    pairs = re.findall(rf"{code}(?:-{code})?", named)
    codes = {c for first, last in pairs for c in range(int(first, 16), int(last or first, 16) + 1)}
    assert codes == set(visible._TABLE)


def test_one_line_holds_its_length():
    assert one_line("a\nb", max_chars=10) == r"a\nb"
    assert one_line("x" * 11, max_chars=10) == "x" * 9 + "…"
