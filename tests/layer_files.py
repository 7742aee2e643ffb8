"""A file that a running command has written: in the workspace, or in the layer over it."""

from pathlib import Path


def written(path: Path) -> Path:
    """Where a file that a command makes at the top of a workspace lies now; nowhere as yet, `path` itself.

    The workspace and the home lie side by side.
    """
    if path.exists():
        return path
    layers = path.parent.parent.rglob(f".lockstitch-layer-*/upper/{path.name}")
    return next(layers, path)
