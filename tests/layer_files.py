"""A file that a running command has written: in the workspace, or in the layer over it."""

import os
from pathlib import Path


def written(path: Path) -> Path:
    """Where a file that a command makes at the top of a workspace lies now; nowhere as yet, `path` itself."""
    if path.exists():
        return path
    places = [path.parent.parent, Path(os.environ["LOCKSTITCH_HOME"])]
    layers = (found for place in places for found in place.rglob(f".lockstitch-layer-*/upper/{path.name}"))
    return next(layers, path)
