"""Which paths a call names, as policy must see them: as written, and where links lead."""

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from lockstitch.state.errors import ToolValidationError
from lockstitch.state.spill import SPILL_PREFIX
from lockstitch.tools.paths import below_roots
from lockstitch.tools.texts.patch_format import deletes, patch_paths

ARGUMENTS: Final = ("path", "source", "destination")  # what our file tools call a path
PATCH: Final = "patch"  # the argument that holds one


def paths_of(args: Mapping[str, Any]) -> list[str]:
    """The paths in a call's arguments, as they are written. A patch that its tool cannot read has none."""
    named = [args[name] for name in ARGUMENTS if isinstance(args.get(name), str)]
    with contextlib.suppress(ToolValidationError):
        named += patch_paths(args[PATCH]) if isinstance(args.get(PATCH), str) else []
    return [path for path in named if not path.startswith(SPILL_PREFIX)]


def patch_deletes(args: Mapping[str, Any]) -> bool:
    """Whether a patch among the arguments deletes a file."""
    try:
        return isinstance(args.get(PATCH), str) and bool(deletes(args[PATCH]))
    except ToolValidationError:
        return False


def forms(path: str, root: Path) -> set[str]:
    """The path relative to the workspace, as written and resolved; empty for one outside: no tool opens it.

    Waits for the disk.
    """
    try:
        real, real_root = os.path.realpath(root / path), os.path.realpath(root)
    except (OSError, ValueError):  # too long, or with a NUL in it: no tool opens it
        return set()
    written = os.path.normpath(root / path)
    found = {below_roots(written, (str(root), real_root)), below_roots(real, (real_root,))}
    return {form for form in found if form is not None}


def resolved(path: str, root: Path) -> str | None:
    """The path relative to the workspace with its links followed; None outside. Waits for the disk."""
    try:
        return below_roots(os.path.realpath(root / path), (os.path.realpath(root),))
    except (OSError, ValueError):
        return None
