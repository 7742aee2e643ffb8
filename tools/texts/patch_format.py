"""Reading a patch: which format it is in, what it does to which file. Touches no disk."""

from typing import Final

from lockstitch.state.errors import ToolValidationError
from lockstitch.tools.texts.patch_envelope import BEGIN, HEADERS, parse_envelope
from lockstitch.tools.texts.patch_hunk import FilePatch
from lockstitch.tools.texts.patch_unified import parse_unified

FENCE: Final = "```"  # that models like to put around a patch; no line of one begins so
FILES_MAX: Final = 200  # of one patch: each holds a folder open while the patch is written


def parse_patch(text: str) -> list[FilePatch]:
    """What a patch does, file by file in its own order.

    Args:
        text: the `*** Begin Patch` envelope, or a unified diff with or without git's headers.

    Raises:
        ToolValidationError: it is neither, is cut off, or names too many files.
    """
    lines = [line for line in text.replace("\r\n", "\n").split("\n") if not line.startswith(FENCE)]
    files = parse_envelope(lines) if _is_envelope(lines) else parse_unified(lines)
    if not files:
        raise ToolValidationError(
            "the patch changes no file: write it between *** Begin Patch and *** End Patch, or as a unified "
            "diff with --- and +++ lines."
        )
    if len(files) > FILES_MAX:
        raise ToolValidationError(f"the patch has {len(files)} files, the limit is {FILES_MAX}: split it.")
    return files


def patch_paths(text: str) -> list[str]:
    """Every path a patch touches, as it writes them, each once; the destinations of moves too.

    Raises:
        ToolValidationError: as `parse_patch`.
    """
    named = (path for file in parse_patch(text) for path in (file.path, file.move_to))
    return list(dict.fromkeys(path for path in named if path is not None))


def deletes(text: str) -> list[str]:
    """The paths that a patch deletes, as it writes them. A moved file is not among them.

    Raises:
        ToolValidationError: as `parse_patch`.
    """
    return [file.path for file in parse_patch(text) if file.action == "delete"]


def _is_envelope(lines: list[str]) -> bool:
    """By whichever of the two comes first."""
    for line in lines:
        if line.strip() == BEGIN or line.strip().startswith(HEADERS):
            return True
        if line.startswith(("diff --git ", "--- ")):
            return False
    return False
