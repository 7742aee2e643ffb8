"""Contents come back to the byte or not at all; each is kept once, small, private, while anybody needs it."""

import hashlib
import os
import random
import resource
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.clock import Clock

from lockstitch.state import content_files, object_encoding
from lockstitch.state.content_files import DEPTH_MAX, FRESH_S, STREAM_BYTES, SYNC_EACH_MAX, ContentFiles
from lockstitch.state.errors import SystemFaultError

TEXT = b"".join(b"line %d of a file that is long enough for a delta\n" % n for n in range(600))
NOISE = random.Random(1).randbytes(40_000)


@pytest.fixture
def clock() -> Clock:
    return Clock(1_000_000_000.0)


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> ContentFiles:
    return ContentFiles(tmp_path / "objects", now=clock)


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def place(folder: Path, digest: str) -> Path:
    return folder / "objects" / digest[:2] / digest[2:]


def edited(number: int, base: bytes = NOISE) -> bytes:
    return base[: number * 10] + b"edit %d" % number + base[number * 10 + 6 :]


def history(store: ContentFiles, length: int) -> list[str]:
    """The digests of a file that is edited again and again."""
    digests = [store.put(NOISE)]
    content = NOISE
    for number in range(1, length):
        content = edited(number, content)
        digests.append(store.put(content, base=digests[-1]))
    return digests


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(data=st.binary(max_size=300) | st.integers(0, 3000).map(lambda n: b"ab\n" * n), base=st.booleans())
def test_any_content_comes_back_to_the_byte(store: ContentFiles, data: bytes, base: bool) -> None:
    digest = store.put(data, base=store.put(TEXT) if base else None)
    assert digest == hashlib.sha256(data).hexdigest()
    assert (store.read(digest), store.size(digest), store.has(digest)) == (data, len(data), True)
    assert b"".join(store.pieces(digest)) == data


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=None)
@given(cut=st.integers(0, len(TEXT)), until=st.integers(0, len(TEXT)), new=st.binary(max_size=100))
def test_any_edit_of_a_long_file_comes_back_to_the_byte(
    store: ContentFiles, cut: int, until: int, new: bytes
) -> None:
    data = TEXT[:cut] + new + TEXT[until:]
    assert store.read(store.put(data, base=store.put(TEXT))) == data


def test_the_same_content_is_kept_once(store: ContentFiles, tmp_path: Path) -> None:
    assert store.put(TEXT) == store.put(TEXT) == store.put(TEXT, base=store.put(NOISE))
    assert len(files(tmp_path)) == 2


def test_an_open_file_is_kept_from_its_beginning_and_its_position_stays(
    store: ContentFiles, tmp_path: Path
) -> None:
    (tmp_path / "a").write_bytes(TEXT)
    with (tmp_path / "a").open("rb") as file:
        file.seek(7)
        assert store.read(store.put_file(file.fileno())) == TEXT
        assert file.tell() == 7


def test_a_large_file_is_kept_and_read_in_pieces(
    store: ContentFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lockstitch.state import object_folder

    monkeypatch.setattr(content_files, "STREAM_BYTES", 10_000)
    monkeypatch.setattr(object_folder, "PIECE_BYTES", 1_000)
    (tmp_path / "a").write_bytes(NOISE)
    with (tmp_path / "a").open("rb") as file:
        digest = store.put_file(file.fileno())
    assert digest == hashlib.sha256(NOISE).hexdigest()
    assert store.read(digest) == NOISE
    pieces = list(store.pieces(digest))
    assert b"".join(pieces) == NOISE
    assert len(pieces) > 5


def test_a_large_content_that_does_not_compress_can_be_read_in_pieces(store: ContentFiles) -> None:
    data = random.Random(2).randbytes(STREAM_BYTES + 1)
    assert b"".join(store.pieces(store.put(data))) == data


def test_what_compresses_is_kept_small(store: ContentFiles, tmp_path: Path) -> None:
    store.put(TEXT)
    assert files(tmp_path)[0].stat().st_size < len(TEXT) / 5


def test_many_edits_of_a_file_are_little_more_than_one_copy(store: ContentFiles, tmp_path: Path) -> None:
    digests = history(store, 100)
    sizes = [path.stat().st_size for path in files(tmp_path)]
    assert sum(sizes) < 2 * len(NOISE)
    assert [size for size in sizes if size > 10_000] == [place(tmp_path, digests[0]).stat().st_size]


def test_no_content_needs_more_than_a_bounded_chain(store: ContentFiles, tmp_path: Path) -> None:
    digests = history(store, 3 * DEPTH_MAX)
    headers = [object_encoding.unpack(place(tmp_path, digest).read_bytes()) for digest in digests]
    depths = [header.depth for header in headers if header is not None]
    assert len(depths) == len(digests)
    assert max(depths) == DEPTH_MAX
    content = NOISE
    for number, digest in enumerate(digests[1:], start=1):
        content = edited(number, content)
        assert store.read(digest) == content


def test_a_content_unlike_its_base_is_kept_by_itself(store: ContentFiles, tmp_path: Path) -> None:
    base = store.put(NOISE)
    other = store.put(random.Random(3).randbytes(40_000), base=base)
    place(tmp_path, base).unlink()
    assert len(store.read(other)) == 40_000


@pytest.mark.parametrize("harm", ["missing", "cut", "flipped", "never"])
def test_a_base_that_cannot_be_read_does_no_harm(store: ContentFiles, tmp_path: Path, harm: str) -> None:
    base = store.put(NOISE) if harm != "never" else "0" * 64
    spoil(place(tmp_path, base), harm)
    assert store.read(store.put(edited(5), base=base)) == edited(5)


def spoil(path: Path, harm: str) -> None:
    match harm:
        case "missing":
            path.unlink()
        case "cut":
            os.truncate(path, path.stat().st_size - 1)
        case "empty":
            os.truncate(path, 0)
        case "flipped":
            data = bytearray(path.read_bytes())
            data[-10] ^= 1
            path.write_bytes(data)
        case "header":
            path.write_bytes(b"\xff" * 80)


@pytest.mark.parametrize("harm", ["missing", "cut", "empty", "flipped", "header"])
@pytest.mark.parametrize("content", [b"short", TEXT, NOISE], ids=["short", "text", "noise"])
def test_a_damaged_object_is_told_and_never_given_out(
    store: ContentFiles, tmp_path: Path, harm: str, content: bytes
) -> None:
    digest = store.put(content)
    if harm == "flipped" and content == b"short":
        harm = "header"
    spoil(place(tmp_path, digest), harm)
    for read in (store.read, lambda digest: b"".join(store.pieces(digest))):
        with pytest.raises(SystemFaultError, match=rf"{digest[:12]}.*missing or damaged.*lockstitch doctor"):
            read(digest)
    assert store.has(digest) == (harm == "flipped")


@pytest.mark.parametrize("harm", ["missing", "cut", "flipped"])
def test_a_damaged_base_is_told_where_a_delta_is_read(store: ContentFiles, tmp_path: Path, harm: str) -> None:
    first, second = history(store, 2)
    spoil(place(tmp_path, first), harm)
    with pytest.raises(SystemFaultError, match=r"lockstitch doctor"):
        store.read(second)


def test_a_large_object_that_changed_is_told_when_it_is_read_in_pieces(
    store: ContentFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(content_files, "STREAM_BYTES", 10_000)
    (tmp_path / "a").write_bytes(NOISE)
    with (tmp_path / "a").open("rb") as file:
        digest = store.put_file(file.fileno())
    path = place(tmp_path, digest)
    data = bytearray(path.read_bytes())
    data[20_000] ^= 1  # of the bytes themselves, which a frame holds as they are where they do not compress
    path.write_bytes(data)
    with pytest.raises(SystemFaultError, match="damaged"):
        list(store.pieces(digest))


@pytest.mark.parametrize("harm", ["cut", "empty", "missing"])
def test_an_object_cut_off_by_a_power_cut_is_written_anew(tmp_path: Path, harm: str) -> None:
    digest = ContentFiles(tmp_path / "objects").put(TEXT)
    spoil(place(tmp_path, digest), harm)
    later = ContentFiles(tmp_path / "objects")
    assert later.put(TEXT) == digest
    assert later.read(digest) == TEXT


def test_a_delta_whose_base_is_gone_is_written_anew(store: ContentFiles, tmp_path: Path) -> None:
    first, second = history(store, 2)
    store.sync()
    place(tmp_path, first).unlink()
    assert store.put(edited(1)) == second
    assert store.read(second) == edited(1)


@pytest.mark.parametrize("digest", ["", "..", "../../x", "G" * 64, "a" * 63])
def test_what_is_no_digest_reaches_no_file(store: ContentFiles, digest: str) -> None:
    assert not store.has(digest)
    with pytest.raises(SystemFaultError):
        store.read(digest)


def test_nobody_else_may_read_them(store: ContentFiles, tmp_path: Path) -> None:
    store.put(TEXT)
    found = [tmp_path / "objects", *(tmp_path / "objects").rglob("*")]
    assert {(path.is_dir(), stat.S_IMODE(path.stat().st_mode)) for path in found} == {
        (True, 0o700),
        (False, 0o600),
    }


def test_a_disk_that_is_full_leaves_nothing_behind(store: ContentFiles, tmp_path: Path) -> None:
    store.put(b"before")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        with pytest.raises(SystemFaultError, match="kept contents of files cannot be used"):
            store.put(NOISE)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [path.read_bytes()[-6:] for path in files(tmp_path)] == [b"before"]
    assert store.read(store.put(NOISE)) == NOISE


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "objects").write_text("no folder")
    with pytest.raises(SystemFaultError, match="is no folder"):
        ContentFiles(tmp_path / "objects").put(b"a")


def test_two_processes_keep_the_same_contents_at_once(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path\n"
        "from lockstitch.state.content_files import ContentFiles\n"
        "store = ContentFiles(Path(sys.argv[1]))\n"
        "print('ready', flush=True); sys.stdin.readline()\n"
        "for n in range(100): store.put(b'%d' % n * 500)\n"
        "store.sync()\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "objects")]
    pair = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    for process in pair:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in pair:
        process.communicate("go\n", timeout=60)
    assert [process.returncode for process in pair] == [0, 0]
    kept = files(tmp_path)
    assert sorted(path.parent.name + path.name for path in kept) == sorted(
        hashlib.sha256(b"%d" % n * 500).hexdigest() for n in range(100)
    )


@pytest.mark.parametrize("count", [3, SYNC_EACH_MAX + 1])
def test_all_that_was_put_is_flushed_once(
    store: ContentFiles, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    flushed: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda fd: flushed.append("one"))
    monkeypatch.setattr(os, "sync", lambda: flushed.append("all"))
    for n in range(count):
        store.put(b"%d" % n)
    store.sync()
    assert flushed == (["one"] * count if count <= SYNC_EACH_MAX else ["all"])
    store.put(b"0")
    store.sync()
    assert len(flushed) in (count, 1)


def test_what_another_process_wrote_is_flushed_before_it_is_relied_on(
    store: ContentFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ContentFiles(tmp_path / "objects").put(TEXT)
    flushed: list[int] = []
    monkeypatch.setattr(os, "fsync", flushed.append)
    store.put(TEXT)
    store.sync()
    assert len(flushed) == 1


def test_what_nobody_needs_is_collected_once_it_is_old(
    store: ContentFiles, clock: Clock, tmp_path: Path
) -> None:
    kept, old = store.put(TEXT), store.put(NOISE)
    size = place(tmp_path, old).stat().st_size
    assert store.collect({kept}) == 0
    clock.now += FRESH_S + 1
    fresh = store.put(b"fresh")
    assert store.collect({kept}) == size
    assert [store.has(digest) for digest in (kept, old, fresh)] == [True, False, True]


def test_what_is_put_again_is_fresh_with_its_bases(store: ContentFiles, clock: Clock) -> None:
    digests = history(store, 4)
    clock.now += FRESH_S + 1
    store.put(store.read(digests[2]))
    store.collect(set())
    assert [store.has(digest) for digest in digests] == [True, True, True, False]


def test_a_base_stays_as_long_as_what_is_made_of_it(store: ContentFiles, clock: Clock) -> None:
    digests = history(store, 2 * DEPTH_MAX)
    content = store.read(digests[-1])
    clock.now += FRESH_S + 1
    store.collect({digests[-1]})
    assert store.read(digests[-1]) == content
    assert not store.has(digests[DEPTH_MAX])


def test_what_becomes_needed_while_others_collect_stays(
    store: ContentFiles, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = store.put(TEXT)
    clock.now += FRESH_S + 1
    listed = store._files.times

    def put_meanwhile() -> dict[str, float]:
        found = listed()
        store.put(TEXT)
        return found

    monkeypatch.setattr(store._files, "times", put_meanwhile)
    store.collect(set())
    assert store.read(digest) == TEXT


def test_drafts_of_writers_that_died_are_collected(store: ContentFiles, clock: Clock, tmp_path: Path) -> None:
    store.put(b"a")
    code = (
        "import os, signal, sys; from pathlib import Path\n"
        "from lockstitch.state.content_files import ContentFiles\n"
        "os.rename = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "ContentFiles(Path(sys.argv[1])).put(b'half')\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "objects")], timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL
    assert len(files(tmp_path)) == 2
    clock.now = max(path.stat().st_mtime for path in files(tmp_path)) + FRESH_S + 1
    store.put(b"a")
    store.collect(set())
    assert [path.read_bytes()[-1:] for path in files(tmp_path)] == [b"a"]


def test_a_store_that_nobody_used_has_nothing_to_collect(store: ContentFiles) -> None:
    assert store.collect(set()) == 0
