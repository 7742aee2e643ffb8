"""Emptied layers that this process uses again: to make and to delete one takes a command 2 ms.

They lie in the home folder, locked by this process. One that is killed leaves them to `clear_layers`.
"""

import atexit
import contextlib
import os
import threading
from pathlib import Path
from typing import Final

from lockstitch.tools.changes.layer_folder import LAYERS, delete_layer_folder, empty_layer_folder

SPARES_MAX: Final = 2  # commands at the same time are few
_spares: Final[list[tuple[Path, int]]] = []  # folders, with their locks
_lock: Final = threading.Lock()


def take_spare(place: Path) -> tuple[Path, int] | None:
    """An empty layer that lies there, and its lock; None when there is none."""
    with _lock:
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


def keep_spare(folder: Path, held: int) -> bool:
    """Empty a layer, whose command is over to its last process, and keep it; False where it has to go.

    Beside a workspace none is left in a person's sight.
    """
    if folder.parent.name != LAYERS or len(_spares) >= SPARES_MAX:
        return False
    try:
        empty_layer_folder(folder)
    except OSError:
        return False
    with _lock:
        if len(_spares) < SPARES_MAX:
            _spares.append((folder, held))
            return True
    return False


@atexit.register
def delete_spares() -> None:
    """Delete all of them."""
    with _lock:
        while _spares:
            folder, held = _spares.pop()
            with contextlib.suppress(OSError):  # the next process deletes it
                delete_layer_folder(folder)
            os.close(held)
