import pytest

from lockstitch.graph.context.section import counted


@pytest.mark.parametrize(("count", "words"), [(0, "0 lines"), (1, "1 line"), (1200, "1,200 lines")])
def test_a_count_agrees_with_its_noun(count: int, words: str) -> None:
    assert counted(count, "line") == words
