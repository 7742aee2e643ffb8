"""Changes of files compose, turn round, and come back from JSON as they were."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstitch.state.tree_change import Change, Node, compose, digests_in, from_json, inverse, to_json

A, B = Node("file", 0o644, "a" * 64, 1), Node("file", 0o755, "b" * 64, 2)
FOLDER, LINK = Node("folder", 0o755), Node("link", 0, "../else\udcff")

nodes = st.sampled_from([None, A, B, FOLDER, LINK])
changes = st.builds(Change, st.text(min_size=1, max_size=4), nodes, nodes)


@st.composite
def histories(draw: st.DrawFn) -> list[Change]:
    """Changes that follow each other without a gap, from an empty tree."""
    tree: dict[str, Node | None] = {}
    made = []
    for path, node in draw(st.lists(st.tuples(st.sampled_from("abc"), nodes), max_size=12)):
        made.append(Change(path, tree.get(path), node))
        tree[path] = node
    return made


def test_of_each_path_the_first_before_and_the_last_after_count() -> None:
    made = [Change("b", None, A), Change("a", A, B), Change("b", A, B), Change("b", B, LINK)]
    assert compose(made) == [Change("a", A, B), Change("b", None, LINK)]


def test_a_path_that_ends_as_it_began_is_dropped() -> None:
    assert compose([Change("a", A, B), Change("a", B, A), Change("b", A, A)]) == []


def test_a_change_of_the_mode_alone_is_a_change() -> None:
    assert compose([Change("a", A, Node("file", 0o600, A.digest, 1))]) != []


@given(histories())
def test_changes_and_their_inverse_come_to_nothing(made: list[Change]) -> None:
    assert compose([*made, *inverse(made)]) == []
    assert inverse(inverse(made)) == made


@given(histories())
def test_to_compose_and_to_turn_round_may_be_done_in_either_order(made: list[Change]) -> None:
    assert compose(inverse(made)) == sorted(inverse(compose(made)), key=lambda change: change.path)


@given(histories(), st.integers(0, 12))
def test_parts_compose_to_what_the_whole_does(made: list[Change], cut: int) -> None:
    assert compose([*compose(made[:cut]), *compose(made[cut:])]) == compose(made)


@given(st.lists(changes))
def test_json_gives_back_what_it_was_given(made: list[Change]) -> None:
    text = to_json(made)
    assert text.isascii()
    assert list(from_json(text)) == made


@pytest.mark.parametrize(
    "text", ["", "{", "[1]", '[["a"]]', '[["a", 1, null]]', "7", '[["a", ["file"], null]]']
)
def test_other_json_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        from_json(text)


def test_only_files_need_objects() -> None:
    assert digests_in([Change("a", A, FOLDER), Change("b", LINK, B)]) == {A.digest, B.digest}
