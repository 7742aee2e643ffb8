"""The mounts this process sees, as Linux lists them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

MOUNTS: Final = Path("/proc/self/mountinfo")


@dataclass(frozen=True)
class Mount:
    """One mount; `device` is major and minor number with a colon between, `kind` the file system's name."""

    point: Path
    device: str
    kind: str


def read_mounts() -> Sequence[Mount]:
    """All of them, in the order they were made (proc_pid_mountinfo(5)).

    Raises:
        OSError: this is no Linux, or /proc is missing.
    """
    return _parsed(read_mount_table())


def read_mount_table() -> str:
    """All that Linux tells of them; another one if any of them is.

    Raises:
        OSError: this is no Linux, or /proc is missing.
    """
    return MOUNTS.read_text("utf-8", "surrogateescape")


@lru_cache(maxsize=1)  # they hardly ever change: to parse them takes five times as long as to read them
def _parsed(text: str) -> tuple[Mount, ...]:
    return tuple(_mount(*line.split(" - ", 1)) for line in text.splitlines())


def _mount(place: str, system: str) -> Mount:
    _, _, device, _, point, *_ = place.split(" ")
    if "\\" in point:
        point = re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), point)
    return Mount(Path(point), device, system.partition(" ")[0])
