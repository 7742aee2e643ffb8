"""What a scan knows of a workspace, folder by folder, and the file of our home where that is kept.

A folder's names, stamps and references are byte strings as long as they are equal to those on the disk:
16,000 files are read in 2 ms, and only what differs is taken apart.
"""

import contextlib
import itertools
import json
import os
import secrets
import stat
import struct
import sys
import zlib
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal, NamedTuple

from lockstitch.tools.changes.scan_stamps import STAMP

UNTRUSTED: Final = -1  # as ctime: no file has it, so the file is read the next time
# A file changed twice within one tick of the clock looks as if it were changed once; ticks are up to 10 ms.
TICK_NS: Final = 20_000_000
COARSE_TICK_NS: Final = 2_000_000_000  # of file systems that keep whole seconds; FAT keeps every other one
_SECOND_NS: Final = 1_000_000_000

KEPT: Final = b"k"  # in the object store, by its sha256
LENT: Final = b"g"  # in the repository's objects, by the sha1 git has for it
LENT_LONG: Final = b"G"  # the same by a sha256, in repositories that use it
LINK: Final = b"l"
UNKNOWN: Final = b"u"  # only that it is there, not what it holds
REF_BYTES: Final = 33  # one of these and 32 bytes

_CODING, _STRAY_BYTES = sys.getfilesystemencoding(), sys.getfilesystemencodeerrors()
_MAGIC: Final = b"lockstitch scan 1\n"
_SUM: Final = struct.Struct("<I")
_ROW: Final = struct.Struct("<7I")  # the lengths of a folder's path and fields


class Folder(NamedTuple):
    """One folder. Names are encoded as the system has them, and joined by NUL.

    Attributes:
        stamp: its own.
        names: of its files and links.
        stamps: theirs, in the same order.
        refs: where the bytes of each are, REF_BYTES each.
        links: the targets of the links among them, in the same order, joined by NUL.
        below: names of its folders.
    """

    stamp: bytes
    names: bytes
    stamps: bytes
    refs: bytes
    links: bytes
    below: bytes


class Entry(NamedTuple):
    """A file or link: its stamp, where its bytes are, and a link's target."""

    stamp: bytes
    ref: bytes
    target: str = ""


@dataclass
class Index:
    """All folders by path, "." being the workspace.

    Attributes:
        copied: bytes of the files that were put into the store only to be known, as a sum over time.
        left_out: paths of ignored folders that are too large.
        closed: paths of folders that could not be read; known at the moment, and not kept on the disk.
    """

    folders: dict[str, Folder] = field(default_factory=dict)
    copied: int = 0
    left_out: frozenset[str] = frozenset()
    closed: frozenset[str] = frozenset()


# Indexes as this process saw their files last, by these: to read one of 16,000 files takes 5 ms.
INDEXES_MAX: Final = 2  # 3 MB each
_Mark = tuple[int, int, int]  # inode, size, and time of change in ns
_indexes: OrderedDict[Path, tuple[_Mark, Index]] = OrderedDict()


def stamp_of(status: os.stat_result, *, trusted: bool = True) -> bytes:
    """The stamp of what was looked at."""
    return STAMP.pack(
        status.st_mode,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns if trusted else UNTRUSTED,
        status.st_ino,
        status.st_dev,
    )


def is_young(ctime_ns: int, now_ns: int) -> bool:
    """Whether what has that ctime could be changed after a look at that moment, and have the same stamp.

    As git has it for files as young as its index. A time that is set by hand is no matter: ctime cannot be.
    """
    tick_ns = TICK_NS if ctime_ns % _SECOND_NS else COARSE_TICK_NS
    return ctime_ns >= now_ns - tick_ns


def distrust(stamp: bytes) -> bytes:
    """The stamp as one that no file has."""
    mode, size, mtime_ns, _, inode, device = STAMP.unpack(stamp)
    return STAMP.pack(mode, size, mtime_ns, UNTRUSTED, inode, device)


def ctime_of(stamp: bytes) -> int:
    """The ctime in nanoseconds."""
    return int(STAMP.unpack(stamp)[3])


def mode_of(stamp: bytes) -> int:
    """The mode with its type."""
    return int(STAMP.unpack(stamp)[0])


def size_of(stamp: bytes) -> int:
    """The size in bytes."""
    return int(STAMP.unpack(stamp)[1])


def ref_of(kind: Literal[b"k", b"g", b"G"], digest: str) -> bytes:
    """A reference by a digest in hex."""
    return (kind + bytes.fromhex(digest)).ljust(REF_BYTES, b"\0")


def bare_ref(kind: Literal[b"l", b"u"]) -> bytes:
    """A reference to no bytes."""
    return kind.ljust(REF_BYTES, b"\0")


def digest_of(ref: bytes) -> str:
    """The digest of a reference in hex: a sha1's 40 digits, else 64."""
    return ref[1:21].hex() if ref[:1] == LENT else ref[1:].hex()


def join_names(names: Iterable[str]) -> bytes:
    """Names as a folder has them."""
    return os.fsencode("\0".join(names))


def split_names(names: bytes) -> list[str]:
    """The names that `join_names` joined."""
    # as os.fsdecode, in half the time
    return names.decode(_CODING, _STRAY_BYTES).split("\0") if names else []


def join_path(folder: str, name: str) -> str:
    """The path of what lies in a folder, "." being the workspace."""
    return name if folder == "." else f"{folder}/{name}"


def pack_folder(stamp: bytes, entries: dict[str, Entry], below: Iterable[str]) -> Folder:
    """A folder with these files and links in it."""
    return Folder(
        stamp,
        join_names(entries),
        b"".join(entry.stamp for entry in entries.values()),
        b"".join(entry.ref for entry in entries.values()),
        join_names(entry.target for entry in entries.values() if entry.ref[:1] == LINK),
        join_names(below),
    )


def unpack_folder(folder: Folder) -> dict[str, Entry]:
    """The files and links of a folder by name."""
    targets = iter(split_names(folder.links))
    found: dict[str, Entry] = {}
    for place, name in enumerate(split_names(folder.names)):
        ref = folder.refs[place * REF_BYTES : (place + 1) * REF_BYTES]
        stamp = folder.stamps[place * STAMP.size : (place + 1) * STAMP.size]
        found[name] = Entry(stamp, ref, next(targets) if ref[:1] == LINK else "")
    return found


def kept_digests(folder: Folder) -> Iterator[str]:
    """The digests of the files in a folder whose bytes are in the object store."""
    refs = folder.refs
    for place, kind in enumerate(refs[::REF_BYTES]):
        if kind == KEPT[0]:
            yield refs[place * REF_BYTES + 1 : (place + 1) * REF_BYTES].hex()


def read_kept_digests(place: Path) -> set[str]:
    """The digests that an index on disk needs: what `ObjectStore.collect` must keep beside the journal's."""
    index = load_index(place)
    return set(itertools.chain.from_iterable(map(kept_digests, index.folders.values()))) if index else set()


def load_index(place: Path) -> Index | None:
    """The index kept there; None where there is none, or one that is damaged or of another version."""
    try:
        mark, known = _mark_of(place.stat()), _indexes.get(place)
        if known and known[0] == mark:
            return replace(known[1])
        data = place.read_bytes()
    except OSError:
        return None
    index = _read_index(data)
    if index:
        _remember(place, mark, index)
    return index


def _read_index(data: bytes) -> Index | None:
    start = len(_MAGIC) + _SUM.size
    if not data.startswith(_MAGIC) or len(data) < start:
        return None
    if _SUM.unpack_from(data, len(_MAGIC))[0] != zlib.crc32(memoryview(data)[start:]):
        return None
    head_end = data.index(b"\n", start)
    head = json.loads(data[start:head_end])
    left_out = frozenset(head["left_out"])  # JSON in ASCII keeps stray bytes of names as surrogates
    return Index(dict(_rows(data, head_end + 1)), head["copied"], left_out)


def save_index(place: Path, index: Index) -> None:
    """Write an index, whole or not at all when this process dies.

    A power cut may damage it: then it is made anew.

    Raises:
        OSError: the home folder cannot be written.
    """
    head = json.dumps({"copied": index.copied, "left_out": sorted(index.left_out)})
    parts = [head.encode("ascii"), b"\n"]
    for path, folder in index.folders.items():
        row = (os.fsencode(path), *folder)
        parts += (_ROW.pack(*map(len, row)), *row)
    body = b"".join(parts)
    draft = place.with_name(f".{place.name}.{secrets.token_hex(8)}.tmp")
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        fd = os.open(
            draft,
            os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0),
            stat.S_IRUSR | stat.S_IWUSR,
        )
        with os.fdopen(fd, "wb") as file:
            file.write(_MAGIC + _SUM.pack(zlib.crc32(body)))
            file.write(body)
            file.flush()
            mark = _mark_of(os.fstat(fd))
        draft.replace(place)
    except BaseException:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise
    _remember(place, mark, index)


def _mark_of(status: os.stat_result) -> _Mark:
    return status.st_ino, status.st_size, status.st_mtime_ns


def _remember(place: Path, mark: _Mark, index: Index) -> None:
    _indexes[place] = mark, Index(index.folders, index.copied, index.left_out)
    if len(_indexes) > INDEXES_MAX:
        _indexes.popitem(last=False)


def _rows(data: bytes, at: int) -> Iterator[tuple[str, Folder]]:
    while at < len(data):
        lengths = _ROW.unpack_from(data, at)
        at += _ROW.size
        fields = []
        for length in lengths:
            fields.append(data[at : at + length])
            at += length
        yield os.fsdecode(fields[0]), Folder(*fields[1:])
