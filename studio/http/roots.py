"""The allowed roots: below which folders a client may have a run work."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from lockstitch.studio.http.problems import RefusedError

OUTSIDE: Final = "The folder lies outside of those this server may work in: start it with --allow-root."


def allowed_folder(path: str, roots: Sequence[Path], *, field: str = "workspace") -> Path:
    """The folder without links; looks at the disk.

    Outside of the roots every path gets the same words, so that none tells what lies there.

    Raises:
        RefusedError: it lies outside of the allowed roots, or is no folder.
    """
    folder, is_folder = None, False
    with suppress(OSError, RuntimeError, ValueError):  # a name too long, a loop of links, a NUL byte
        folder = Path(path).expanduser().resolve()
        is_folder = folder.is_dir()
    if folder is None or not any(folder.is_relative_to(root) for root in roots):
        raise RefusedError(403, "outside", OUTSIDE, field=field)
    if not is_folder:
        raise RefusedError(400, "invalid", "There is no such folder.", field=field)
    return folder


def new_folder(path: str, roots: Sequence[Path], *, field: str = "workspace") -> Path:
    """A place for a folder to be made, without links; looks at the disk.

    Raises:
        RefusedError: it lies outside of the allowed roots, or in no folder there is.
    """
    try:
        folder = Path(path).expanduser().resolve()
    except (OSError, RuntimeError, ValueError):
        raise RefusedError(403, "outside", OUTSIDE, field=field) from None
    allowed_folder(str(folder.parent), roots, field=field)
    if folder in roots:
        raise RefusedError(400, "invalid", "It is no new folder.", field=field)
    return folder
