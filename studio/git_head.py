"""Whether git's HEAD has moved: a rewind never touches `.git`, and so says what it leaves."""

import re
from datetime import datetime
from pathlib import Path
from typing import Final

LOG_BYTES_MAX: Final = 256 * 1024  # the end of git's log of HEAD: some 2,000 moves
_MOVED_AT: Final = re.compile(rb" (\d{1,12}) [+-]\d{4}\t")


def moves_of_head(workspace: Path, since: str) -> int:
    """How often HEAD has moved since then, as git's own log tells; 0 where there is none.

    Args:
        workspace: the folder that holds `.git`.
        since: ISO 8601, UTC.
    """
    try:
        moment = datetime.fromisoformat(since).timestamp()
        with (_git_folder(workspace) / "logs" / "HEAD").open("rb") as log:
            log.seek(0, 2)
            log.seek(max(0, log.tell() - LOG_BYTES_MAX))
            times = [int(found[1]) for line in log if (found := _MOVED_AT.search(line))]
    except (OSError, ValueError):
        return 0  # no repository, or one that keeps no log
    return sum(time > moment for time in times)


def _git_folder(workspace: Path) -> Path:
    found = workspace / ".git"
    if found.is_dir():
        return found
    named = found.read_text(encoding="utf-8", errors="surrogateescape")  # of a linked worktree
    return workspace / named.removeprefix("gitdir:").strip()
