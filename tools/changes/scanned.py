"""A command that writes straight into the workspace: a scan finds what it changed, noted afterwards.

Cut off in the middle, it is never run again unasked; the next look tells what it had changed by then.
"""

import hashlib
import os
from pathlib import Path
from typing import Final

from lockstitch.state.objects import ObjectStore
from lockstitch.tools.changes.call_journal import CallJournal
from lockstitch.tools.changes.commit import Effects
from lockstitch.tools.changes.scan import Baseline, find_changes, known_baseline, take_baseline
from lockstitch.tools.changes.scan_index import read_kept_digests
from lockstitch.tools.context import ToolContext
from lockstitch.tools.paths import ROOT
from lockstitch.tools.workspace import Workspace

SCANS: Final = "scans"  # in our home: what is known of each workspace


def begin_scan(call: ToolContext) -> Baseline | None:
    """The workspace as it is before the command; None where nothing is kept of the run.

    Raises:
        SystemFaultError: the workspace cannot be read, or the home not be written.
    """
    if call.journal is None or call.scans is None or call.discard:
        return None
    with call.workspace.open_folder(ROOT) as root:
        place = place_of(call.workspace.root, call.scans)
        return take_baseline(root, place=place, objects=call.journal.objects, hidden=call.workspace.hidden)


def end_scan(call: ToolContext, baseline: Baseline) -> Effects:
    """What the command changed. All its processes must have ended; ask once.

    Raises:
        SystemFaultError: as `begin_scan`.
    """
    assert call.journal is not None
    return _found(call.workspace, baseline, call.journal.objects)


def found_after_kill(workspace: Workspace, home: Path, objects: ObjectStore) -> Effects | None:
    """What changed since the last command was begun, whoever did it; None where that is not known."""
    baseline = known_baseline(place_of(workspace.root, home), hidden=workspace.hidden)
    return _found(workspace, baseline, objects) if baseline else None


def note_scanned(effects: Effects, journal: CallJournal, *, result: str) -> None:
    """Note what the files have already."""
    if effects.real:
        journal.finish(journal.seal(effects.changes, kind="command", result=result))


def place_of(root: Path, home: Path) -> Path:
    """The file in our home for what is known of that workspace."""
    name = hashlib.sha256(os.fsencode(os.path.realpath(root))).hexdigest()
    return home / SCANS / name[:32]


def _found(workspace: Workspace, baseline: Baseline, objects: ObjectStore) -> Effects:
    with workspace.open_folder(ROOT) as root:
        found = find_changes(root, baseline, objects=objects)
    return Effects(found.changes, found.remarks, {})


def kept_by_scans(home: Path) -> set[str]:
    """The digests that scans need: what `ObjectStore.collect` keeps beside the journal's."""
    folder = home / SCANS
    places = folder.iterdir() if folder.is_dir() else ()
    return {digest for place in places for digest in read_kept_digests(place)}
