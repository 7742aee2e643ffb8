"""Emptied layers that this process uses again: to make and to delete one takes a command 2 ms.

They lie in the home folder, locked by this process. One that is killed leaves them to `clear_layers`. Nobody
waits until one is empty.
"""

import atexit
import contextlib
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from lockstitch.tools.changes.layer_folder import LAYERS, delete_layer_folder, empty_layer_folder
from lockstitch.tools.commands.hearing import aside

SPARES_MAX: Final = 2  # commands at the same time are few
_spares: Final[list[tuple[Path, int]]] = []  # folders, with their locks
_being_emptied: Final[set[Path]] = set()
_changed: Final = threading.Condition()  # of both


def take_spare(place: Path) -> tuple[Path, int] | None:
    """An empty layer that lies there, and its lock; None when there is none."""
    with _changed:
        found = next((spare for spare in _spares if spare[0].parent == place), None)
        if found is None:
            return None
        _spares.remove(found)
    folder, held = found
    with contextlib.suppress(OSError):  # somebody deleted it
        if os.path.samestat(os.fstat(held), folder.stat()):
            return found
    os.close(held)
    return None


def keep_spare(folder: Path, held: int, replaced: Sequence[int]) -> bool:
    """Empty a layer, whose command is over to its last process, and keep it; False where it has to go.

    Beside a workspace none is left in a person's sight.

    Args:
        folder: the layer's.
        held: its lock.
        replaced: descriptors of files that its own have replaced, to be closed: their bytes are given back.
    """
    with _changed:
        if folder.parent.name != LAYERS or len(_spares) + len(_being_emptied) >= SPARES_MAX:
            return False
        _being_emptied.add(folder)
    try:
        aside(lambda: _empty(folder, held, replaced))
    except RuntimeError:  # this process ends
        with _changed:
            _being_emptied.remove(folder)
        return False
    return True


def wait_for_spares() -> None:
    """Wait until all that are kept are empty."""
    with _changed:
        _changed.wait_for(lambda: not _being_emptied)


@atexit.register
def delete_spares() -> None:
    """Delete all of them."""
    wait_for_spares()
    with _changed:
        while _spares:
            folder, held = _spares.pop()
            with contextlib.suppress(OSError):  # the next process deletes it
                delete_layer_folder(folder)
            os.close(held)


def _empty(folder: Path, held: int, replaced: Sequence[int]) -> None:
    is_empty = False
    try:
        for fd in replaced:
            os.close(fd)
        empty_layer_folder(folder)
        is_empty = True
    except OSError:
        with contextlib.suppress(OSError):  # the next process deletes it
            delete_layer_folder(folder)
    finally:
        with _changed:
            _being_emptied.remove(folder)
            if is_empty:
                _spares.append((folder, held))
            else:
                os.close(held)
            _changed.notify_all()
