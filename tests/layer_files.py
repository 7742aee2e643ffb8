"""Layers over a workspace, and what a running command has written into one."""

import os
from collections.abc import Iterator
from pathlib import Path

PREFIX = ".lockstitch-layer-"


def layers_below(place: Path) -> Iterator[Path]:
    """All layers there, also while others are being emptied: a folder that goes meanwhile is passed over."""
    for folder, names, _ in os.walk(place):
        found = [name for name in names if name.startswith(PREFIX)]
        yield from (Path(folder, name) for name in found)
        names[:] = [name for name in names if name not in found]


def written(path: Path) -> Path:
    """Where a file that a command makes at the top of a workspace lies now; nowhere as yet, `path` itself."""
    if path.exists():
        return path
    places = [path.parent.parent, Path(os.environ["LOCKSTITCH_HOME"])]
    files = (layer / "upper" / path.name for place in places for layer in layers_below(place))
    return next((file for file in files if file.exists()), path)
