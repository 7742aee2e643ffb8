"""A look that a second process helps finds what it finds alone, whatever becomes of that process."""

import marshal
import os
import random
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.clock import Clock
from tests.quick_process import QuickProcess, helped_by
from tests.random_commands import random_script

from lockstitch.tools.changes import scan_stamps, scan_walk, second_process, second_walk
from lockstitch.tools.changes.scan_index import Entry, Folder, bare_ref, join_names, pack_folder
from lockstitch.tools.changes.scan_stamps import STOP, YES
from lockstitch.tools.changes.scan_walk import Listing, Look
from lockstitch.tools.changes.second_process import SecondProcess
from lockstitch.tools.changes.second_walk import SecondWalk
from lockstitch.tools.confined.confinement import identity_of

pytestmark = pytest.mark.skipif(
    not hasattr(os, "memfd_create"), reason="only Linux has memory to share by memfd_create(2)"
)
SEEDS = 8
END_S = 30.0  # for a process to end
FILES = ("top", "a/1", "a/2", "a/b/3", "a/b/c/4", "d/5", "d/\udcff", "e/f/6")

Known = dict[str, Folder]


class Place:
    """A workspace, and looks at it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for path in FILES:
            file = root / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(path, errors="surrogateescape")
        (root / "link").symlink_to("top")
        self.fd = os.open(root, os.O_RDONLY)

    def known(self) -> Known:
        """All of it; what is old enough is believed."""
        self.age()
        seen = {path: found for path, found in self.look({}).folders.items() if isinstance(found, Listing)}
        return {path: packed(found) for path, found in seen.items()}

    def age(self) -> None:
        """Wait until no file is as young as a look at it."""
        time.sleep(0.03)

    def look(self, known: Known, *, hidden: tuple[Path, ...] = (), left_out: tuple[str, ...] = ()) -> Look:
        identities = [identity_of(path.stat()) for path in hidden]
        return scan_walk.look(self.fd, known, hidden=identities, left_out=left_out)

    def look_alone(self, known: Known) -> Look:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(second_walk, "FILES_MIN", 10**9)
            return self.look(known)

    def run(self, script: str) -> None:
        script = script.replace("/tmp/x", f"{self.root}.copy")
        subprocess.run(["bash", "-c", script], cwd=self.root, check=True, stdin=subprocess.DEVNULL)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path / "ws")
    yield place
    os.close(place.fd)


@pytest.fixture
def helper() -> Iterator[SecondWalk]:
    with helped_by(QuickProcess()) as helper:
        yield helper


@pytest.fixture
def stated(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The names that a look itself takes stamps of in folders it knows."""
    names: list[bytes] = []

    def stamps_of(fd: int, given: list[bytes]) -> list[bytes]:
        names.extend(given)
        return scan_stamps.stamps_of(fd, given)

    monkeypatch.setattr(scan_walk, "stamps_of", stamps_of)
    return names


def packed(found: Listing) -> Folder:
    entries = {name: Entry(stamp, bare_ref(b"u")) for name, stamp in found.files.items()}
    return pack_folder(found.stamp, entries, found.below)


def outcome(look: Look) -> tuple[object, ...]:
    return list(look.folders.items()), look.special, look.closed


def is_gone(pidfd: int) -> bool:
    return bool(select.select([pidfd], [], [], END_S)[0])


def pid_of(helper: SecondWalk) -> int:
    assert helper.process.pid
    return helper.process.pid


def answers(place: Place, known: Known, *, told_to_stop: bool = False) -> dict[str, bool]:
    memory = bytearray(1 + len(known))
    memory[STOP] = YES if told_to_stop else 0
    stamps, names, files, *_ = zip(*known.values(), strict=True)
    scan_stamps.answer(place.fd, (join_names(known), stamps, names, files), memory)  # type: ignore[arg-type]
    return {path: memory[1 + number] == YES for number, path in enumerate(known)}


def test_what_the_process_has_found_is_not_looked_at_again(
    place: Place, helper: SecondWalk, stated: list[bytes]
) -> None:
    known = place.known()
    found = place.look(known)
    assert stated == []
    assert list(found.folders) == list(known)
    assert all(found.folders[path] is folder for path, folder in known.items())


def test_folder_that_differs_is_looked_at_by_the_look_itself(
    place: Place, helper: SecondWalk, stated: list[bytes]
) -> None:
    known = place.known()
    (place.root / "a/b/3").write_text("changed")
    found = place.look(known)
    assert stated == [b"3"]
    assert [path for path, folder in found.folders.items() if folder is not known[path]] == ["a/b"]


CHANGES = {
    "edit": "echo changed > a/b/3",
    "time put back": "touch -r a/1 mark; echo -n A/1 > a/1; touch -r mark a/1; rm mark",
    "mode": "chmod 700 a/b/c/4",
    "mode of a folder": "chmod 711 e/f",
    "delete": "rm a/1",
    "delete a folder": "rm -r a",
    "rename": "mv a/1 a/3",
    "exchange": "mv a/1 a/x; mv a/2 a/1; mv a/x a/2",
    "rename a folder": "mv a/b e/b",
    "new file": "touch e/f/new",
    "new folder": "mkdir d/new; touch d/new/file",
    "hard link": "ln a/1 d/hard",
    "link for a file": "rm d/5; ln -s ../top d/5",
    "link's target": "ln -sfn a link",
    "link for a folder": "mv a/b ../b; ln -s ../../b a/b",
    "file for a folder": "rm -r a/b; touch a/b",
    "folder for a file": "rm top; mkdir top",
    "FIFO for a file": "rm a/1; mkfifo a/1",
    "copy for a folder": "cp -a d x; rm -r d; mv x d",
    "name that is no text": "echo changed > d/$'\\xff'",
    "nothing": "true",
    "everything": "rm -r ./*",
}


@pytest.mark.parametrize("script", CHANGES.values(), ids=CHANGES)
def test_every_kind_of_change_is_found(script: str, place: Place, helper: SecondWalk) -> None:
    known = place.known()
    before = known if script == "true" else {}
    place.run(script)
    place.age()
    found = place.look(known)
    assert outcome(found) == outcome(place.look_alone(known))
    assert ({path: f for path, f in found.folders.items() if f is known.get(path)} == known) is bool(before)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_changes_are_found_as_by_a_look_alone(seed: int, place: Place, helper: SecondWalk) -> None:
    source = random.Random(seed)
    place.run(random_script(source, steps=20, closes=False))
    for _ in range(4):
        known = place.known()
        place.run(random_script(source, steps=3))
        place.age()
        assert outcome(place.look(known)) == outcome(place.look_alone(known))


def test_no_link_is_followed_on_the_way_nor_at_its_end(place: Place, tmp_path: Path) -> None:
    known = place.known()
    place.run("mv a ../a; ln -s ../a a; mv e/f ../f; ln -s ../../f e/f")
    moved = Place(tmp_path / "f").known()  # its own time of change has come with the move
    os.close(os.open(tmp_path / "f", os.O_RDONLY))
    known["e/f"] = moved["."]
    said = answers(place, known)
    assert (said["a/b"], said["a/b/c"], said["e/f"], said["d"]) == (False, False, False, True)


def test_process_stops_when_it_is_told_to(place: Place) -> None:
    known = place.known()
    assert all(answers(place, known).values())
    assert not any(answers(place, known, told_to_stop=True).values())


def test_process_stops_when_ours_has_ended(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    known, parents = place.known(), iter(range(100))
    monkeypatch.setattr(os, "getppid", lambda: next(parents))
    assert not any(answers(place, known).values())


def test_process_is_told_to_stop_when_the_look_is_over(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, memfd_create = list[int](), os.memfd_create
    monkeypatch.setattr(
        os, "memfd_create", lambda *given: kept.append(memfd_create(*given)) or os.dup(kept[-1])
    )
    known = place.known()
    with helped_by(SecondProcess()):
        place.look(known)
    (memory,) = kept
    try:
        assert os.pread(memory, 1, STOP) == bytes([YES])
        with pytest.raises(PermissionError):
            os.ftruncate(memory, 0)  # whoever reads it then is killed by SIGBUS
    finally:
        os.close(memory)


def test_descriptors_of_the_way_are_closed(place: Place) -> None:
    known = place.known()
    before = len(list(Path("/proc/self/fd").iterdir()))
    answers(place, known)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_hidden_and_left_out_folders_are_not_asked_for(
    place: Place, helper: SecondWalk, monkeypatch: pytest.MonkeyPatch
) -> None:
    known, asked = place.known(), list[bytes]()
    dumps = marshal.dumps
    monkeypatch.setattr(marshal, "dumps", lambda given: asked.append(given[0]) or dumps(given))
    found = place.look(known, hidden=(place.root / "a/b", place.root / "d"), left_out=("e",))
    assert asked == [b".\0a"]
    assert list(found.folders) == [".", "a"]


@pytest.mark.usefixtures("ordinary_user")
def test_folder_that_was_closed_is_looked_at_by_the_look_itself(place: Place, helper: SecondWalk) -> None:
    known = place.known()
    folder = place.root / "a/b"
    folder.chmod(0)
    try:
        found, alone = place.look(known), place.look_alone(known)
        assert folder.stat().st_mode & 0o777 == 0
    finally:
        folder.chmod(0o700)
    assert list(found.folders) == list(alone.folders) == list(known)
    assert found.closed == alone.closed == []


def test_killed_process_is_replaced_at_the_next_look(place: Place, helper: SecondWalk) -> None:
    known = place.known()
    place.look(known)
    for _ in range(second_process.LOSSES_MAX + 2):
        killed = pid_of(helper)
        os.kill(killed, signal.SIGKILL)
        os.waitid(os.P_PID, killed, os.WEXITED | os.WNOWAIT)
        assert place.look(known).folders == known
        assert pid_of(helper) != killed


def test_process_that_is_killed_during_a_look_takes_nothing_with_it(place: Place) -> None:
    class Killed(QuickProcess):
        def ask(self, request: bytes, descriptors: list[int]) -> None:
            assert self._process
            os.kill(self._process.pid, signal.SIGSTOP)
            SecondProcess.ask(self, request, descriptors)
            os.kill(self._process.pid, signal.SIGKILL)

    known = place.known()
    place.run("echo changed > a/1")
    place.age()
    with helped_by(Killed()):
        for _ in range(3):
            assert outcome(place.look(known)) == outcome(place.look_alone(known))


def test_stopped_process_is_not_waited_for_and_replaced_later(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, known = Clock(), place.known()
    monkeypatch.setattr(second_process.time, "monotonic", clock)
    with helped_by(SecondProcess()) as helper:
        assert helper.process.is_free()
        stopped = pid_of(helper)
        os.kill(stopped, signal.SIGSTOP)
        with helper.answers(place.fd, known, hidden=(), left_out=()):
            clock.now += 1_000  # a long look
        clock.now += 1
        assert place.look(known).folders == known
        assert pid_of(helper) == stopped
        clock.now += second_process.PATIENCE_S
        assert place.look(known).folders == known
        assert pid_of(helper) != stopped


SAYS_NONSENSE = """
import os, socket, sys
wire = socket.socket(fileno=int(sys.argv[1]))
while wire.recvmsg(100, 100)[0]:
    wire.send(b"nonsense" * 100)
"""


@pytest.mark.parametrize(
    "program",
    [["/nowhere"], [sys.executable, "-c", "pass"], [sys.executable, "-c", SAYS_NONSENSE]],
    ids=["none", "ends at once", "nonsense"],
)
def test_program_that_is_of_no_use_changes_nothing(program: list[str], place: Place) -> None:
    known = place.known()
    place.run("echo changed > a/1; rm d/5")
    place.age()
    with helped_by(SecondProcess(program)):
        for _ in range(8):
            assert outcome(place.look(known)) == outcome(place.look_alone(known))


@pytest.mark.parametrize("program", [["/nowhere"], [sys.executable, "-c", "pass"]], ids=["none", "ends"])
def test_program_that_never_answers_is_not_started_for_ever(
    program: list[str], place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, popen = [], subprocess.Popen

    def start(*given: object, **named: object) -> "subprocess.Popen[bytes]":
        started.append(given)
        process = popen(*given, **named)  # type: ignore[call-overload]
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        return process

    monkeypatch.setattr(subprocess, "Popen", start)
    known = place.known()
    with helped_by(SecondProcess(program)):
        for _ in range(10):
            place.look(known)
    assert len(started) == second_process.LOSSES_MAX


def test_second_look_at_the_same_time_goes_without(place: Place, helper: SecondWalk) -> None:
    known = place.known()
    ask = {"hidden": (), "left_out": ()}
    with helper.answers(place.fd, known, **ask) as first, helper.answers(place.fd, known, **ask) as second:
        assert first
        assert second is None
    with helper.answers(place.fd, known, **ask) as third:
        assert third


def test_process_that_is_not_done_with_a_look_is_not_asked_again(place: Place) -> None:
    known = place.known()
    with helped_by(SecondProcess()) as helper:
        assert helper.process.is_free()
        os.kill(pid_of(helper), signal.SIGSTOP)
        place.look(known)
        assert not helper.process.is_free()
        os.kill(pid_of(helper), signal.SIGCONT)
        assert helper.process._wire
        assert select.select([helper.process._wire], [], [], END_S)[0]
        assert helper.process.is_free()


@pytest.mark.parametrize("reason", ["small", "one processor"])
def test_process_is_not_started_where_it_is_of_no_use(
    reason: str, place: Place, helper: SecondWalk, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = place.known()
    if reason == "small":
        monkeypatch.setattr(second_walk, "FILES_MIN", len(FILES) + 2)  # and the link
    else:
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    place.look(known)
    assert helper.process.pid is None


def test_without_descriptors_a_look_goes_alone(
    place: Place, helper: SecondWalk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(24, "too many")

    known = place.known()
    alone = outcome(place.look_alone(known))
    monkeypatch.setattr(socket, "socketpair", refuse)
    assert outcome(place.look(known)) == alone
    monkeypatch.undo()
    with helped_by(QuickProcess()), pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "memfd_create", refuse)
        assert outcome(place.look(known)) == alone


OURS = """
import os, sys
from lockstitch.tools.changes import second_walk
process = second_walk.SECOND_WALK.process
assert process.is_free()
print(process.pid, flush=True)
input()
"""


@pytest.mark.parametrize("how", ["end", "kill", "end when it is stopped"])
def test_second_process_ends_with_ours(how: str) -> None:
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-W", "error", "-c", OURS], stdin=pipe, stdout=pipe, stderr=pipe
    ) as ours:
        assert ours.stdin
        assert ours.stdout
        assert ours.stderr
        pid = int(ours.stdout.readline())
        second = os.pidfd_open(pid)
        try:
            if "stopped" in how:
                os.kill(pid, signal.SIGSTOP)
            if how == "kill":
                ours.kill()
            else:
                ours.stdin.write(b"\n")
                ours.stdin.close()
            assert is_gone(second)
        finally:
            os.close(second)
        assert (ours.wait(), ours.stderr.read()) == (-signal.SIGKILL if how == "kill" else 0, b"")


FORKS = """
import os
from lockstitch.tools.changes import second_walk
process = second_walk.SECOND_WALK.process
assert process.is_free()
child = os.fork()
if child == 0:
    os._exit(0 if process.pid is None and process._wire is None else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert process.is_free() and process._process.poll() is None
"""


def test_copy_of_our_process_leaves_the_second_one_alone() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", FORKS],
        capture_output=True,
        text=True,
        timeout=END_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_second_process_has_nothing_of_ours(place: Place, helper: SecondWalk) -> None:
    place.look(place.known())
    own = Path("/proc", str(pid_of(helper)))
    assert os.getsid(pid_of(helper)) == pid_of(helper)
    assert (own / "environ").read_bytes().split(b"=")[0] in {b"", b"LD_LIBRARY_PATH"}
    assert len(list((own / "fd").iterdir())) == 4  # three to nowhere, and its socket
    assert (own / "cwd").readlink() == Path("/")
