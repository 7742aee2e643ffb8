"""The changes between two heads turn the files of the one into those of the other, whatever lies between."""

import itertools
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lockstitch.state.errors import SystemFaultError
from lockstitch.state.heads import changes_between
from lockstitch.state.journal import BEGINNING, Effect, Journal, new_effect_id
from lockstitch.state.ledger import open_ledger
from lockstitch.state.objects import ObjectStore
from lockstitch.state.tree_change import Change, Node

Tree = dict[str, Node]
NODES = [None, Node("file", 0o644, "a" * 64, 1), Node("file", 0o755, "a" * 64, 1), Node("folder", 0o755)]


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Journal]:
    home = tmp_path_factory.mktemp("home")
    with open_ledger(home / "ledger.db") as ledger:
        ledger.execute("PRAGMA synchronous = OFF")
        yield Journal(ledger, ObjectStore(home / "objects", ledger))


def seal(journal: Journal, parent: str, changes: list[Change]) -> str:
    made = Effect(
        id=new_effect_id(),
        thread_id="t",
        parent=parent,
        checkpoint_id="p",
        call_id="c",
        tool="write_file",
        kind="edit",
        at="",
        workspace="",
        changes=tuple(changes),
    )
    journal.seal(made)
    return made.id


def applied(tree: Tree, changes: list[Change]) -> Tree:
    """The tree with the changes made; every one must find what it says was there."""
    result = dict(tree)
    for change in changes:
        assert result.pop(change.path, None) == change.before
        if change.after is not None:
            result[change.path] = change.after
    return result


def edits(tree: Tree, wanted: list[tuple[str, Node | None]]) -> list[Change]:
    return [
        Change(path, tree.get(path), node) for path, node in dict(wanted).items() if tree.get(path) != node
    ]


moves = st.tuples(
    st.sampled_from(["edit", "rewind", "fork"]),
    st.integers(0, 100),  # which of the heads there are: to rewind to, or to fork from
    st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from(NODES)), max_size=3),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=None)
@given(st.lists(moves, max_size=8))
def test_any_two_heads_of_any_history(
    journal: Journal, history: list[tuple[str, int, list[tuple[str, Node | None]]]]
) -> None:
    trees: dict[str, Tree] = {BEGINNING: {}}
    head = BEGINNING
    for move, number, wanted in history:
        other = list(trees)[number % len(trees)]
        if move == "fork":
            head = other
        rewinds = move == "rewind"
        changes = changes_between(journal, head, other) if rewinds else edits(trees[head], wanted)
        tree = applied(trees[head], changes)
        head = seal(journal, head, changes)
        trees[head] = tree
    for (one, before), (another, after) in itertools.product(trees.items(), repeat=2):
        assert applied(before, changes_between(journal, one, another)) == after


def test_between_a_head_and_itself_nothing_changes(journal: Journal) -> None:
    head = seal(journal, BEGINNING, edits({}, [("a", NODES[1])]))
    assert changes_between(journal, head, head) == []


def test_what_was_given_up_is_no_part_of_the_way(journal: Journal) -> None:
    first = seal(journal, BEGINNING, edits({}, [("a", NODES[1])]))
    journal.void(first)
    assert changes_between(journal, BEGINNING, first) == []


def test_a_head_that_nobody_knows_is_told(journal: Journal) -> None:
    with pytest.raises(SystemFaultError, match="lockstitch doctor"):
        changes_between(journal, BEGINNING, "nobody")
