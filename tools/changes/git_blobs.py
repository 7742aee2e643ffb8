"""The contents that a git repository has anyway, so that unchanged files of a checkout need no copy of ours.

The repository may be hostile: nothing that its configuration names is run, nothing is written or fetched, and
what git gives is believed only by its hash.
"""

import hashlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final, NamedTuple

from lockstitch.state.errors import ToolExecutionError
from lockstitch.tools.commands.process import folder_path

ANSWER_S: Final = 60.0  # for one question; git lists 500,000 files a second
PIECE_BYTES: Final = 1024 * 1024  # of one read
SHA1_CHARS: Final = 40  # of an id in hex; repositories with sha256 have 64
_FILES: Final = frozenset({b"100644", b"100755"})
# Attributes by which a file and its blob differ, also where they have the same length. What `text`, `eol` and
# `ident` do is seen in the length.
_CONVERTING: Final = ("filter", "working-tree-encoding")
_PLAIN: Final = frozenset({b"unspecified", b"unset"})
# One row of `ls-files --stage --debug -z`. Git may change what --debug shows: then there are no times.
_ROW: Final = re.compile(
    rb"(\d{6}) ([0-9a-f]{40,64}) ([0-3])\t([^\0]+)\0"
    rb"(?:  ctime: (\d+):(\d+)\n  mtime: (\d+):(\d+)\n  dev: \d+\tino: (\d+)\n.*\n  size: (\d+)\t.*\n)?"
)
_OPTIONS: Final = (
    *("--no-pager", "--no-optional-locks"),
    *("-c", "core.fsmonitor=false"),
    *("-c", "core.hooksPath=/dev/null"),
    *("-c", "safe.bareRepository=explicit"),
)
_ENVIRONMENT: Final = {
    "PATH": os.defpath,
    "LC_ALL": "C",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_REPLACE_OBJECTS": "1",  # a blob by its id, and no other in its place
    "GIT_NO_LAZY_FETCH": "1",  # a partial clone would fetch what is missing, by a program of its choice
    "GIT_ALLOW_PROTOCOL": "none",  # the same for a git that does not know that variable
}


class Times(NamedTuple):
    """What git's index remembers of a file, as the file system told it; inode and size modulo 2**32."""

    ctime_ns: int
    mtime_ns: int
    inode: int
    size: int


class Tracked(NamedTuple):
    """A file of the index.

    Attributes:
        blob: its id.
        times: None where they prove nothing, as those of a file younger than the index.
    """

    blob: str
    times: Times | None


class GitBlobs:
    """The repository that a folder lies in. Waits for git: call it from a worker thread.

    Every method raises ToolExecutionError where git does not answer: its contents then count as not there.
    """

    def __init__(self, program: str, root: int) -> None:
        """`program` is git, `root` the folder's descriptor, which stays the caller's."""
        self._program = program
        self._root = root

    def tracked(self) -> dict[str, Tracked]:
        """The files of the index below the folder, by their path from there."""
        place = os.fsdecode(self._answer("rev-parse", "--git-path", "index").removesuffix(b"\n"))
        if not place:
            return {}
        try:
            index_ns = os.stat(os.path.join(folder_path(self._root), place)).st_mtime_ns  # noqa: PTH116,PTH118
        except OSError as error:
            raise _silent() from error
        found: dict[str, Tracked] = {}
        for row in _ROW.finditer(self._answer("ls-files", "-z", "--stage", "--debug")):
            mode, blob, stage, path, *times = row.groups()
            if mode in _FILES and stage == b"0":
                found[os.fsdecode(path)] = Tracked(blob.decode(), _times(times, index_ns))
        return found

    def converted(self, paths: Iterable[str]) -> set[str]:
        """Those of the paths whose files git may have made of other bytes than its own."""
        listed = "".join(f"{path}\0" for path in paths)
        answer = self._answer("check-attr", "-z", "--stdin", *_CONVERTING, given=listed)
        fields = answer.split(b"\0")
        rows = zip(fields[0::3], fields[2::3], strict=False)
        return {os.fsdecode(path) for path, value in rows if value not in _PLAIN}

    def sizes(self, blobs: Iterable[str]) -> dict[str, int]:
        """The lengths of the blobs that are there."""
        listed = "".join(f"{blob}\n" for blob in blobs)
        wanted = "--batch-check=%(objectname) %(objecttype) %(objectsize)"
        answer = self._answer("cat-file", "--buffer", wanted, given=listed)
        rows = (line.split() for line in answer.splitlines())
        return {row[0].decode(): int(row[2]) for row in rows if len(row) == 3 and row[1] == b"blob"}

    def contents(self, blobs: Iterable[str]) -> Iterator[tuple[str, IO[bytes]]]:
        """Those of the blobs that are there and sound, each as an open file, to be used before the next."""
        listed = "".join(f"{blob}\n" for blob in blobs)
        with self._started("cat-file", "--buffer", "--batch", given=listed) as output:
            while header := output.readline():
                fields = header.split()
                if len(fields) != 3 or not fields[2].isdigit():
                    continue  # `<id> missing`
                with tempfile.TemporaryFile() as copy:
                    _copy(output, copy, int(fields[2]))
                    blob = fields[0].decode()
                    if fields[1] == b"blob" and blob_id(copy.fileno(), chars=len(blob)) == blob:
                        yield blob, copy

    def _answer(self, *arguments: str, given: str = "") -> bytes:
        with self._started(*arguments, given=given) as output:
            return output.read()

    @contextmanager
    def _started(self, *arguments: str, given: str) -> Iterator[IO[bytes]]:
        """What git prints; not reaching its good end is an error, unless the reader failed first."""
        with tempfile.TemporaryFile() as questions:
            questions.write(os.fsencode(given))
            questions.seek(0)
            try:
                process = subprocess.Popen(
                    [self._program, *_OPTIONS, *arguments],
                    cwd=folder_path(self._root),
                    env=_ENVIRONMENT | {"HOME": os.path.expanduser("~")},  # noqa: PTH111  whose attributes count
                    stdin=questions,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
            except OSError as error:
                raise _silent() from error
        alarm = threading.Timer(ANSWER_S, _end, [process])
        alarm.start()
        with process:
            try:
                assert process.stdout is not None
                yield process.stdout
                if process.wait() != 0:
                    raise _silent()
            finally:
                alarm.cancel()
                _end(process)


def open_git(root: int) -> GitBlobs | None:
    """The system's git for a folder; None when there is none, or only one within the folder."""
    found = shutil.which("git")
    folder = os.path.realpath(folder_path(root))
    if found is None or not Path(found).is_absolute() or Path(found).resolve().is_relative_to(folder):
        return None
    return GitBlobs(found, root)


def blob_id(fd: int, *, chars: int = SHA1_CHARS) -> str:
    """Git's id for the bytes of an open file, of so many hex digits; its position is left alone."""
    name = "sha1" if chars == SHA1_CHARS else "sha256"
    digest = hashlib.new(name, b"blob %d\0" % os.fstat(fd).st_size, usedforsecurity=False)
    offset = 0
    while piece := os.pread(fd, PIECE_BYTES, offset):
        digest.update(piece)
        offset += len(piece)
    return digest.hexdigest()


def _times(fields: list[bytes | None], index_ns: int) -> Times | None:
    numbers = [int(field) for field in fields if field is not None]
    if len(numbers) != len(fields):
        return None
    ctime_s, ctime_ns, mtime_s, mtime_ns, inode, size = numbers
    times = Times(ctime_s * 10**9 + ctime_ns, mtime_s * 10**9 + mtime_ns, inode, size)
    # git's own rule for a file that may have been changed in the moment in which the index was written
    return times if times.mtime_ns < index_ns else None


def _copy(output: IO[bytes], copy: IO[bytes], size: int) -> None:
    left = size
    while left:
        piece = output.read(min(left, PIECE_BYTES))
        if not piece:
            raise _silent()
        copy.write(piece)
        left -= len(piece)
    output.read(1)  # the newline after each
    copy.flush()


def _silent() -> ToolExecutionError:
    return ToolExecutionError("git cannot read this repository.")


def _end(process: "subprocess.Popen[bytes]") -> None:
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
