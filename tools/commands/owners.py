"""Whose the files of a workspace are: a command in a namespace of users cannot change those of others."""

import os
import stat
from pathlib import Path


def find_foreign(root: Path) -> Path | None:
    """The first found that a command in an overlay could not change or delete; None when it can change all.

    Its namespace of users knows one user and one group, ours: whatever has another owner or group, as a
    folder shared by a group has, it refuses to copy up (EOVERFLOW). Looks at every file, 8 us each: once a
    run, not once a command. Where `sandbox_view` makes no such namespace there is nothing to find.
    """
    mine = (os.geteuid(), os.getegid())
    top = root.stat()
    if mine[0] == 0 and top.st_uid != 0:
        return None
    if (top.st_uid, top.st_gid) != mine:
        return root
    left = [os.fspath(root)]
    while left:
        try:
            with os.scandir(left.pop()) as entries:
                for entry in entries:
                    status = entry.stat(follow_symlinks=False)
                    if (status.st_uid, status.st_gid) != mine:
                        return Path(entry.path)
                    if stat.S_ISDIR(status.st_mode):
                        left.append(entry.path)
        except (
            FileNotFoundError,
            PermissionError,
        ):  # deleted meanwhile; or closed to us, and so to the command
            continue
    return None
