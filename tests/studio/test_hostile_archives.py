"""An archive that is damaged, or made to do harm, is refused in one clear line, and leaves nothing behind."""

import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ormsgpack
import pytest
import zstandard
from tests.archives import Members, manifest_of, members_of, plain, rewrite, sha256, write
from tests.kept_files import change_file

from lockstitch.state.home import Home, prepare_home
from lockstitch.state.intents import Intents
from lockstitch.state.ledger import open_ledger
from lockstitch.state.spill import SpillStore

Lockstitch = Callable[..., Any]
Edit = Callable[[Members], None]


_MADE: list[bytes] = []  # one archive for all tests: each takes a run to make


@pytest.fixture
def archive(
    lockstitch: Lockstitch, scenario: Callable[[str], str], home: Path, workspace: Path, tmp_path: Path
) -> Path:
    path = tmp_path / "thread.tar.zst"
    if not _MADE:
        scenario("- calls: [{tool: get_tasks, args: {}}]\n- say: Done.")
        thread_id = str(lockstitch("run", "go", "--json").events[0]["thread_id"])
        place = prepare_home(home)
        change_file(place, thread_id, "a", None, b"one" * 5_000, b"two" * 5_000, workspace=workspace)
        SpillStore(place.spill, thread_id).keep("a long result")
        with open_ledger(place.ledger_db) as ledger:
            Intents(ledger).begin(thread_id, checkpoint_id="c", call_id="1", now="")
        assert lockstitch("export", thread_id, str(path)).code == 0
        _MADE.append(path.read_bytes())
    path.write_bytes(_MADE[0])
    return path


@pytest.fixture
def other(tmp_path: Path) -> Home:
    return prepare_home(tmp_path / "other-home")


def refused(lockstitch: Lockstitch, archive: Path, other: Home, words: str) -> None:
    """Importing it says these words; the home stays without a thread, and nothing appears elsewhere."""
    around = sorted(other.path.parent.rglob("*"))
    folder = archive.with_name("made")
    done = lockstitch("--home", str(other.path), "import", str(archive), "--workspace", str(folder))
    assert (done.code, words in done.err, "bug" in done.err) == (2, True, False), done.err
    assert lockstitch("--home", str(other.path), "threads", "--json").events == []
    new = {path for path in other.path.parent.rglob("*") if path not in around}
    assert {path for path in new if not path.is_relative_to(other.path)} <= {folder}
    assert not [path for path in new if path.parent.name in {"spill", "objects"}]
    assert not folder.exists() or list(folder.iterdir()) == []


def test_the_archive_that_the_others_are_made_of_is_taken(
    lockstitch: Lockstitch, archive: Path, other: Home
) -> None:
    rewrite(archive, lambda members: None)
    assert lockstitch("--home", str(other.path), "import", str(archive)).code == 0


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_a_cut_off_archive_is_refused(
    lockstitch: Lockstitch, archive: Path, other: Home, share: float
) -> None:
    os.truncate(archive, int(archive.stat().st_size * share))
    refused(lockstitch, archive, other, "the archive cannot be used")


def test_one_wrong_byte_anywhere_is_found(lockstitch: Lockstitch, archive: Path, other: Home) -> None:
    data = archive.read_bytes()
    for place in range(20, len(data), len(data) // 12):
        archive.write_bytes(data[:place] + bytes([data[place] ^ 0x55]) + data[place + 1 :])
        refused(lockstitch, archive, other, "the archive cannot be used")


@pytest.mark.parametrize(
    "data", [b"", b"PK\3\4 a zip", zstandard.compress(b""), zstandard.compress(bytes(5_000))]
)
def test_what_is_no_archive_is_refused(
    lockstitch: Lockstitch, tmp_path: Path, other: Home, data: bytes
) -> None:
    path = tmp_path / "thread.tar.zst"
    path.write_bytes(data)
    refused(lockstitch, path, other, "the archive cannot be used")


def test_a_folder_and_a_missing_file_are_no_archives(
    lockstitch: Lockstitch, tmp_path: Path, other: Home
) -> None:
    refused(lockstitch, tmp_path / "missing", other, "no such file")
    done = lockstitch("--home", str(other.path), "import", str(tmp_path))
    assert done.code == 2


def test_a_newer_version_says_upgrade(lockstitch: Lockstitch, archive: Path, other: Home) -> None:
    manifest = manifest_of(archive) | {"version": 2, "members": "in another way"}
    write(archive, manifest, [])
    refused(lockstitch, archive, other, "pip install --upgrade lockstitch")


NAMES = [
    "/etc/cron.d/x",
    "../escaped",
    "objects/../../escaped",
    "spill/../../../escaped",
    "objects/" + "a" * 63,
    "spill/" + "A" * 16,
    "settings.toml",
    "audit.jsonl",
    "",
]


@pytest.mark.parametrize("name", NAMES)
def test_a_member_of_another_name_is_refused(
    lockstitch: Lockstitch, archive: Path, other: Home, name: str
) -> None:
    manifest, data = manifest_of(archive), b"harm"
    members = list(members_of(archive).items())
    members.insert(4, (name, data))
    manifest["members"] = [[n, len(d), sha256(d)] for n, d in members]
    write(archive, manifest, [(plain(n, d), d) for n, d in members])
    refused(lockstitch, archive, other, "the archive cannot be used")


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.CHRTYPE, tarfile.XHDTYPE]
)
def test_an_entry_that_is_no_plain_file_is_refused(
    lockstitch: Lockstitch, archive: Path, other: Home, kind: bytes
) -> None:
    manifest, members = manifest_of(archive), members_of(archive)
    entries = [(plain(name, data), data) for name, data in members.items()]
    for entry, data in entries:
        if entry.name.startswith("objects/"):
            entry.type, entry.linkname = kind, "/etc/passwd"
            entry.size = len(data)
            break
    write(archive, manifest, entries)
    refused(lockstitch, archive, other, "something else than its manifest says")


def test_a_member_twice_is_refused(lockstitch: Lockstitch, archive: Path, other: Home) -> None:
    manifest, members = manifest_of(archive), list(members_of(archive).items())
    members.insert(5, members[4])
    manifest["members"] = [[name, len(data), sha256(data)] for name, data in members]
    write(archive, manifest, [(plain(*member), member[1]) for member in members])
    refused(lockstitch, archive, other, "is in it twice")


def test_a_member_more_than_the_manifest_says_is_refused(
    lockstitch: Lockstitch, archive: Path, other: Home
) -> None:
    manifest, members = manifest_of(archive), members_of(archive)
    entries = [(plain(name, data), data) for name, data in members.items()]
    write(archive, manifest, [*entries, entries[-1]])
    refused(lockstitch, archive, other, "more than its manifest says")


def test_a_member_that_is_missing_is_refused(lockstitch: Lockstitch, archive: Path, other: Home) -> None:
    rewrite(archive, lambda members: members.pop("writes.jsonl") and None)
    refused(lockstitch, archive, other, "does not hold what a thread is made of")


CHANGED = {
    "objects": (b"one", b"two"),
    "spill": (b"long", b"LONG"),
    "thread": (b'"go"', b'"no"'),
    "writes": (b"go", b"no"),
}


@pytest.mark.parametrize("name", CHANGED)
def test_another_content_than_the_manifest_says_is_refused(
    lockstitch: Lockstitch, archive: Path, other: Home, name: str
) -> None:
    manifest, members = manifest_of(archive), members_of(archive)
    (victim, *_) = [member for member in members if member.startswith(name)]
    was, members[victim] = members[victim], members[victim].replace(*CHANGED[name])
    assert was != members[victim]
    write(archive, manifest, [(plain(n, d), d) for n, d in members.items()])
    refused(lockstitch, archive, other, "is not what the manifest says")


def test_a_content_under_anothers_digest_is_refused(
    lockstitch: Lockstitch, archive: Path, other: Home
) -> None:
    def swap(members: Members) -> None:
        for name in [name for name in members if name.startswith("objects/")]:
            members[name] = b"harm"

    rewrite(archive, swap)
    refused(lockstitch, archive, other, "is no kept text or content")


def test_contents_that_nothing_names_are_refused(lockstitch: Lockstitch, archive: Path, other: Home) -> None:
    def add(members: Members) -> None:
        last = {name: members.pop(name) for name in ("checkpoints.jsonl", "writes.jsonl")}
        members[f"objects/{sha256(b'more')}"] = b"more"
        members |= last

    rewrite(archive, add)
    refused(lockstitch, archive, other, "its contents are not those")


def sizes(claim: int) -> Callable[[dict[str, Any]], None]:
    def edit(manifest: dict[str, Any]) -> None:
        manifest["members"][4][1] = claim

    return edit


@pytest.mark.parametrize("claim", [2**40, 2**63, -1, True, 1.5, None])
def test_a_size_that_cannot_be_is_refused(
    lockstitch: Lockstitch, archive: Path, other: Home, claim: Any
) -> None:
    manifest, members = manifest_of(archive), members_of(archive)
    sizes(claim)(manifest)
    write(archive, manifest, [(plain(n, d), d) for n, d in members.items()])
    refused(lockstitch, archive, other, "the archive cannot be used")


def test_more_than_the_disk_holds_is_refused_before_anything_is_written(
    lockstitch: Lockstitch, archive: Path, other: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("Usage", (), {"free": 1_000})())
    refused(lockstitch, archive, other, "GB free")


BOMB = """
import pathlib, resource, sys
from lockstitch.studio.cli import main
code = main(sys.argv[1:])
status = pathlib.Path("/proc/self/status")  # elsewhere the parent's memory at the fork counts, too
if status.exists():
    print(status.read_text().split("VmHWM:")[1].split()[0])
else:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
sys.exit(code)
"""


@pytest.mark.parametrize("what", ["object", "line", "manifest"])
def test_a_bomb_takes_neither_memory_nor_disk(archive: Path, other: Home, what: str) -> None:
    """300 MB of zeros in 30 kB: as a content it is only read, as a line or a manifest refused."""
    manifest, members = manifest_of(archive), members_of(archive)
    size, block = 300_000_000, bytes(1_000_000)
    compressor = zstandard.ZstdCompressor(level=1)
    name = {"object": "objects/" + "a" * 64, "line": "checkpoints.jsonl", "manifest": "manifest.json"}[what]
    listed = [[n, len(d), sha256(d)] for n, d in members.items()]
    if what != "manifest":
        listed = [[name, size, "a" * 64] if n == name else [n, s, d] for n, s, d in listed]
        if what == "object":
            listed.insert(4, [name, size, "a" * 64])
    data = json.dumps(manifest | {"members": listed}).encode()
    with archive.open("wb") as file, compressor.stream_writer(file) as out:
        for n, s, _ in [["manifest.json", len(data), ""], *listed]:
            entry = tarfile.TarInfo(n)
            entry.size = size if n == name else s
            out.write(entry.tobuf(tarfile.USTAR_FORMAT))
            if n == name:
                for _ in range(size // len(block)):
                    out.write(block)
                out.write(bytes(-size % 512))
            else:
                content = data if n == "manifest.json" else members[n]
                out.write(content + bytes(-len(content) % 512))
        out.write(bytes(1024))
    assert archive.stat().st_size < 200_000
    words = ["--home", str(other.path), "import", str(archive)]
    done = subprocess.run([sys.executable, "-c", BOMB, *words], capture_output=True, text=True, check=False)
    assert (done.returncode, "the archive cannot be used" in done.stderr) == (2, True), done.stderr
    assert int(done.stdout) * 1024 < 700_000_000
    assert not other.objects.exists()


def edit_row(name: str, edit: Callable[[Any], None]) -> Edit:
    """Changes the first row of a member."""

    def change(members: Members) -> None:
        first, *rest = members[name].split(b"\n")
        row = json.loads(first.decode("utf-8", "surrogatepass"))
        edit(row)
        line = json.dumps(row).encode()
        members[name] = b"\n".join([line, *rest])

    return change


def set_node(place: int, value: Any) -> Edit:
    """Of the content after the first effect: kind, mode, digest or size."""
    return edit_row("effects.jsonl", lambda row: row["changes"][0][2].__setitem__(place, value))


def set_path(path: str) -> Edit:
    return edit_row("effects.jsonl", lambda row: row["changes"][0].__setitem__(0, path))


def set_cell(name: str, place: int | str, value: Any) -> Edit:
    return edit_row(name, lambda row: row.__setitem__(place, value))


def double_row(name: str) -> Edit:
    def double(members: Members) -> None:
        members[name] = members[name].split(b"\n")[0] + b"\n" + members[name]

    return double


def text(value: Any) -> str:
    return str(ormsgpack.packb(value).decode("latin-1"))


WRONG: dict[str, Edit] = {
    "absolute path": set_path("/etc/passwd"),
    "path that leads out": set_path("../../escaped"),
    "path that leads out later": set_path("a/../../escaped"),
    "path with a NUL": set_path("a\0b"),
    "empty path": set_path(""),
    "path of half a character": set_path("\ud800"),
    "path without an end": set_path("a/" * 3_000 + "a"),
    "set-user-id": set_node(1, 0o4755),
    "digest that is a path": set_node(2, "../" * 21 + "a"),
    "kind nobody knows": set_node(0, "device"),
    "negative size": set_node(3, -1),
    "effect without a parent": set_cell("effects.jsonl", "parent", "nowhere"),
    "effect of its own parent": edit_row("effects.jsonl", lambda row: row.__setitem__("parent", row["id"])),
    "effect of another kind": set_cell("effects.jsonl", "kind", "harm"),
    "effect that is a list": lambda members: members.__setitem__("effects.jsonl", b"[]\n"),
    "pickle in a checkpoint": set_cell("checkpoints.jsonl", 3, "pickle"),
    "constructors in a checkpoint": set_cell("checkpoints.jsonl", 3, "json"),
    "checkpoint that is none": set_cell("checkpoints.jsonl", 4, text([1, 2])),
    "checkpoint that cannot be read": set_cell("checkpoints.jsonl", 4, "\xc1"),
    "checkpoint of another id": set_cell("checkpoints.jsonl", 1, "another"),
    "checkpoint nested without end": set_cell("checkpoints.jsonl", 4, "\x91" * 100_000),
    "metadata that is no JSON": set_cell("checkpoints.jsonl", 5, "{"),
    "bytes that are none": set_cell("checkpoints.jsonl", 4, "\u2028"),
    "a row too short": edit_row("checkpoints.jsonl", lambda row: row.pop()),
    "pickle in a write": set_cell("writes.jsonl", 6, "pickle"),
    "number too large": set_cell("writes.jsonl", 4, 2**70),
    "half a character in a write": set_cell("writes.jsonl", 5, "\ud800"),
    "a checkpoint twice": double_row("checkpoints.jsonl"),
    "a write twice": double_row("writes.jsonl"),
    "an intent twice": double_row("intents.jsonl"),
    "an event twice": double_row("events.jsonl"),
    "a row cut off": lambda m: m.__setitem__("writes.jsonl", m["writes.jsonl"][:-1]),
    "JSON nested without end": lambda m: m.__setitem__("writes.jsonl", b"[" * 200_000 + b"\n"),
    "another thread's row": set_cell("thread.json", "thread_id", "0b8f2f52-7f0e-4c0e-9a51-6f3f1f7f9a10"),
    "a mode nobody knows": set_cell("thread.json", "mode", "wild"),
    "a column nobody knows": set_cell("thread.json", "harm", "x"),
    "a position it does not hold": set_cell("thread.json", "position", "nowhere"),
    "a number of events below zero": set_cell("thread.json", "last_seq", -1),
    "another thread's event": set_cell("events.jsonl", 2, '{"thread_id": "x", "seq": 1}'),
    "an event that is no JSON": set_cell("events.jsonl", 2, "{"),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_a_row_that_no_thread_has_is_refused(
    lockstitch: Lockstitch, archive: Path, other: Home, what: str
) -> None:
    rewrite(archive, WRONG[what])
    refused(lockstitch, archive, other, "the archive cannot be used")


def test_another_threads_id_in_the_manifest_is_refused(
    lockstitch: Lockstitch, archive: Path, other: Home
) -> None:
    for thread_id in ("../../x", "0b8f2f52-7f0e-4c0e-9a51-6f3f1f7f9a10", None):
        members = members_of(archive)
        write(
            archive,
            manifest_of(archive) | {"thread_id": thread_id},
            [(plain(n, d), d) for n, d in members.items()],
        )
        refused(lockstitch, archive, other, "the archive cannot be used")
