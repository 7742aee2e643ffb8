"""A thread goes into one archive and comes out of it whole: here, in another home, beside itself."""

import json
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.archives import members_of, rewrite
from tests.kept_files import change_file, damage_content, file_node, open_objects, seal

from lockstitch.state.checkpointer import open_checkpointer
from lockstitch.state.event_log import open_event_log
from lockstitch.state.events import AgentReason
from lockstitch.state.home import Home, prepare_home
from lockstitch.state.intents import Intents
from lockstitch.state.journal import BEGINNING, Effect, Journal
from lockstitch.state.ledger import open_ledger
from lockstitch.state.objects import ObjectStore
from lockstitch.state.plain_rows import plain_checkpoints, plain_writes
from lockstitch.state.spill import SpillStore
from lockstitch.state.thread_lock import hold_thread
from lockstitch.state.threads import new_thread_id
from lockstitch.state.tree_change import Change, Node

Lockstitch = Callable[..., Any]
SCENARIO = "- calls: [{tool: create_tasks, args: {tasks: [a]}}]\n- say: Done.\n- say: More."


@pytest.fixture
def place(home: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """The home whose threads change files behind the back of their checkpoints."""
    monkeypatch.setenv("LOCKSTITCH_FILES_ON_FORK", "keep")
    return prepare_home(home)


@pytest.fixture
def other(tmp_path: Path) -> Home:
    return prepare_home(tmp_path / "other-home")


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return tmp_path / "thread.tar.zst"


@pytest.fixture
def thread_id(lockstitch: Lockstitch, scenario: Callable[[str], str], place: Home, workspace: Path) -> str:
    """A thread with a conversation, events, a kept text, an intent, and files it changed."""
    scenario(SCENARIO)
    made = str(lockstitch("run", "go on", "--json").events[0]["thread_id"])
    change_file(place, made, "src/a.py", b"old\n", b"newer\n", b"newest\n", workspace=workspace)
    change_file(place, made, "gone.txt", b"was here\n", None, workspace=workspace)
    seal(place, made, Change("bin", None, Node("folder", 0o700)), workspace=workspace)
    change_file(place, made, "bin/naïve\udcff", None, b"\0\1\2" * 999, workspace=workspace)
    seal(place, made, Change("link", None, Node("link", 0, "src/a.py")), workspace=workspace)
    SpillStore(place.spill, made).keep("a long result \udc80")
    with open_ledger(place.ledger_db) as ledger:
        Intents(ledger).begin(made, checkpoint_id="c", call_id="1", now="2026-01-01T00:00:00.000+00:00")
    return made


def rows(home: Home, thread_id: str) -> dict[str, list[Any]]:
    """All rows of the thread in threads.db as the stock saver writes them, without its id."""
    with closing(sqlite3.connect(home.threads_db)) as database:
        return {
            "checkpoints": list(plain_checkpoints(database, thread_id)),
            "writes": list(plain_writes(database, thread_id)),
        }


def effects(home: Home, thread_id: str) -> tuple[list[Effect], str]:
    with open_ledger(home.ledger_db) as ledger:
        journal = Journal(ledger, ObjectStore(home.objects, ledger))
        return journal.chain(journal.position(thread_id))[::-1], journal.position(thread_id)


def traces(home: Home) -> dict[str, int]:
    """How many rows and files of threads there are; tasks, since their writes share rows or do not."""
    counts = {}
    with closing(sqlite3.connect(home.threads_db)) as database:
        for table, counted in (
            ("checkpoints", "*"),
            ("writes", "DISTINCT thread_id || checkpoint_id || task_id"),
        ):
            there = database.execute(
                "SELECT count(*) FROM sqlite_master WHERE name = ?", (table,)
            ).fetchone()[0]
            counts[table] = (
                database.execute(f"SELECT count({counted}) FROM {table}").fetchone()[0] if there else 0
            )
    with open_ledger(home.ledger_db) as ledger, open_event_log(home.path) as log:
        for table in ("threads", "effects", "positions", "intents"):
            counts[table] = ledger.execute(f"SELECT count(*) FROM {table}")[0][0]
        counts["events"] = log.execute("SELECT count(*) FROM events")[0][0]
    counts["spill"] = len(list(home.spill.glob("*")))
    return counts


def files(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = str(path.readlink())
        else:
            found[name] = path.read_bytes() if path.is_file() else "folder"
    return found


LEFT_BY_THREAD = {
    "bin": "folder",
    "bin/naïve\udcff": b"\0\1\2" * 999,
    "link": "src/a.py",
    "src": "folder",
    "src/a.py": b"newest\n",
}


def test_a_thread_comes_into_another_home_as_it_was(
    lockstitch: Lockstitch, thread_id: str, archive: Path, place: Home, other: Home
) -> None:
    assert lockstitch("export", thread_id, str(archive)).code == 0
    assert archive.stat().st_mode & 0o777 == 0o600
    done = lockstitch("--home", str(other.path), "import", str(archive))
    assert (done.code, f"Imported thread {thread_id} (answered)" in done.out) == (0, True), done.err
    assert f"lockstitch --home {other.path} show {thread_id}\n" in done.out
    assert rows(other, thread_id) == rows(place, thread_id)
    with closing(sqlite3.connect(other.threads_db)) as database:
        assert database.execute("SELECT DISTINCT type FROM checkpoints").fetchall() == [("msgpack",)]
    assert effects(other, thread_id) == effects(place, thread_id)
    assert len(effects(other, thread_id)[0]) == 6
    here, there = (lockstitch("--home", str(h.path), "show", thread_id, "--json") for h in (place, other))
    assert there.events == here.events
    threads = [lockstitch("--home", str(h.path), "threads", "--json").events for h in (place, other)]
    assert threads[0] == threads[1]
    with open_event_log(place.path) as log, open_event_log(other.path) as log_there:
        assert log.since(thread_id, 0) == log_there.since(thread_id, 0) != []
        assert log.last_seq(thread_id) == log_there.last_seq(thread_id)
    (kept,) = SpillStore(other.spill, thread_id).ids()
    assert SpillStore(other.spill, thread_id).read(kept) == "a long result \udc80"
    with open_ledger(other.ledger_db) as ledger:
        assert not Intents(ledger).begin(thread_id, checkpoint_id="c", call_id="1", now="")
    with open_objects(place) as objects, open_objects(other) as objects_there:
        for digest in (
            n.digest
            for e in effects(place, thread_id)[0]
            for n in (e.changes[0].before, e.changes[0].after)
            if n and n.kind == "file"
        ):
            assert objects.read(digest) == objects_there.read(digest)


def test_it_goes_on_where_its_files_were_made(
    lockstitch: Lockstitch, thread_id: str, archive: Path, other: Home, tmp_path: Path
) -> None:
    lockstitch("export", thread_id, str(archive))
    folder = tmp_path / "fresh" / "copy"
    done = lockstitch("--home", str(other.path), "import", str(archive), "--workspace", str(folder))
    assert (done.code, done.err) == (0, "")
    assert files(folder) == LEFT_BY_THREAD
    assert (folder / "bin").stat().st_mode & 0o777 == 0o700
    (row,) = lockstitch("--home", str(other.path), "threads", "--json").events
    assert row["workspace"] == str(folder)
    assert {effect.workspace for effect in effects(other, thread_id)[0]} == {str(folder)}
    events = lockstitch("--home", str(other.path), "run", "--thread", thread_id, "more", "--json").events
    assert events[0]["workspace"] == str(folder)
    shown = lockstitch("--home", str(other.path), "show", thread_id, "--json").events[0]
    assert (shown["workspace"], len(shown["steps"])) == (str(folder), 3)


def test_a_thread_that_is_there_is_refused_and_comes_as_new(
    lockstitch: Lockstitch, thread_id: str, archive: Path, place: Home, tmp_path: Path, workspace: Path
) -> None:
    lockstitch("export", thread_id, str(archive))
    before = traces(place)
    done = lockstitch("import", str(archive))
    assert (done.code, "--as-new" in done.err) == (2, True)
    assert traces(place) == before
    folder = tmp_path / "copy"
    assert lockstitch("import", str(archive), "--as-new", "--workspace", str(folder)).code == 0
    (copy,) = {row["thread_id"] for row in lockstitch("threads", "--json").events} - {thread_id}
    assert traces(place) == {name: 2 * count for name, count in before.items()}
    theirs, ours = effects(place, thread_id)[0], effects(place, copy)[0]
    assert [e.changes for e in theirs] == [e.changes for e in ours]
    assert not {e.id for e in theirs} & {e.id for e in ours}
    assert {e.thread_id for e in ours} == {copy}
    assert {e.workspace for e in theirs} == {str(workspace)}
    assert files(folder) == LEFT_BY_THREAD
    with open_event_log(place.path) as log:
        assert {event.thread_id for event in log.since(copy, 0)} == {copy}
    assert lockstitch("show", copy, "--json").events[0]["final_answer"] == "Done."
    assert lockstitch("run", "--thread", copy, "more").code == 0


def test_an_effect_that_a_checkpoint_names_is_renamed_with_it(
    lockstitch: Lockstitch, thread_id: str, archive: Path, place: Home
) -> None:
    import ormsgpack

    head = effects(place, thread_id)[1]
    with closing(sqlite3.connect(place.threads_db)) as database:
        for _, checkpoint_id, _, _, blob, _ in list(plain_checkpoints(database, thread_id)):
            found = ormsgpack.unpackb(blob, ext_hook=ormsgpack.Ext, option=ormsgpack.OPT_NON_STR_KEYS)
            found["channel_values"]["head"] = head
            packed = ormsgpack.packb(found, option=ormsgpack.OPT_NON_STR_KEYS)
            database.execute(
                "UPDATE checkpoints SET type = 'msgpack', checkpoint = ? WHERE checkpoint_id = ?",
                (packed, checkpoint_id),
            )
        database.commit()
    lockstitch("export", thread_id, str(archive))
    lockstitch("import", str(archive), "--as-new")
    (copy,) = {row["thread_id"] for row in lockstitch("threads", "--json").events} - {thread_id}
    new_head = effects(place, copy)[1]
    for row in rows(place, copy)["checkpoints"]:
        assert new_head.encode() in row[4]
        assert head.encode() not in row[4]


def test_a_fork_brings_what_it_stands_on(
    lockstitch: Lockstitch,
    thread_id: str,
    archive: Path,
    place: Home,
    other: Home,
    tmp_path: Path,
    workspace: Path,
) -> None:
    fork = new_thread_id()

    async def copy() -> None:
        async with open_checkpointer(place.threads_db) as saver:
            await saver.acopy_thread(thread_id, fork)

    import asyncio

    asyncio.run(copy())
    line, head = effects(place, thread_id)
    with open_ledger(place.ledger_db) as ledger:
        Journal(ledger, ObjectStore(place.objects, ledger)).place(fork, line[1].id)
        ledger.execute(
            "INSERT INTO threads SELECT ?, title, workspace, model, strategy, mode, door, created_at,"
            " updated_at, steps, phase, reason FROM threads",
            (fork,),
        )
    change_file(place, fork, "b", None, b"of the fork", workspace=workspace)
    assert lockstitch("export", fork, str(archive)).code == 0
    folder = tmp_path / "copy"
    done = lockstitch("--home", str(other.path), "import", str(archive), "--workspace", str(folder))
    assert done.code == 0, done.err
    assert files(folder) == {"b": b"of the fork", "src": "folder", "src/a.py": b"newest\n"}
    chain, _ = effects(other, fork)
    assert [effect.thread_id for effect in chain] == ["", "", fork]
    # the thread it came from follows, and gets its own effects back
    first = archive.with_name("first")
    lockstitch("export", thread_id, str(first))
    assert lockstitch("--home", str(other.path), "import", str(first)).code == 0
    assert {effect.thread_id for effect in effects(other, thread_id)[0]} == {thread_id}
    assert effects(other, thread_id)[1] == head
    assert [effect.thread_id for effect in effects(other, fork)[0]] == [thread_id, thread_id, fork]


def test_a_thread_in_the_middle_of_a_step_stays_there(
    lockstitch: Lockstitch, scenario: Callable[[str], str], archive: Path, other: Home
) -> None:
    scenario('- calls: [{tool: run_command, args: {command: "echo out > made.txt"}}]\n- say: Done.')
    thread_id = lockstitch("run", "go", "--json", "--mode", "ask").events[0]["thread_id"]
    waiting = lockstitch("show", thread_id, "--json").events[0]["waiting_for"]
    lockstitch("export", thread_id, str(archive))
    lockstitch("--home", str(other.path), "import", str(archive))
    assert (
        lockstitch("--home", str(other.path), "show", thread_id, "--json").events[0]["waiting_for"] == waiting
    )
    assert lockstitch("--home", str(other.path), "run", "--thread", thread_id, "--approve").code == 0


def test_a_lost_content_is_told_and_the_rest_goes_along(
    lockstitch: Lockstitch, thread_id: str, archive: Path, place: Home, other: Home, tmp_path: Path
) -> None:
    damage_content(place, b"newer\n")
    done = lockstitch("export", thread_id, str(archive))
    assert (done.code, "Without 1 content that this home has lost" in done.err) == (0, True)
    folder = tmp_path / "copy"
    done = lockstitch("--home", str(other.path), "import", str(archive), "--workspace", str(folder))
    assert done.code == 0, done.err
    assert files(folder) == LEFT_BY_THREAD  # the last version is there
    with open_objects(other) as objects:
        assert not objects.has(file_node(b"newer\n").digest)


def test_without_a_content_that_is_needed_no_file_is_made(
    lockstitch: Lockstitch, thread_id: str, archive: Path, place: Home, other: Home, tmp_path: Path
) -> None:
    lost = file_node(b"newest\n").digest
    damage_content(place, b"newest\n")
    lockstitch("export", thread_id, str(archive))
    folder, before = tmp_path / "copy", traces(other)
    done = lockstitch("--home", str(other.path), "import", str(archive), "--workspace", str(folder))
    assert (done.code != 0, lost[:12] in done.err) == (True, True)
    assert files(folder) == {}
    assert traces(other) == before
    assert lockstitch("--home", str(other.path), "import", str(archive)).code == 0


def test_no_key_is_in_an_archive(
    lockstitch: Lockstitch, thread_id: str, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    canary = "sk-canary-7Q+zP4mW"
    monkeypatch.setenv("OPENAI_API_KEY", canary)
    lockstitch("run", "--thread", thread_id, "more")
    lockstitch("export", thread_id, str(archive))
    held = members_of(archive)
    assert not [name for name, data in held.items() if canary.encode() in data]
    assert b"go on" in held["writes.jsonl"], "the search finds nothing at all"
    assert "audit" not in "".join(held)


def test_a_file_that_is_there_is_not_replaced_unasked(
    lockstitch: Lockstitch, thread_id: str, archive: Path
) -> None:
    archive.write_text("mine")
    done = lockstitch("export", thread_id, str(archive))
    assert (done.code, "--force" in done.err, archive.read_text()) == (2, True, "mine")
    assert lockstitch("export", thread_id, str(archive), "--force").code == 0


def test_an_export_that_fails_leaves_no_half_archive(
    lockstitch: Lockstitch, thread_id: str, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda fd: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    done = lockstitch("export", thread_id, str(archive))
    assert (done.code, "no space left on device" in done.err) == (2, True)
    assert list(archive.parent.glob("*.tar.zst*")) + list(archive.parent.glob(".*.tmp")) == []


@pytest.mark.parametrize("command", ["export", "import"])
def test_a_thread_that_is_being_written_is_left(
    lockstitch: Lockstitch, thread_id: str, archive: Path, place: Home, other: Home, command: str
) -> None:
    lockstitch("export", thread_id, str(archive))
    home = place if command == "export" else other
    words = [thread_id, str(archive), "--force"] if command == "export" else [str(archive)]
    with hold_thread(home.locks, thread_id, holder="lockstitch run"):
        done = lockstitch("--home", str(home.path), command, *words)
    assert (done.code, "being written by lockstitch run" in done.err) == (10, True)


def test_a_folder_that_is_not_empty_is_left_alone(
    lockstitch: Lockstitch, thread_id: str, archive: Path, other: Home, tmp_path: Path
) -> None:
    lockstitch("export", thread_id, str(archive))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("mine")
    done = lockstitch(
        "--home", str(other.path), "import", str(archive), "--workspace", str(tmp_path / "full")
    )
    assert (done.code, "is not empty" in done.err) == (2, True)
    assert files(tmp_path / "full") == {"mine": b"mine"}


def test_an_import_that_is_cut_short_leaves_nothing(
    lockstitch: Lockstitch,
    thread_id: str,
    archive: Path,
    other: Home,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lockstitch("export", thread_id, str(archive))
    before, folder = traces(other), tmp_path / "copy"

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("lockstitch.state.threads.ThreadIndex.record", fail)
        assert lockstitch("--home", str(other.path), "import", str(archive), "--workspace", str(folder)).code
    assert traces(other) == before
    assert files(folder) == {}
    assert lockstitch("--home", str(other.path), "import", str(archive), "--workspace", str(folder)).code == 0


def test_an_unknown_thread_is_told(lockstitch: Lockstitch, archive: Path) -> None:
    done = lockstitch("export", new_thread_id(), str(archive))
    assert (done.code, "there is no thread" in done.err, archive.exists()) == (2, True, False)


def test_a_repository_and_links_that_lead_out_are_not_made(
    lockstitch: Lockstitch,
    thread_id: str,
    archive: Path,
    place: Home,
    other: Home,
    tmp_path: Path,
    workspace: Path,
) -> None:
    for path in (".git/index", "sub/.GIT/config"):
        change_file(place, thread_id, path, None, b"[core]", workspace=workspace)
    for target in ("/etc/passwd", "../../secret", "a/../../b"):
        seal(
            place, thread_id, Change(f"out{len(target)}", None, Node("link", 0, target)), workspace=workspace
        )
    lockstitch("export", thread_id, str(archive))
    folder = tmp_path / "copy"
    done = lockstitch("--home", str(other.path), "import", str(archive), "--workspace", str(folder))
    assert done.code == 0, done.err
    assert ".git/index was not made" in done.err
    assert files(folder) == LEFT_BY_THREAD


def edit_effect(path: str) -> Callable[[dict[str, bytes]], None]:
    """Makes the first effect change that path."""

    def edit(members: dict[str, bytes]) -> None:
        first, *rest = members["effects.jsonl"].splitlines(keepends=True)
        effect = json.loads(first)
        effect["changes"][0][0] = path
        members["effects.jsonl"] = json.dumps(effect).encode() + b"\n" + b"".join(rest)

    return edit


@pytest.mark.parametrize("path", [".git/hooks/post-checkout", ".git/config", ".lockstitch/rules.md"])
def test_an_archive_that_changes_what_git_would_run_is_refused(
    lockstitch: Lockstitch, thread_id: str, archive: Path, other: Home, path: str
) -> None:
    lockstitch("export", thread_id, str(archive))
    rewrite(archive, edit_effect(path))
    before = traces(other)
    done = lockstitch("--home", str(other.path), "import", str(archive))
    assert (done.code, "no thread may change" in done.err) == (2, True)
    assert traces(other) == before


def test_events_told_after_the_import_go_on_counting(
    lockstitch: Lockstitch, thread_id: str, archive: Path, place: Home, other: Home
) -> None:
    with open_event_log(place.path) as log:
        log.append([AgentReason(content="told", seq=5_000, thread_id=thread_id)])
    lockstitch("export", thread_id, str(archive))
    lockstitch("--home", str(other.path), "import", str(archive))
    lockstitch("--home", str(other.path), "run", "--thread", thread_id, "more")
    with open_event_log(other.path) as log:
        assert log.last_seq(thread_id) > 5_000


def test_a_thread_without_effects_comes_along(
    lockstitch: Lockstitch, scenario: Callable[[str], str], archive: Path, other: Home, tmp_path: Path
) -> None:
    scenario("- say: Done.")
    thread_id = lockstitch("run", "go", "--json").events[0]["thread_id"]
    lockstitch("export", thread_id, str(archive))
    folder = tmp_path / "copy"
    assert lockstitch("--home", str(other.path), "import", str(archive), "--workspace", str(folder)).code == 0
    assert (files(folder), effects(other, thread_id)) == ({}, ([], BEGINNING))
