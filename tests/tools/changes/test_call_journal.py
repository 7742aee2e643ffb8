"""Every change that a file tool makes: sealed before, finished after, and taken back by what was kept."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.kept_files import step_of

from lockstitch.state.errors import RecoverableError
from lockstitch.state.journal import BEGINNING, Effect, Journal
from lockstitch.state.ledger import open_ledger
from lockstitch.state.objects import ObjectStore
from lockstitch.state.tree_change import Node, inverse
from lockstitch.tools import workspace as workspace_module
from lockstitch.tools.changes.call_journal import describe_changes, recover
from lockstitch.tools.confined.apply import apply
from lockstitch.tools.confined.file_source import KeptBytes
from lockstitch.tools.confined.joint_change import FileAction
from lockstitch.tools.confined.tree import Tree
from lockstitch.tools.workspace import Workspace

BYTES = b"one\ntwo\n\x00\xff"


class Place:
    """A workspace whose verbs are journaled, as one call's."""

    def __init__(self, base: Path, journal: Journal) -> None:
        self.root = base / "work"
        self.root.mkdir()
        self.journal = journal
        self.step = step_of(journal, self.root)
        self.plain = Workspace(self.root)
        self.verbs = self.plain.journaled(self.step.of_call("c", "write_file"))

    @property
    def effects(self) -> list[Effect]:
        return self.journal.of_step("t", "p")

    def tree(self) -> dict[str, Node | None]:
        """All below the root."""
        with self.plain.open_folder(".") as fd, Tree(fd) as tree:
            return {
                str(path.relative_to(self.root)): tree.node(str(path.relative_to(self.root)))
                for path in sorted(self.root.rglob("*"))
            }

    def make_back(self) -> None:
        (effect,) = self.effects
        with self.plain.open_folder(".") as fd:
            assert apply(fd, inverse(effect.changes), KeptBytes(self.journal.objects.pieces)) == []

    def make_again(self) -> None:
        (effect,) = self.effects
        with self.plain.open_folder(".") as fd:
            assert apply(fd, effect.changes, KeptBytes(self.journal.objects.pieces)) == []


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with open_ledger(tmp_path / "ledger.db") as ledger:
        found = Place(tmp_path, Journal(ledger, ObjectStore(tmp_path / "objects", ledger)))
        yield found
        found.plain.close()


def fill(root: Path) -> None:
    (root / "src" / "deep").mkdir(parents=True)
    (root / "src" / "a.py").write_bytes(BYTES)
    (root / "src" / "deep" / "run.sh").write_text("#!/bin/sh\n")
    (root / "src" / "deep" / "run.sh").chmod(0o755)
    (root / "src" / "empty").mkdir(mode=0o700)
    (root / "src" / "link").symlink_to("a.py")
    (root / "to").symlink_to("src/deep")


VERBS: dict[str, Any] = {
    "write new": lambda w: w.write_bytes("new.txt", b"x"),
    "write over": lambda w: w.write_bytes("src/a.py", b"other"),
    "write into new folders": lambda w: w.write_bytes("n1/n2/new.txt", b"x", create_dirs=True),
    "write through a link": lambda w: w.write_bytes("src/link", b"by link"),
    "write below a link": lambda w: w.write_bytes("to/new/x", b"by link", create_dirs=True),
    "make folders": lambda w: w.make_folders("m1/m2"),
    "delete a file": lambda w: w.delete("src/deep/run.sh"),
    "delete a link": lambda w: w.delete("to"),
    "delete a folder": lambda w: w.delete("src"),
    "move a file": lambda w: w.move("src/a.py", "b/c.py", create_dirs=True),
    "move a folder": lambda w: w.move("src", "lib/src", create_dirs=True),
    "move a link": lambda w: w.move("to", "there"),
    "several": lambda w: w.change_all(
        [
            FileAction(path="src/a.py", data=b"changed"),
            FileAction(path="added/x.py", data=b"x", is_new=True),
            FileAction(path="src/deep/run.sh"),
        ]
    ),
    "several moves": lambda w: w.change_all(
        [
            FileAction(path="moved/a.py", source="src/a.py"),
            FileAction(path="moved/run.sh", source="src/deep/run.sh", data=b"#!/bin/sh\ntrue\n"),
        ]
    ),
}


@pytest.mark.parametrize("name", VERBS)
def test_what_a_verb_changed_can_be_taken_back_and_made_again(place: Place, name: str) -> None:
    fill(place.root)
    before = place.tree()
    VERBS[name](place.verbs)
    after = place.tree()
    assert before != after
    (effect,) = place.effects
    assert (effect.status, effect.parent, effect.call_id) == ("done", BEGINNING, "c")
    assert place.journal.position("t") == place.step.head == effect.id
    place.make_back()
    assert place.tree() == before
    place.make_again()
    assert place.tree() == after


@pytest.mark.parametrize("name", VERBS)
def test_a_change_is_sealed_before_anything_is_touched(
    place: Place, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(place.root)
    before = place.tree()

    def dies(effect: Effect) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(place.journal, "seal", dies)
    with pytest.raises(KeyboardInterrupt):
        VERBS[name](place.verbs)
    assert place.tree() == before


@pytest.mark.parametrize("name", VERBS)
def test_a_change_that_was_sealed_is_finished_after_a_kill(
    place: Place, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The verb is cut off behind the seal, and nobody takes anything back, as after kill -9."""
    fill(place.root)
    seal = place.journal.seal

    def dies_after(effect: Effect) -> None:
        seal(effect)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(place.journal, "seal", dies_after)
        with pytest.raises(KeyboardInterrupt):
            VERBS[name](place.verbs)
    (recovered,) = recover(place.journal, place.journal.unfinished("t"))
    assert recovered.conflicts == ()
    found = place.tree()
    place.make_back()
    VERBS[name](place.plain)
    assert place.tree() == found
    assert place.journal.position("t") == recovered.effect.id


def test_a_verb_that_fails_half_way_is_taken_back(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(place.root)
    before = place.tree()

    def half(name: str, *, dir_fd: int) -> None:
        os.unlink(f"{name}/a.py", dir_fd=dir_fd)
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(workspace_module.shutil, "rmtree", half)
    with pytest.raises(RecoverableError):
        place.verbs.delete("src")
    assert place.tree() == before
    assert [effect.status for effect in place.effects] == ["void"]
    assert place.step.head == BEGINNING


def test_a_move_onto_its_like_is_refused_and_both_stay(place: Place) -> None:
    """What is there already must not be taken for what the move has made."""
    for name in ("one", "two"):
        (place.root / name).mkdir()
        (place.root / name / "same.txt").write_text("same")
        (place.root / f"{name}.txt").write_text("same")
    before = place.tree()
    for source, destination in (("one.txt", "two.txt"), ("one", "two")):
        with pytest.raises(RecoverableError, match="is there already"):
            place.verbs.move(source, destination)
        assert place.tree() == before
    assert [effect.status for effect in place.effects] == ["void", "void"]


def test_what_is_refused_leaves_no_effect(place: Place) -> None:
    fill(place.root)
    for verb in (
        lambda: place.verbs.write_bytes(".git/hooks/x", b"x", create_dirs=True),
        lambda: place.verbs.write_bytes("../out", b"x"),
        lambda: place.verbs.delete("missing"),
        lambda: place.verbs.move("src/a.py", "src/link"),
    ):
        with pytest.raises(RecoverableError):
            verb()
    assert [effect.status for effect in place.effects] in ([], ["void"])
    assert place.journal.position("t") == BEGINNING


def test_each_change_follows_the_one_before(place: Place) -> None:
    for number in range(3):
        place.verbs.write_bytes("a.txt", str(number).encode())
    first, second, third = place.effects
    assert place.journal.lineage(place.step.head) == [third.id, second.id, first.id]
    assert describe_changes(third.changes) == "M a.txt"


def test_a_recovery_leaves_what_somebody_else_changed(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(place.root)
    seal = place.journal.seal

    def dies_after(effect: Effect) -> None:
        seal(effect)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(place.journal, "seal", dies_after)
        with pytest.raises(KeyboardInterrupt):
            place.verbs.write_bytes("src/a.py", b"mine")
    (place.root / "src" / "a.py").write_bytes(b"a person's")
    (recovered,) = recover(place.journal, place.journal.unfinished("t"))
    assert [conflict.path for conflict in recovered.conflicts] == ["src/a.py"]
    assert (place.root / "src" / "a.py").read_bytes() == b"a person's"


def test_too_much_to_keep_is_refused_untouched(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(place.root)
    monkeypatch.setattr("lockstitch.tools.changes.planned_changes.CHANGES_MAX", 3)
    with pytest.raises(RecoverableError, match="do it in parts"):
        place.verbs.delete("src")
    monkeypatch.setattr("lockstitch.tools.changes.planned_changes.BYTES_MAX", 3)
    with pytest.raises(RecoverableError, match="not kept for a rewind"):
        place.verbs.delete("src/a.py")
    assert (place.root / "src" / "a.py").read_bytes() == BYTES
