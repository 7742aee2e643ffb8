"""What a command changed in the workspace itself: all of it is found, and can be taken back to the byte."""

import os
import random
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.quick_process import QuickProcess, helped_by
from tests.random_commands import random_script

from lockstitch.state.errors import SystemFaultError
from lockstitch.state.ledger import open_ledger
from lockstitch.state.objects import ObjectStore
from lockstitch.state.tree_change import Change, Node, digests_in, inverse
from lockstitch.tools.changes import scan_baseline, scan_comparison, scan_index, scan_walk
from lockstitch.tools.changes.git_blobs import open_git
from lockstitch.tools.changes.scan import Baseline, ScanChanges, find_changes, take_baseline
from lockstitch.tools.changes.scan_index import load_index, read_kept_digests
from lockstitch.tools.confined.apply import apply
from lockstitch.tools.confined.file_source import KeptBytes
from lockstitch.tools.confined.tree import SPECIAL, Tree

SCRIPTS = 12  # random ones
MANY = 1_000  # files at once; bench/scan.py has ten times as many
PLAIN = {
    "PATH": os.environ["PATH"],
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    **{f"GIT_{who}_{what}": "a@b.c" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
}

Look = dict[str, Node]


class Place:
    """A workspace, and a home with its store."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "ws"
        self.home = folder / "ours"
        self.root.mkdir()
        self.home.mkdir()
        self.index = self.home / "scans" / "ws"
        self.ledger = open_ledger(self.home / "ledger.db")
        self.objects = ObjectStore(self.home / "objects", self.ledger)
        self.fd = os.open(self.root, os.O_RDONLY)

    def empty_store(self) -> None:
        shutil.rmtree(self.home / "objects", ignore_errors=True)
        self.ledger.execute("DELETE FROM contents")

    def write(self, path: str, text: str = "one\n") -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def baseline(self, *, hidden: tuple[Path, ...] = ()) -> Baseline:
        return take_baseline(self.fd, place=self.index, objects=self.objects, hidden=hidden)

    def changes(self, baseline: Baseline) -> ScanChanges:
        found = find_changes(self.fd, baseline, objects=self.objects)
        for digest in digests_in(found.changes):
            self.objects.read(digest)
        return found

    def undo(self, found: ScanChanges) -> None:
        assert apply(self.fd, inverse(found.changes), KeptBytes(self.objects.pieces)) == []

    def look(self) -> Look:
        """A naive full snapshot."""
        found: Look = {}
        with Tree(self.fd) as tree:
            left = ["."]
            while left:
                path = left.pop()
                node = tree.node(path)
                if node is None or node == SPECIAL:
                    continue
                found[path] = node
                if node.kind == "folder":
                    names = (name for name in tree.names(path) if name != ".git")
                    left += [name if path == "." else f"{path}/{name}" for name in names]
        return found

    def git(self, *arguments: str) -> None:
        subprocess.run(["git", *arguments], cwd=self.root, env=PLAIN, check=True, capture_output=True)

    def commit(self) -> None:
        """All of it in a repository, whose index is older than no file."""
        self.git("init", "-q", "-b", "main")
        self.git("config", "gc.auto", "0")
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "first")
        self.age()
        self.git("update-index", "-q", "--refresh")
        time.sleep(0.03)  # the index's own time must be later than any file's
        (self.root / ".git" / "index").touch()

    def age(self) -> None:
        """Wait until no file is as young as a look at it."""
        time.sleep(0.03)


@pytest.fixture(autouse=True, scope="module", params=["one process", "two processes"])
def processes(request: pytest.FixtureRequest) -> Iterator[None]:
    """Every scan alone, and with a second process that has answered all before the look begins."""
    if request.param == "one process":
        yield
        return
    if not hasattr(os, "memfd_create"):
        pytest.skip(
            "only Linux has memory to share by memfd_create(2), without which there is no second process"
        )
    with helped_by(QuickProcess()):
        yield


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path)
    yield place
    os.close(place.fd)
    place.ledger.close()


@pytest.fixture
def lending(monkeypatch: pytest.MonkeyPatch) -> None:
    """Git is asked also for a few files."""
    monkeypatch.setattr(scan_baseline, "GIT_FILES_MIN", 1)


def between(before: Look, after: Look) -> list[Change]:
    paths = sorted(before.keys() | after.keys(), key=lambda path: path.split("/"))
    changes = [Change(path, before.get(path), after.get(path)) for path in paths]
    return [change for change in changes if change.before != change.after]


def real(found: ScanChanges) -> list[Change]:
    return [change for change in found.changes if change.before != change.after]


def paths(found: ScanChanges) -> list[str]:
    return [change.path for change in real(found)]


def stored(place: Place) -> int:
    files = sum(1 for path in (place.home / "objects").rglob("*") if path.is_file())
    return files + int(place.ledger.execute("SELECT count(*) FROM contents")[0][0])


def run(place: Place, script: str) -> None:
    own = str(place.home.parent / "copy")  # the scripts copy by way of /tmp/x
    script = script.replace("/tmp/x", own)
    subprocess.run(["bash", "-c", script], cwd=place.root, check=True, stdin=subprocess.DEVNULL)


@pytest.mark.parametrize("seed", range(SCRIPTS))
@pytest.mark.parametrize("in_git", [False, True], ids=["alone", "in git"])
def test_random_commands_are_found_and_taken_back(
    seed: int, in_git: bool, place: Place, lending: None
) -> None:
    source = random.Random(seed)
    run(place, random_script(source, steps=15, closes=False))
    if in_git:
        place.commit()
    for _ in range(3):
        before, baseline = place.look(), place.baseline()
        run(place, random_script(source, steps=8))
        found, after = place.changes(baseline), place.look()
        assert real(found) == between(before, after)
        assert found.uncovered == []
        place.undo(found)
        assert place.look() == before
        assert apply(place.fd, found.changes, KeptBytes(place.objects.pieces)) == []
        assert place.look() == after


@pytest.mark.usefixtures("ordinary_user")
def test_what_is_closed_to_its_owner_is_covered_and_stays_closed(place: Place) -> None:
    closed = place.write("d/in/file").parent
    place.write("unreadable").chmod(0)
    closed.chmod(0)
    before, baseline = place.look(), place.baseline()
    assert baseline.remarks == []
    assert closed.stat().st_mode & 0o777 == 0
    (place.root / "unreadable").chmod(0o600)
    (place.root / "unreadable").write_text("two")
    closed.chmod(0o700)
    (closed / "file").write_text("two")
    closed.chmod(0)
    found = place.changes(baseline)
    assert paths(found) == ["d/in/file", "unreadable"]
    assert [change.path for change in found.changes] == ["d/in", "d/in/file", "unreadable"]
    place.undo(found)
    assert place.look() == before
    closed.chmod(0o700)


def test_same_size_and_mtime_put_back_is_told_by_ctime(place: Place) -> None:
    file = place.write("file", "one")
    place.age()
    baseline, status = place.baseline(), file.stat()
    file.write_text("two")
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert paths(place.changes(baseline)) == ["file"]


def test_change_in_the_very_tick_of_the_look_is_found(place: Place) -> None:
    for number in range(10):
        file = place.write("file", f"a{number:03}")
        baseline = place.baseline()
        file.write_text(f"b{number:03}")
        found = place.changes(baseline)
        assert paths(found) == ["file"]
        new = place.write(f"new{number}")
        assert paths(place.changes(place.baseline())) == []
        new.unlink()
        assert place.baseline()


def test_unchanged_files_are_not_read_again(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.write("d/file")
    place.write("other")
    place.age()
    place.baseline()
    place.write("other", "two")
    read: list[str] = []
    keep_file = scan_baseline.keep_file
    monkeypatch.setattr(
        scan_baseline, "keep_file", lambda fd, name, *given: read.append(name) or keep_file(fd, name, *given)
    )
    place.baseline()
    assert read == ["other"]


def test_file_as_young_as_the_look_is_read_again(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan_index, "TICK_NS", 3_600 * 10**9)
    file = place.write("file")
    place.age()
    baseline = place.baseline()
    read: list[str] = []
    keep_file = scan_comparison.keep_file
    monkeypatch.setattr(
        scan_comparison,
        "keep_file",
        lambda fd, name, *given, **named: read.append(name) or keep_file(fd, name, *given, **named),
    )
    assert place.changes(baseline).changes == []
    assert (read, file.read_text()) == (["file"], "one\n")


@pytest.mark.parametrize(
    ("ctime_ns", "young"),
    [(10**9 - 1, False), (5 * 10**9 + 1, True), (4_970_000_001, False), (3 * 10**9, True), (6 * 10**9, True)],
    ids=["old", "now", "some ticks ago", "whole seconds", "from the future"],
)
def test_youth_is_counted_in_ticks_of_the_file_systems_clock(ctime_ns: int, young: bool) -> None:
    assert scan_index.is_young(ctime_ns, 5 * 10**9) is young


def test_one_kind_in_the_place_of_another_is_one_change(place: Place) -> None:
    place.write("folder/file")
    place.write("file")
    (place.root / "link").symlink_to("file")
    before, baseline = place.look(), place.baseline()
    run(place, "rm -r ./*; mkdir file link; echo one > folder; echo two > link/in")
    found = place.changes(baseline)
    assert found.changes == between(before, place.look())
    place.undo(found)
    assert place.look() == before


def test_touched_file_is_no_change(place: Place, lending: None) -> None:
    for in_git in (False, True):
        file = place.write("file")
        if in_git:
            place.commit()
        baseline = place.baseline()
        os.utime(file, (1, 1))
        assert place.changes(baseline).changes == []


@pytest.mark.usefixtures("lending")
def test_clean_checkout_is_lent_by_git_and_fetched_when_it_is_changed(place: Place) -> None:
    for number in range(20):
        place.write(f"d/{number}", f"{number}\n")
    place.write("mode", "of it")
    place.commit()
    untracked = place.write("untracked")
    before, baseline = place.look(), place.baseline()
    assert stored(place) == 1
    (place.root / "d" / "1").write_text("changed")
    (place.root / "d" / "2").unlink()
    (place.root / "d" / "3").rename(place.root / "moved")
    (place.root / "mode").chmod(0o755)
    untracked.unlink()
    found = place.changes(baseline)
    assert paths(found) == ["d/1", "d/2", "d/3", "mode", "moved", "untracked"]
    place.undo(found)
    assert place.look() == before


@pytest.mark.usefixtures("lending")
def test_part_of_a_repository_is_lent_too(place: Place, tmp_path: Path) -> None:
    place.write("part/file", "one")
    place.write("file", "of the whole")
    place.commit()
    fd = os.open(place.root / "part", os.O_RDONLY)
    try:
        baseline = take_baseline(fd, place=place.index, objects=place.objects)
        assert stored(place) == 0
        place.write("part/file", "two")
        found = find_changes(fd, baseline, objects=place.objects)
    finally:
        os.close(fd)
    (change,) = found.changes
    assert change.before
    assert place.objects.read(change.before.digest) == b"one"


@pytest.mark.usefixtures("lending")
def test_copy_of_a_checkout_is_lent_by_content(place: Place) -> None:
    place.write("file")
    place.commit()
    (place.root / "file").touch()  # git's index does not know this time
    place.baseline()
    assert stored(place) == 0


@pytest.mark.usefixtures("lending")
@pytest.mark.parametrize(
    ("attributes", "working", "kept"),
    [
        ("* filter=turn", "abc", "bcd"),  # of the same length
        ("* text eol=crlf", "a\r\nb\r\n", "a\nb\n"),
        ("* working-tree-encoding=UTF-16LE", "п", "п"),  # two bytes in either encoding
    ],
    ids=["filter", "line ends", "encoding"],
)
def test_what_git_keeps_in_another_form_is_copied(
    attributes: str, working: str, kept: str, place: Place
) -> None:
    encoding = "utf-16-le" if "UTF-16" in attributes else "utf-8"
    file = place.root / "file"
    file.write_bytes(working.encode(encoding))
    place.git("init", "-q")
    place.git("config", "filter.turn.clean", "tr a-y b-z")
    place.write(".gitattributes", attributes)
    place.commit()
    shown = subprocess.run(
        ["git", "show", ":file"], cwd=place.root, env=PLAIN, capture_output=True, check=True
    )
    assert shown.stdout.decode() == kept
    baseline = place.baseline()
    file.write_text("changed")
    (change,) = place.changes(baseline).changes
    assert change.before
    assert place.objects.read(change.before.digest) == working.encode(encoding)


@pytest.mark.usefixtures("lending")
def test_repository_is_not_written_and_starts_nothing(place: Place, tmp_path: Path) -> None:
    file = place.write("file")
    place.commit()
    file.touch()
    mark = tmp_path / "ran"
    for name in (
        "core.fsmonitor",
        "core.pager",
        "core.sshCommand",
        "core.alternateRefsCommand",
        "diff.external",
    ):
        place.git("config", name, f"touch {mark}; false")
    place.git("config", "filter.x.smudge", f"touch {mark}; cat")
    place.write(".gitattributes", "* filter=x")
    git = place.root / ".git"
    before = {path: path.stat().st_mtime_ns for path in git.rglob("*")}
    baseline = place.baseline()
    file.write_text("two")
    assert paths(place.changes(baseline)) == ["file"]
    assert {path: path.stat().st_mtime_ns for path in git.rglob("*")} == before
    assert not mark.exists()


@pytest.mark.usefixtures("lending")
def test_without_its_objects_git_lends_nothing(place: Place) -> None:
    file = place.write("file")
    place.commit()
    objects = place.root / ".git" / "objects"
    kept = place.home / "aside"
    objects.rename(kept)
    place.baseline()
    assert stored(place) == 1
    shutil.rmtree(place.home / "scans")
    place.empty_store()
    kept.rename(objects)
    baseline = place.baseline()
    assert stored(place) == 0
    shutil.rmtree(place.root / ".git")  # with the command that changes the file
    file.write_text("two")
    found = place.changes(baseline)
    assert (found.changes, found.uncovered) == ([], ["file"])
    assert found.remarks == [f"file: {scan_comparison.NOT_LENT}"]


@pytest.mark.usefixtures("lending")
def test_without_git_or_with_a_broken_one_files_are_copied(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.write("file")
    place.commit()
    (place.root / ".git" / "index").write_bytes(b"broken")
    place.baseline()
    assert stored(place) == 1
    shutil.rmtree(place.home / "scans")
    monkeypatch.setenv("PATH", "/nowhere")
    place.write("other", "more")
    place.baseline()
    assert stored(place) == 2


def test_git_ours_and_protected_folders_are_no_part(place: Place) -> None:
    ours = place.root / "ours"
    for path in (".git/x", "sub/.git/x", ".lockstitch/x", "ours/x", "kept"):
        place.write(path)
    baseline = place.baseline(hidden=(ours,))
    for path in (".git/x", ".git/y", "sub/.git/x", ".lockstitch/y", "ours/x", "ours/y"):
        place.write(path, "two")
    (place.root / ".git2").mkdir()
    assert paths(place.changes(baseline)) == [".git2"]


def test_place_of_the_index_is_no_part(place: Place) -> None:
    place.index = place.root / "home" / "index"
    place.write("home/other")
    baseline = place.baseline()
    place.write("home/other", "two")
    assert place.changes(baseline).changes == []


@pytest.mark.parametrize("in_git", [False, True], ids=["alone", "in git"])
def test_ignored_folder_stays_out_when_it_is_large(
    in_git: bool, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan_baseline, "IGNORED_FILES_MAX", 5)
    place.write(".gitignore", "deps/\nsmall/\n")
    if in_git:
        place.commit()
    place.write("small/file")
    for number in range(10):
        place.write(f"plain/{number}")
        place.write(f"web/deps/{number % 4}/{number}")
    baseline = place.baseline()
    assert baseline.uncovered == ["web/deps"]
    assert "web/deps: not covered: ignored by .gitignore" in baseline.remarks[0]
    for path in ("small/file", "plain/1", "web/deps/1/1", "web/deps/new", "web/new"):
        place.write(path, "two")
    for number in range(10):
        place.write(f"deps/{number}")
    found = place.changes(baseline)
    assert paths(found) == ["plain/1", "small/file", "web/new"]
    assert found.uncovered == ["deps", "web/deps"]
    place.write(".gitignore", "")
    baseline = place.baseline()
    assert baseline.uncovered == []
    place.write("web/deps/1/1", "three")
    assert paths(place.changes(baseline)) == ["web/deps/1/1"]


def test_covered_files_of_a_folder_that_grows_large_can_be_restored(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan_baseline, "IGNORED_FILES_MAX", 5)
    place.write(".gitignore", "build/\n")
    place.write("build/old")
    baseline = place.baseline()
    for number in range(10):
        place.write(f"build/{number}")
    place.write("build/old", "two")
    found = place.changes(baseline)
    assert (paths(found), found.uncovered) == (["build/old"], ["build"])
    assert place.baseline().uncovered == ["build"]


def test_folders_too_deep_are_passed_by_and_told(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan_walk, "DEPTH_MAX", 2)
    place.write("a/b/c/file")
    place.write("a/b/file")
    baseline = place.baseline()
    assert baseline.uncovered == ["a/b/c"]
    place.write("a/b/c/file", "two")
    place.write("a/b/file", "two")
    assert paths(place.changes(baseline)) == ["a/b/file"]


def test_large_files_are_not_covered_and_told(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan_baseline, "COPY_BYTES_MAX", 10)
    monkeypatch.setattr(scan_comparison, "COPY_BYTES_MAX", 10)
    place.write("large", "x" * 11)
    place.write("gone", "x" * 11)
    place.age()
    baseline = place.baseline()
    assert baseline.uncovered == ["gone", "large"]
    assert place.changes(baseline).uncovered == []
    place.write("large", "y" * 11)
    (place.root / "gone").unlink()
    place.write("made", "z" * 11)
    found = place.changes(baseline)
    assert (paths(found), found.uncovered) == (["made"], ["gone", "large"])
    baseline = place.baseline()
    place.write("made", "y" * 11)
    assert paths(place.changes(baseline)) == ["made"]  # the command that made it was looked at


def test_all_copies_together_have_a_limit(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan_baseline, "COPIES_BYTES_MAX", 10)
    for name in ("a", "b"):
        place.write(name, name * 6)
    assert len(place.baseline().uncovered) == 1


def test_special_files_are_passed_by_and_told_where_one_takes_a_place(place: Place) -> None:
    os.mkfifo(place.root / "pipe")
    (place.root / "loop").symlink_to("loop")
    (place.root / "here").symlink_to(".")
    file = place.write("file")
    baseline = place.baseline()
    file.unlink()
    os.mkfifo(file)
    os.mkfifo(place.root / "new")
    found = place.changes(baseline)
    assert paths(found) == ["file"]
    assert found.remarks == [f"file: {scan_comparison.SPECIAL}"]


@pytest.mark.usefixtures("ordinary_user")
def test_folder_that_stays_closed_loses_nothing(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = place.write("d/file").parent
    baseline = place.baseline()

    def refuse(tree: Tree, path: str) -> int:
        raise PermissionError(13, "another user's")

    folder.chmod(0)
    with monkeypatch.context() as patched:
        patched.setattr(Tree, "open_folder", refuse)
        found = place.changes(baseline)
        assert (paths(found), found.uncovered) == (["d"], ["d"])
        closed = place.baseline()
        assert closed.uncovered == ["d"]
    folder.chmod(0o700)
    place.write("d/file", "two")
    place.age()
    assert paths(place.changes(closed)) == ["d"]  # not `d/file` as new: to undo would delete it
    baseline = place.baseline()
    place.write("d/file", "three")
    (change,) = place.changes(baseline).changes
    assert change.path == "d/file"
    assert change.before


def test_file_that_vanishes_during_the_scan_is_gone(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "abc":
        place.write(f"d/{name}")

    def vanishing(fd: int, name: str, *given: object, **named: object) -> None:
        (place.root / "d" / name).unlink()
        raise FileNotFoundError

    with monkeypatch.context() as patched:
        patched.setattr(scan_baseline, "keep_file", vanishing)
        place.baseline()
    assert list(place.root.rglob("*")) == [place.root / "d"]
    place.write("d/b")
    baseline = place.baseline()
    place.write("d/b", "two")
    with monkeypatch.context() as patched:
        patched.setattr(scan_comparison, "keep_file", vanishing)
        found = place.changes(baseline)
    (change,) = found.changes
    assert (change.path, change.after) == ("d/b", None)


def test_file_that_is_written_to_all_the_time_is_told(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    file = place.write("log")
    baseline = place.baseline()
    file.write_text("more")
    put_file = ObjectStore.put_file

    def writing(store: ObjectStore, fd: int, *, base: str | None = None) -> str:
        digest = put_file(store, fd, base=base)
        with file.open("a") as opened:
            opened.write("more")
        return digest

    monkeypatch.setattr(ObjectStore, "put_file", writing)
    found = place.changes(baseline)
    assert (found.changes, found.uncovered) == ([], ["log"])
    assert found.remarks == [f"log: {scan_comparison.NOT_READ}"]


def test_many_new_files(place: Place) -> None:
    before, baseline = place.look(), place.baseline()
    (place.root / "many").mkdir()
    for number in range(MANY):
        (place.root / "many" / str(number)).write_bytes(b"%d" % number)
    found = place.changes(baseline)
    assert len(found.changes) == MANY + 1
    place.undo(found)
    assert place.look() == before


def test_names_that_are_no_text(place: Place) -> None:
    raw = os.fsencode(place.root)
    for name in (b"\xff\xfe", b"a\nb", b"-x", "ü".encode()):
        Path(os.fsdecode(raw + b"/" + name)).write_text("one")
    Path(os.fsdecode(raw + b"/l\xff")).symlink_to(os.fsdecode(b"to\xff"))
    before = place.look()
    place.baseline()
    baseline = place.baseline()
    run(place, "rm -r ./*")
    found = place.changes(baseline)
    assert len(found.changes) == 5
    place.undo(found)
    assert place.look() == before


def test_damaged_or_strange_index_is_made_anew(place: Place) -> None:
    place.write("file")
    place.baseline()
    whole = place.index.read_bytes()
    changed = whole[:60] + bytes([whole[60] ^ 1]) + whole[61:]
    for number, damaged in enumerate((b"", b"lockstitch scan 0\n", whole[:-1], changed, b"x" * 999)):
        place.index.write_bytes(damaged)
        baseline = place.baseline()
        assert place.index.read_bytes()[:18] == whole[:18]
        place.write("file", f"two{number}")
        assert paths(place.changes(baseline)) == ["file"]


def test_index_of_an_emptied_store_is_made_anew(place: Place) -> None:
    place.write("file")
    place.age()
    place.baseline()
    place.empty_store()
    baseline = place.baseline()
    place.write("file", "two")
    assert paths(place.changes(baseline)) == ["file"]


def test_kept_digests_are_known_to_whoever_collects(place: Place) -> None:
    place.write("file", "one")
    place.write("other", "two")
    place.baseline()
    digests = read_kept_digests(place.index)
    assert {place.objects.read(digest) for digest in digests} == {b"one", b"two"}
    assert read_kept_digests(place.home / "none") == set()


def test_home_that_cannot_be_written_is_told(place: Place) -> None:
    place.index.parent.write_text("no folder")
    with pytest.raises(SystemFaultError, match="the home folder is no folder"):
        place.baseline()


def test_damaged_index_is_not_loaded(place: Place) -> None:
    place.write("file")
    place.baseline()
    whole = place.index.read_bytes()
    assert load_index(place.index)
    place.index.write_bytes(whole[:-40] + bytes([whole[-40] ^ 1]) + whole[-39:])
    assert load_index(place.index) is None


@pytest.mark.usefixtures("lending")
def test_young_file_that_git_lends_is_not_trusted(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.write("file")
    place.commit()
    monkeypatch.setattr(scan_index, "TICK_NS", 3_600 * 10**9)
    entry = scan_index.unpack_folder(place.baseline().index.folders["."])["file"]
    assert entry.ref[:1] == scan_index.LENT
    assert scan_index.ctime_of(entry.stamp) == scan_index.UNTRUSTED


def test_file_as_young_as_gits_index_is_not_told_by_its_times(place: Place) -> None:
    file = place.write("file")
    place.commit()
    git = open_git(place.fd)
    assert git
    assert git.tracked()["file"].times
    young_ns = file.stat().st_mtime_ns
    os.utime(place.root / ".git" / "index", ns=(young_ns, young_ns))
    assert git.tracked()["file"].times is None
