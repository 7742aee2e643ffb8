"""What is cut says so, and can be had whole."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstitch.state.spill import SpillStore
from lockstitch.tools.output import clip_middle, cut_note


class Kept(SpillStore):
    """A store in memory."""

    def __init__(self) -> None:
        super().__init__(Path("nowhere"), "t")
        self.texts: list[str] = []

    def keep(self, text: str) -> str:
        self.texts.append(text)
        return "0123456789abcdef"


def test_note_has_the_one_wording() -> None:
    note = cut_note(shown=500, total=12000, unit="lines", rest="read_file with offset=501 gives the rest")
    assert note == "[cut: 500 of 12000 lines shown; read_file with offset=501 gives the rest]"


def test_short_text_is_left_alone() -> None:
    kept = Kept()
    assert clip_middle("a\nb", max_chars=3, spill=kept) == "a\nb"
    assert kept.texts == []


def test_head_and_tail_stay_in_whole_lines() -> None:
    text = "".join(f"line {number}\n" for number in range(1000))
    clipped = clip_middle(text, max_chars=500, spill=Kept())
    head, note, tail = re.fullmatch(r"(?s)(.*\n)(\[cut: .*?\])\n(.*)", clipped).groups()  # type: ignore[union-attr]
    assert text.startswith(head)
    assert head.endswith("\n")
    assert text.endswith(tail)
    assert tail.startswith("line ")
    assert 'read_file(path="spill:0123456789abcdef")' in note
    assert f"{len(head) + len(tail)} of {len(text)} characters" in note


@given(st.text(max_size=600), st.integers(min_value=160, max_value=400))
def test_result_is_never_longer_than_asked_and_the_whole_is_kept(text: str, max_chars: int) -> None:
    kept = Kept()
    clipped = clip_middle(text, max_chars=max_chars, spill=kept)
    assert len(clipped) <= max_chars
    assert clipped == text or kept.texts == [text]


@pytest.mark.parametrize("max_chars", [1, 10, 160])
def test_note_alone_is_left_where_there_is_no_room(max_chars: int) -> None:
    assert clip_middle("x" * 1000, max_chars=max_chars, spill=Kept()).startswith("[cut: 0 of 1000 characters")
