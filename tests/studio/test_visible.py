from hypothesis import given
from hypothesis import strategies as st

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


def test_one_line_holds_its_length():
    assert one_line("a\nb", max_chars=10) == r"a\nb"
    assert one_line("x" * 11, max_chars=10) == "x" * 9 + "…"
