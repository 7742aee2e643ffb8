"""What small files were seen to hold is known by its digest, and takes a bounded memory."""

import hashlib
import os
from pathlib import Path

import pytest

from lockstitch.tools.confined import known_contents
from lockstitch.tools.confined.known_contents import FILE_BYTES_MAX, KnownContents
from lockstitch.tools.confined.tree import Tree


def read(known: KnownContents, path: Path, data: bytes) -> str:
    path.write_bytes(data)
    fd = os.open(path, os.O_RDONLY)
    try:
        return known.read(fd)
    finally:
        os.close(fd)


def test_small_content_is_known_and_a_large_one_is_not(tmp_path: Path) -> None:
    known = KnownContents()
    for size, remembered in ((0, True), (FILE_BYTES_MAX, True), (FILE_BYTES_MAX + 1, False)):
        data = b"x" * size
        digest = read(known, tmp_path / "file", data)
        assert digest == hashlib.sha256(data).hexdigest()
        assert known.get(digest) == (data if remembered else None)


def test_no_more_is_kept_than_there_is_room_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_contents, "ALL_BYTES_MAX", 10)
    known = KnownContents()
    digests = [read(known, tmp_path / "file", bytes([number] * 4)) for number in range(4)]
    assert [known.get(digest) is not None for digest in digests] == [True, True, False, False]


def test_tree_fills_it_with_the_files_it_made_nodes_of(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"some")
    fd, known = os.open(tmp_path, os.O_RDONLY), KnownContents()
    with Tree(fd, known=known) as tree:
        node = tree.node("file")
    os.close(fd)
    assert node
    assert known.get(node.digest) == b"some"
