"""Bringing an index up to date: only what changed is cut anew, and only new text is encoded.

Files come first, so that words find them at once; vectors follow in batches. Each batch is kept: a build
that was stopped, or ran out of its time, goes on where it was.
"""

import hashlib
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from lockstitch.state.errors import RecoverableError
from lockstitch.tools.code_index.build_lock import hold_index
from lockstitch.tools.code_index.chunking import VERSION, chunks_of
from lockstitch.tools.code_index.encoder import Encoder
from lockstitch.tools.code_index.index_file import MODEL, FileRow, IndexFile
from lockstitch.tools.code_index.kept_tables import keep_tables
from lockstitch.tools.code_index.source_files import list_files, read_source
from lockstitch.tools.workspace import Workspace

FILES_A_CHANGE: Final = 200  # about a second of work, which is what a stop may lose
CHUNKS_A_BATCH: Final = 32  # about half a second
COMPLETE: Final = "complete"  # its word on whether the last build came to its end

Phase = Literal["files", "meaning"]


class Progress(NamedTuple):
    """How far a build is: `done` of `total` files, or of pieces to encode."""

    phase: Phase
    done: int
    total: int


class BuildReport(NamedTuple):
    """What a build did.

    Attributes:
        changed: files cut anew, or taken out.
        encoded: pieces given a vector.
        left_out: files that are binary, generated, too large or unreadable.
        complete: nothing is left to do; False when it was stopped or its time was up.
        replaced_model: whose vectors were there before and were thrown away; empty for none.
    """

    changed: int
    encoded: int
    left_out: int
    complete: bool
    replaced_model: str = ""


def _never() -> bool:
    return False


def _ignore(progress: Progress) -> None:
    """The default where nobody watches."""


@dataclass(frozen=True, kw_only=True)
class Watch:
    """Who looks on: told of progress, asked whether to stop, with a time limit in seconds."""

    tell: Callable[[Progress], None] = _ignore
    is_stopped: Callable[[], bool] = _never
    limit_s: float = math.inf

    def until(self) -> Callable[[], bool]:
        """Whether to end now; the time counts from this call."""
        deadline = time.monotonic() + self.limit_s
        return lambda: self.is_stopped() or time.monotonic() > deadline


def refresh_index(
    index: IndexFile,
    workspace: Workspace,
    encoder: Encoder | None,
    watch: Watch | None = None,
    *,
    is_denied: Callable[[str], bool] | None = None,
) -> BuildReport:
    """Make the index what the workspace's files are, except those that `is_denied` names.

    What is indexed may be sent to an endpoint of embeddings.

    Raises:
        IndexBusyError: another process does.
        ToolExecutionError, ResourceLimitError: the files cannot be listed, or are too many.
        EncoderError: the vectors cannot be had; words find what is there.
        HomeUnusableError, SystemFaultError: the index cannot be written; it is as it was.
    """
    watch = watch or Watch()
    is_over = watch.until()
    with hold_index(index.path):
        replaced = _forget_other_models(index, encoder)
        paths = [path for path in list_files(workspace) if not (is_denied and is_denied(path))]
        changed, complete = _refresh_files(index, workspace, paths, watch=watch, is_over=is_over)
        encoded = 0
        if encoder and complete:
            replaced = replaced or _forget_other_lengths(index, encoder)
            encoded, complete = _encode(index, encoder, watch, is_over)
        if changed and complete:
            index.drop_idle_vectors()
        index.set_meta(COMPLETE, "yes" if complete else "")
        if (changed or encoded) and not watch.is_stopped():
            keep_tables(index, encoder.name if encoder else "", complete=complete)
    return BuildReport(changed, encoded, index.count("left_out"), complete, replaced)


def _forget_other_models(index: IndexFile, encoder: Encoder | None) -> str:
    """Throw vectors away that do not fit, and say whose they were."""
    before = index.meta(MODEL)
    if encoder is None or before == encoder.name:
        return ""
    index.drop_vectors_but(encoder.name)
    index.set_meta(MODEL, encoder.name)
    return before


def _forget_other_lengths(index: IndexFile, encoder: Encoder) -> str:
    """The same where an endpoint has another model under the old name; looks only before it encodes."""
    width = index.width(encoder.name)
    if not width or not index.without_vector(encoder.name):
        return ""
    if len(encoder.embeddings.embed_query(encoder.name)) == width:
        return ""
    index.drop_vectors_but("")
    return encoder.name


def _refresh_files(
    index: IndexFile,
    workspace: Workspace,
    paths: Sequence[str],
    *,
    watch: Watch,
    is_over: Callable[[], bool],
) -> tuple[int, bool]:
    """Cut what changed; how many files that were, and whether all were looked at."""
    known = index.files()
    gone = sorted(known.keys() - set(paths))
    if gone:
        with index.change():
            index.drop_files(gone)
    changed = len(gone)
    stale = [(path, stamp) for path in paths if _is_stale(known.get(path), stamp := _stamp(workspace, path))]
    for start in range(0, len(stale), FILES_A_CHANGE):
        watch.tell(Progress("files", start, len(stale)))
        if is_over():
            return changed, False
        changed += _put_files(index, workspace, stale[start : start + FILES_A_CHANGE], known)
    watch.tell(Progress("files", len(stale), len(stale)))
    return changed, True


def _put_files(
    index: IndexFile, workspace: Workspace, batch: Sequence[tuple[str, str]], known: dict[str, FileRow]
) -> int:
    """Read and cut these files, then write them as one change; how many have other content than before."""
    found = []
    for path, stamp in batch:
        text = read_source(workspace, path) if stamp else None
        content = "" if text is None else _hash(text)
        same = path in known and known[path].hash == content
        found.append((path, stamp, content, None if same else chunks_of(path, text) if text else []))
    new = [row for row in found if row[3] is not None]
    if new:
        with index.change():
            for path, stamp, content, chunks in new:
                index.put_file(path, stamp=stamp, content_hash=content, chunks=chunks or ())
    for path, stamp, _, chunks in found:
        if chunks is None:
            index.touch_file(path, stamp)
    return len(new)


def _is_stale(row: FileRow | None, stamp: str) -> bool:
    return row is None or row.stamp != stamp


def _stamp(workspace: Workspace, path: str) -> str:
    """A file's look from outside: it changes with every write, and with how files are cut."""
    try:
        entry = workspace.entry(path)
    except RecoverableError:
        return ""
    if entry is None or entry.kind != "file":  # links are left out: what they lead to is indexed itself
        return ""
    return f"{VERSION}:{entry.size}:{entry.mtime_ns}"


def _encode(
    index: IndexFile, encoder: Encoder, watch: Watch, is_over: Callable[[], bool]
) -> tuple[int, bool]:
    """Give every piece a vector; how many got one, and whether all have."""
    import numpy as np

    missing = index.without_vector(encoder.name)
    for start in range(0, len(missing), CHUNKS_A_BATCH):
        watch.tell(Progress("meaning", start, len(missing)))
        if is_over():
            return start, False
        batch = [
            chunk for number in missing[start : start + CHUNKS_A_BATCH] if (chunk := index.chunk(number))
        ]
        vectors = encoder.embeddings.embed_documents([chunk.sense for chunk in batch])
        index.put_vectors(encoder.name, batch, np.asarray(vectors, dtype=np.float32))
    watch.tell(Progress("meaning", len(missing), len(missing)))
    return len(missing), True


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
