"""Archives taken apart and put together again for tests, also such as no export writes."""

import hashlib
import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import zstandard

Members = dict[str, bytes]


def members_of(path: Path) -> Members:
    """All members but the manifest, by any tar's reading."""
    with tarfile.open(fileobj=io.BytesIO(_unpacked(path))) as tar:
        found = {entry.name: tar.extractfile(entry) for entry in tar}
    return {name: file.read() for name, file in found.items() if file and name != "manifest.json"}


def manifest_of(path: Path) -> dict[str, Any]:
    with tarfile.open(fileobj=io.BytesIO(_unpacked(path))) as tar:
        file = tar.extractfile("manifest.json")
        assert file is not None
        return dict(json.load(file))


def rewrite(path: Path, edit: Callable[[Members], None]) -> None:
    """Change members and let the manifest say so: an archive that somebody made on purpose."""
    members, manifest = members_of(path), manifest_of(path)
    edit(members)
    manifest["members"] = [[name, len(data), sha256(data)] for name, data in members.items()]
    write(path, manifest, [(plain(name, data), data) for name, data in members.items()])


def write(path: Path, manifest: Any, entries: list[tuple[tarfile.TarInfo, bytes]]) -> None:
    """An archive of whatever is given."""
    data = json.dumps(manifest).encode()
    out = io.BytesIO()
    for entry, content in [(plain("manifest.json", data), data), *entries]:
        out.write(entry.tobuf(tarfile.USTAR_FORMAT))
        out.write(content + bytes(-len(content) % tarfile.BLOCKSIZE))
    out.write(bytes(1024))
    path.write_bytes(zstandard.ZstdCompressor().compress(out.getvalue()))


def plain(name: str, data: bytes) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size = len(data)
    return entry


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _unpacked(path: Path) -> bytes:
    with path.open("rb") as file:
        return zstandard.ZstdDecompressor().stream_reader(file).read()
