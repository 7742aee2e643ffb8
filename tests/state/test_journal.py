"""A sealed effect is found by whoever comes next; positions move with it; forks keep what they need."""

import errno
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lockstitch.state.errors import SystemFaultError
from lockstitch.state.journal import BEGINNING, Effect, Journal, new_effect_id
from lockstitch.state.ledger import Ledger, open_ledger
from lockstitch.state.objects import ObjectStore
from lockstitch.state.tree_change import Change, Node

CHANGES = (
    Change("a\udcff.py", None, Node("file", 0o644, "a" * 64, 3)),
    Change("b", Node("link", 0, "a"), None),
)


@pytest.fixture
def journal(tmp_path: Path, ledger: Ledger) -> Journal:
    return Journal(ledger, ObjectStore(tmp_path / "objects", ledger))


def effect(**fields: Any) -> Effect:
    usual: dict[str, Any] = {
        "id": new_effect_id(),
        "thread_id": "t",
        "parent": BEGINNING,
        "checkpoint_id": "p",
        "call_id": "c",
        "tool": "write_file",
        "kind": "edit",
        "at": "2026-05-31T12:00:00.000+00:00",
        "workspace": "/w",
        "changes": CHANGES,
    }
    return Effect(**usual | fields)


def grow(journal: Journal, parent: str = BEGINNING, *, thread: str = "t", count: int = 1) -> list[str]:
    """Effects that were made one after the other; the ids, the oldest first."""
    ids = []
    for _ in range(count):
        made = effect(parent=parent, thread_id=thread)
        journal.seal(made)
        journal.finish(made.id)
        ids.append(parent := made.id)
    return ids


def test_a_sealed_effect_is_found_as_it_was(journal: Journal) -> None:
    sealed = effect(result="Wrote a.py.", kind="command")
    journal.seal(sealed)
    assert journal.effect(sealed.id) == sealed
    assert journal.of_step("t", "p") == journal.unfinished("t") == [sealed]
    assert journal.position("t") == BEGINNING


def test_finishing_settles_it_and_moves_the_position(journal: Journal) -> None:
    sealed = effect()
    journal.seal(sealed)
    journal.finish(sealed.id)
    assert journal.effect(sealed.id) == replace(sealed, status="done")
    assert (journal.unfinished("t"), journal.position("t")) == ([], sealed.id)


def test_finishing_again_never_moves_the_position_back(journal: Journal) -> None:
    first, second = grow(journal, count=2)
    journal.finish(first)
    assert journal.position("t") == second


def test_what_was_given_up_moves_nothing_and_stays_known(journal: Journal) -> None:
    sealed = effect()
    journal.seal(sealed)
    journal.void(sealed.id)
    journal.void(sealed.id)
    assert journal.of_step("t", "p") == [replace(sealed, status="void")]
    assert (journal.unfinished("t"), journal.position("t")) == ([], BEGINNING)
    with pytest.raises(SystemFaultError, match="given up cannot be finished"):
        journal.finish(sealed.id)


def test_what_was_made_cannot_be_given_up(journal: Journal) -> None:
    (made,) = grow(journal)
    with pytest.raises(SystemFaultError, match="cannot be given up, only taken back"):
        journal.void(made)


def test_a_position_that_cannot_be_moved_leaves_the_effect_sealed(journal: Journal, ledger: Ledger) -> None:
    sealed = effect()
    journal.seal(sealed)
    ledger.execute("CREATE TRIGGER full BEFORE INSERT ON positions BEGIN SELECT RAISE(ABORT, 'full'); END")
    with pytest.raises(SystemFaultError, match="full"):
        journal.finish(sealed.id)
    assert journal.unfinished("t") == [sealed]


def test_sealing_waits_for_the_disk_and_finishing_does_not(journal: Journal, ledger: Ledger) -> None:
    seen: list[str] = []
    sealed = effect()
    ledger._connection.set_trace_callback(seen.append)
    journal.seal(sealed)
    assert not any("synchronous" in statement for statement in seen)
    assert seen.count("COMMIT") == 1
    seen.clear()
    journal.finish(sealed.id)
    assert seen[0] == "PRAGMA synchronous = NORMAL"
    assert ledger.execute("PRAGMA synchronous") == [(2,)]


def test_the_disk_is_waited_for_again_after_a_finish_that_failed(journal: Journal, ledger: Ledger) -> None:
    with pytest.raises(SystemFaultError, match=r"holds no change.*lockstitch doctor"):
        journal.finish("nobody")
    ledger.execute("DROP TABLE positions")
    sealed = effect()
    journal.seal(sealed)
    with pytest.raises(SystemFaultError):
        journal.finish(sealed.id)
    assert ledger.execute("PRAGMA synchronous") == [(2,)]


def test_contents_are_on_the_disk_before_the_row(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_disk(descriptor: int) -> None:
        raise OSError(errno.EIO, "no disk")

    journal.objects.put(b"large" * 10_000)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", no_disk)
        with pytest.raises(SystemFaultError, match="kept contents"):
            journal.seal(effect())
    assert journal.unfinished("t") == []
    journal.seal(effect())
    assert len(journal.unfinished("t")) == 1


def test_a_row_and_its_small_contents_are_kept_together_or_not_at_all(
    journal: Journal, tmp_path: Path
) -> None:
    sealed = effect()
    journal.seal(sealed)
    digest = journal.objects.put(b"small")
    with open_ledger(tmp_path / "ledger.db") as ledger:
        elsewhere = ObjectStore(tmp_path / "objects", ledger)
        with pytest.raises(SystemFaultError):
            journal.seal(sealed)  # there is one of that id
        assert not elsewhere.has(digest)
        journal.seal(effect())
        assert elsewhere.read(digest) == b"small"


def test_calls_of_other_steps_and_threads_are_others(journal: Journal) -> None:
    sealed = [effect(), effect(checkpoint_id="q"), effect(call_id="d"), effect(thread_id="u"), effect()]
    for each in sealed:
        journal.seal(each)
    assert journal.of_step("t", "p") == [sealed[0], sealed[2], sealed[4]]
    assert journal.of_step("t", "r") == []


def test_a_chain_leads_to_the_beginning_the_newest_first(journal: Journal) -> None:
    ids = grow(journal, count=5)
    assert journal.lineage(ids[3]) == ids[3::-1]
    assert [each.id for each in journal.chain(ids[3])] == ids[3::-1]
    assert journal.lineage(BEGINNING) == []


def test_a_chain_with_a_gap_is_told(journal: Journal, ledger: Ledger) -> None:
    ids = grow(journal, count=3)
    ledger.execute("DELETE FROM effects WHERE id = ?", (ids[1],))
    for head in (ids[2], ids[1], "nobody"):
        with pytest.raises(SystemFaultError, match=r"holds no change of files.*lockstitch doctor"):
            journal.lineage(head)


def test_a_chain_that_is_a_ring_ends(journal: Journal, ledger: Ledger) -> None:
    ids = grow(journal, count=2)
    ledger.execute("UPDATE effects SET parent = ? WHERE id = ?", (ids[1], ids[0]))
    with pytest.raises(SystemFaultError):
        journal.lineage(ids[1])


def test_forgetting_drops_a_thread_and_no_other(journal: Journal) -> None:
    grow(journal, count=3)
    others = grow(journal, thread="u", count=2)
    journal.forget("t")
    assert (journal.position("t"), journal.of_step("t", "p")) == (BEGINNING, [])
    assert journal.lineage(journal.position("u")) == others[::-1]


def test_a_fork_keeps_what_it_stands_on_until_it_goes_too(journal: Journal, ledger: Ledger) -> None:
    trunk = grow(journal, count=4)
    journal.place("fork", trunk[1])
    branch = grow(journal, trunk[1], thread="fork", count=2)
    journal.place("idle", trunk[0])
    journal.forget("t")
    assert journal.lineage(branch[1]) == [branch[1], branch[0], trunk[1], trunk[0]]
    journal.forget("fork")
    assert journal.lineage(journal.position("idle")) == [trunk[0]]
    assert ledger.execute("SELECT count(*) FROM effects") == [(1,)]
    journal.forget("idle")
    assert ledger.execute("SELECT count(*) FROM effects") == [(0,)]


def test_a_forgotten_fork_leaves_its_origin_alone(journal: Journal) -> None:
    trunk = grow(journal, count=2)
    grow(journal, trunk[0], thread="fork")
    journal.forget("fork")
    assert journal.lineage(journal.position("t")) == trunk[::-1]


def test_the_digests_of_all_files_are_those_to_keep(journal: Journal) -> None:
    journal.seal(effect())
    journal.seal(effect(thread_id="u", changes=(Change("x", Node("file", 0o600, "b" * 64, 0), None),)))
    assert journal.digests() == {"a" * 64, "b" * 64}


def test_ten_thousand_changes_take_a_third_of_their_json(journal: Journal, ledger: Ledger) -> None:
    import hashlib

    many = tuple(
        Change(f"src/part{n}.py", None, Node("file", 0o644, hashlib.sha256(b"%d" % n).hexdigest(), n))
        for n in range(10_000)
    )
    sealed = effect(changes=many)
    journal.seal(sealed)
    ((length,),) = ledger.execute("SELECT length(changes) FROM effects")
    assert length < 500_000
    assert journal.effect(sealed.id) == sealed


@pytest.mark.parametrize("packed", [b"", b"{", b"\x28\xb5\x2f\xfdxx"])
def test_changes_that_cannot_be_read_are_told(journal: Journal, ledger: Ledger, packed: bytes) -> None:
    sealed = effect()
    journal.seal(sealed)
    ledger.execute("UPDATE effects SET changes = ?", (packed,))
    with pytest.raises(SystemFaultError, match=r"cannot be read.*lockstitch doctor"):
        journal.effect(sealed.id)


def test_a_ledger_from_before_the_journal_gets_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lockstitch.state import ledger as module

    with monkeypatch.context() as earlier:
        earlier.setattr(module, "SCHEMA_VERSION", 3)
        earlier.setattr(module, "SCHEMA_STEPS", module.SCHEMA_STEPS[:3])
        open_ledger(tmp_path / "old.db").close()
    with open_ledger(tmp_path / "old.db") as upgraded:
        assert grow(Journal(upgraded, ObjectStore(tmp_path / "objects", upgraded)), count=2)


# One process that forks a child for every line of ours that an effect runs through; the child dies there.
KILLED_AT_EVERY_LINE = """
import os, signal, sys
from pathlib import Path
from lockstitch.state import heads, journal, ledger, objects
from lockstitch.state.journal import Effect, Journal
from lockstitch.state.tree_change import Change, Node
import zstandard

home, lines = Path(sys.argv[1]), 0

def run(thread, last_line):
    def trace(frame, kind, value):
        global lines
        if "/state/" not in frame.f_code.co_filename:
            return None
        lines += kind == "line"
        if lines == last_line:
            os.kill(os.getpid(), signal.SIGKILL)
        return trace

    with ledger.open_ledger(home / "ledger.db") as opened:
        store = objects.ObjectStore(home / "objects", opened)
        written = Journal(opened, store)
        sys.settrace(trace)
        contents = (thread.encode() * 10, thread.encode() * 10_000)  # a row, a file
        nodes = [Node("file", 0o644, store.put(data), len(data)) for data in contents]
        changes = tuple(Change(path, None, node) for path, node in zip("ab", nodes, strict=True))
        written.seal(Effect(id=thread, thread_id=thread, parent="", checkpoint_id="p", call_id="c",
            tool="write_file", kind="edit", at="", workspace="", changes=changes))
        (home / (thread + ".file")).touch()
        written.finish(thread)
        sys.settrace(None)

point, status = 0, 1
while status:
    point += 1
    child = os.fork()
    if child == 0:
        run(f"t{point}", point)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    assert status in (0, signal.SIGKILL), status
print(point)
"""


def test_killed_at_any_line_an_effect_is_absent_sealed_or_done_and_never_half(
    tmp_path: Path, ledger: Ledger, journal: Journal
) -> None:
    command = [sys.executable, "-c", KILLED_AT_EVERY_LINE, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    seen = [state_of(journal, f"t{point + 1}", tmp_path) for point in range(int(done.stdout))]
    assert set(seen) == {"absent", "sealed", "done"}
    assert (seen[0], seen[-1]) == ("absent", "done")
    assert len(seen) > 50


def state_of(journal: Journal, thread: str, home: Path) -> str:
    found = journal.of_step(thread, "p")
    if not found:
        assert not (home / f"{thread}.file").exists()
        assert journal.position(thread) == BEGINNING
        return "absent"
    (only,) = found
    assert journal.position(thread) == (thread if only.status == "done" else BEGINNING)
    for change, times in zip(only.changes, (10, 10_000), strict=True):
        assert change.after is not None
        assert journal.objects.read(change.after.digest) == thread.encode() * times
    return only.status
