"""The file that a thread is exported to: a tar of plain files, compressed with zstd, its manifest first.

Why not zip: versions of one file lie beside each other in one stream, so a hundred of them take little more
room than one (100 of 1 MB: 0.3 MB, as a zip 30 MB). The manifest lists every member with
its size and sha256, and the reader takes exactly those, in that order: no link, no path, no member twice.
"""

import hashlib
import json
import os
import re
import secrets
import tarfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from lockstitch.state.errors import SystemFaultError, UsageError

if TYPE_CHECKING:
    from zstandard import ZstdDecompressionReader

FORMAT: Final = "lockstitch-thread"
VERSION: Final = 1  # of what the archive holds and how; a reader refuses a greater one
MANIFEST: Final = "manifest.json"
FILE_MODE: Final = 0o600  # an archive holds a whole conversation
LEVEL: Final = 3  # of zstd, its default: 170 MB/s; 9 is a ninth smaller and seven times slower
WINDOW_LOG: Final = 27  # 128 MB: how far back a content may be like another; more is refused by every zstd
PIECE_BYTES: Final = 1024 * 1024  # of one step of a stream
MANIFEST_BYTES_MAX: Final = 64 * 1024 * 1024  # held in memory; 200,000 members take 30 MB
MEMBERS_MAX: Final = 200_000
UNPACKED_BYTES_MAX: Final = 32 * 1024**3  # beyond any thread: what claims more is a bomb
_BLOCK: Final = tarfile.BLOCKSIZE
_END: Final = bytes(2 * _BLOCK)
_NAME: Final = re.compile(r"[a-z]+\.jsonl?|spill/[0-9a-f]{16}|objects/[0-9a-f]{64}")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_MEMBER: Final = 3  # name, size, sha256


@dataclass(frozen=True)
class Member:
    """One file of the archive: its name, its bytes, and the sha256 of them."""

    name: str
    size: int
    digest: str


Pieces = Callable[[], Iterable[bytes]]  # the content of a member, the same each time


def describe_member(name: str, pieces: Pieces) -> Member:
    """The member that holds these pieces."""
    seen, size = hashlib.sha256(), 0
    for piece in pieces():
        seen.update(piece)
        size += len(piece)
    return Member(name, size, seen.hexdigest())


def write_archive(path: Path, head: dict[str, Any], members: list[tuple[Member, Pieces]]) -> int:
    """Write an archive, whole or not at all, in the place of a file of that name; its bytes.

    Args:
        path: of the file.
        head: what the manifest says beside format, version and members.
        members: in the order in which they are read.

    Raises:
        UsageError: the thread is larger than an archive can be, or the folder cannot be written.
        SystemFaultError: a content is another one than a moment ago.
    """
    if len(members) > MEMBERS_MAX or sum(member.size for member, _ in members) > UNPACKED_BYTES_MAX:
        raise UsageError("the thread is too large for one archive: clear or prune some of it first.")
    listed = [[member.name, member.size, member.digest] for member, _ in members]
    manifest = json.dumps({"format": FORMAT, "version": VERSION, **head, "members": listed}).encode()
    first = Member(MANIFEST, len(manifest), hashlib.sha256(manifest).hexdigest())
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with _file_faults(path), _private_file(draft) as file:
            _write(file, [(first, lambda: [manifest]), *members])
            file.flush()
            os.fsync(file.fileno())
            size = file.tell()
            draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    return size


class ArchiveReader:
    """An open archive whose manifest was read. Made by `open_archive`.

    Attributes:
        head: all of the manifest but format, version and members.
        members: in their order.
    """

    def __init__(self, stream: "ZstdDecompressionReader") -> None:
        """Read the manifest.

        Raises:
            UsageError: it is none of ours, of a newer version, or damaged.
        """
        self._stream = stream
        size = self._header(MANIFEST, None)
        if size > MANIFEST_BYTES_MAX:
            raise damaged("its manifest is too large")
        self.head, self.members = _parse_manifest(b"".join(self._content(size)))

    def contents(self) -> Iterator[tuple[Member, Iterator[bytes]]]:
        """Each member with its pieces, which must be read to their end before the next.

        Raises:
            UsageError: the file ends early, holds something else than its manifest says, or more.
        """
        for member in self.members:
            self._header(member.name, member.size)
            yield member, self._checked(member)
        while rest := self._read(PIECE_BYTES):
            if rest.strip(b"\0"):
                raise damaged("it holds more than its manifest says")

    def _checked(self, member: Member) -> Iterator[bytes]:
        seen = hashlib.sha256()
        for piece in self._content(member.size):
            seen.update(piece)
            yield piece
        if seen.hexdigest() != member.digest:
            raise damaged(f"{member.name} is not what the manifest says")

    def _header(self, name: str, size: int | None) -> int:
        """Read the header of the member that must come next; its size."""
        block = self._exactly(_BLOCK)
        try:
            found = tarfile.TarInfo.frombuf(block, "utf-8", "strict")
        except (tarfile.HeaderError, ValueError) as error:
            raise damaged("a header in it cannot be read") from error
        if found.type != tarfile.REGTYPE or found.name != name or size not in (None, found.size):
            raise damaged("it holds something else than its manifest says")
        return found.size

    def _content(self, size: int) -> Iterator[bytes]:
        padding = -size % _BLOCK
        while size:
            piece = self._exactly(min(size, PIECE_BYTES))
            size -= len(piece)
            yield piece
        self._exactly(padding)

    def _exactly(self, size: int) -> bytes:
        pieces: list[bytes] = []
        while size:
            piece = self._read(size)
            if not piece:
                raise damaged("it ends early, as a copy that was cut off does")
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)

    def _read(self, size: int) -> bytes:
        import zstandard

        try:
            return self._stream.read(size)
        except zstandard.ZstdError as error:
            raise damaged("it is no zstd stream, or not whole") from error
        except OSError as error:
            raise damaged(f"it cannot be read: {(error.strerror or 'unknown error').lower()}") from error


@contextmanager
def open_archive(path: Path) -> Iterator[ArchiveReader]:
    """The archive at `path`.

    Raises:
        UsageError: it cannot be read, is none of ours, of a newer version, or damaged.
    """
    import zstandard

    with _file_faults(path):
        file = path.open("rb")
    with file:
        yield ArchiveReader(zstandard.ZstdDecompressor(max_window_size=1 << WINDOW_LOG).stream_reader(file))


def damaged(what: str) -> UsageError:
    """The one wording for an archive that cannot be trusted."""
    return UsageError(
        f"the archive cannot be used: {what}. Nothing was imported; export the thread again, or copy the "
        "file anew."
    )


def _parse_manifest(data: bytes) -> tuple[dict[str, Any], list[Member]]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise damaged("its manifest is no JSON") from error
    if not isinstance(found, dict) or found.pop("format", None) != FORMAT:
        raise damaged("it is no archive of a thread")
    version, listed = found.pop("version", None), found.pop("members", None)
    if isinstance(version, int) and version > VERSION:
        raise UsageError(
            f"the archive was written by a newer Lockstitch (format {version}, here {VERSION}). "
            "Upgrade with `pip install --upgrade lockstitch`."
        )
    if version != VERSION or not isinstance(listed, list) or len(listed) > MEMBERS_MAX:
        raise damaged("its manifest does not fit")
    members = [_parse_member(row) for row in listed]
    if len({member.name for member in members}) < len(members):
        raise damaged("a member is in it twice")
    if sum(member.size for member in members) > UNPACKED_BYTES_MAX:
        raise damaged(f"it says it holds more than {UNPACKED_BYTES_MAX // 1024**3} GB")
    return found, members


def _parse_member(row: Any) -> Member:
    if not (isinstance(row, list) and len(row) == _MEMBER):
        raise damaged("its manifest does not fit")
    name, size, digest = row
    fits = isinstance(name, str) and isinstance(digest, str) and type(size) is int and size >= 0
    if not (fits and _NAME.fullmatch(name) and _DIGEST.fullmatch(digest)):
        raise damaged("a member's name, size or digest is none of ours")
    return Member(name, size, digest)


def _write(file: IO[bytes], members: Iterable[tuple[Member, Pieces]]) -> None:
    import zstandard

    parameters = zstandard.ZstdCompressionParameters.from_level(
        LEVEL, window_log=WINDOW_LOG, enable_ldm=True, write_checksum=True
    )
    compressor = zstandard.ZstdCompressor(compression_params=parameters)
    with compressor.stream_writer(file, closefd=False) as stream:
        for member, pieces in members:
            about = tarfile.TarInfo(member.name)
            about.size, about.mode = member.size, FILE_MODE
            stream.write(about.tobuf(tarfile.USTAR_FORMAT))
            seen, size = hashlib.sha256(), 0
            for piece in pieces():
                seen.update(piece)
                size += len(piece)
                stream.write(piece)
            if (size, seen.hexdigest()) != (member.size, member.digest):
                raise SystemFaultError(f"{member.name} of the thread was changed meanwhile: export it again.")
            stream.write(bytes(-size % _BLOCK))
        stream.write(_END)


@contextmanager
def _private_file(path: Path) -> Iterator[IO[bytes]]:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE), "wb") as file:
        yield file


@contextmanager
def _file_faults(path: Path) -> Iterator[None]:
    """Tell the system's refusals of the archive's own file in our words."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"{path}: {(error.strerror or 'it cannot be used').lower()}.") from error
