"""The pid of a command's process as we see it: in a sandbox it has another one for itself."""

from pathlib import Path

PROC = Path("/proc")


def outer_pid(inner: int, folder: Path) -> int:
    """Of the process that calls itself `inner` and works in `folder`; the same where nothing hides it."""
    for process in PROC.iterdir() if PROC.is_dir() else ():
        if process.name.isdecimal() and _is_it(process, inner, folder):
            return int(process.name)
    return inner


def _is_it(process: Path, inner: int, folder: Path) -> bool:
    try:
        told = (process / "status").read_text()
        works_in = (process / "cwd").readlink()
    except OSError:  # it has ended
        return False
    numbers = next((line.split() for line in told.splitlines() if line.startswith("NSpid:")), [])
    return numbers[-1:] == [str(inner)] and works_in == folder.resolve()
