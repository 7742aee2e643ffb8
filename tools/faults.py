"""What the operating system refuses, in words a model can act on."""

import errno
import os
from collections.abc import Iterable
from difflib import get_close_matches
from heapq import nsmallest
from typing import Final

from lockstitch.state.errors import RecoverableError, ToolExecutionError
from lockstitch.tools.confined.confinement import FOLDER, Confinement
from lockstitch.tools.paths import ROOT, escape, shown

NEAR_NAMES: Final = 3  # suggestions; more are a listing
NAMES_COMPARED: Final = 1_000  # each takes 20 us; in a larger folder names of about the same length go first
NEARNESS: Final = 0.5  # difflib's ratio: one wrong letter of four still counts

_WORDS: Final = {
    errno.EACCES: "there is no permission for {path}. Take another, or change its mode by run_command.",
    errno.EPERM: "there is no permission for {path}. Take another, or change its mode by run_command.",
    errno.EISDIR: "{path} is a folder and no file: list_directory shows it.",
    errno.ENOTDIR: "{path}, or a folder in it, is a file and no folder: read_file reads a file.",
    errno.EEXIST: "{path} is there already: choose another name.",
    errno.ENOTEMPTY: "{path} is a folder with something in it.",
    errno.ENAMETOOLONG: "the name is too long for this file system: choose a shorter one.",
    errno.ELOOP: "the links of {path} lead in a circle, or changed while they were followed.",
    errno.ENOSPC: "the disk is full: nothing was changed. Free some space, or ask the person to.",
    errno.EDQUOT: "the disk quota is used up: nothing was changed. Ask the person for space.",
    errno.EROFS: "the file system of {path} is read-only.",
    errno.ENXIO: "{path} is no regular file.",
    errno.EINVAL: "{path} cannot be used so: a folder does not go into itself, and some names are none.",
    errno.EBUSY: "{path} is in use, perhaps as a mount point.",
    errno.ETXTBSY: "{path} is a program that is running.",
    errno.EBADF: "the workspace was closed meanwhile: the call was given up.",
}


def explain(error: OSError, path: str, siblings: Iterable[str] = ()) -> RecoverableError:
    """The error to raise for `error`, which met the relative `path`.

    Args:
        error: of a call below the workspace's root.
        path: as the model knows it.
        siblings: names that exist where the first missing part was looked for.
    """
    if error.errno == errno.EXDEV:
        return escape(path)
    if error.errno == errno.ENOENT:
        return ToolExecutionError(_missing(path, siblings))
    words = _WORDS.get(error.errno or 0)
    if words is None:
        return ToolExecutionError(f"{shown(path)}: {os.strerror(error.errno or 0).lower()}.")
    return ToolExecutionError(words.format(path=shown(path)))


def _missing(path: str, siblings: Iterable[str]) -> str:
    folder, _, name = path.rpartition("/")
    likely = nsmallest(NAMES_COMPARED, siblings, key=lambda found: abs(len(found) - len(name)))
    near = get_close_matches(name, likely, n=NEAR_NAMES, cutoff=NEARNESS)
    if not near:
        return f"there is no {shown(path)}. list_directory or grep_files finds what there is."
    paths = ", ".join(shown(f"{folder}/{found}" if folder else found) for found in near)
    return f"there is no {shown(path)}. Did you mean {paths}?"


def first_missing(place: Confinement, path: str) -> tuple[str, list[str]]:
    """The shortest part of the path that is missing, and the names beside it."""
    parts = path.split("/")
    for count in range(1, len(parts) + 1):
        try:
            fd = place.open("/".join(parts[: count - 1]) or ROOT, FOLDER)
        except OSError:
            break
        try:
            with os.scandir(fd) as found:
                names = [item.name for item in found]
        finally:
            os.close(fd)
        if parts[count - 1] not in names:
            return "/".join(parts[:count]), names
    return path, []
