"""The demo: a small Python project with a bug in it, and a scenario in which the bug is found and fixed."""

import shutil
from pathlib import Path

_HERE = Path(__file__).parent
SCENARIO: Path = _HERE / "scenario.yaml"
PROJECT: Path = _HERE / "project"


def copy_project(destination: Path) -> Path:
    """Copy the demo project to `destination`, which must not exist yet, and return it.

    Raises:
        OSError: the destination exists, or cannot be written.
    """
    # An installer or a test run may have left compiled files beside the sources.
    shutil.copytree(PROJECT, destination, ignore=shutil.ignore_patterns("__pycache__"))
    return destination
