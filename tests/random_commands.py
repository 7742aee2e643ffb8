"""Random shell scripts that change a folder in every way there is, and what a folder holds, to compare.

Every script ends alike in the folder itself and in an overlay of it, which rules out two things: a rename of
a folder that was there before (an overlay makes mv copy it, and a copy needs rights that a rename does not),
and hard links that were there before.
"""

import hashlib
import os
import random
import stat
import subprocess
from collections.abc import Sequence
from pathlib import Path

from lockstitch.tools.sandbox import NAMESPACES, OWN_USERS, find_sandbox

NAMES = ["a", "b", "c.txt", "a b", "-x", "$'n\\nl'", "$'\\xff'", "ü"]
FOLDERS = [".", "d", "d/e", "f", "d/e/g"]
FILE_MODES = ["600", "644", "755", "444", "400"]
FOLDER_MODES = ["755", "700", "555", "500", "1777"]
CLOSED_MODES = ["000", "300", "111"]  # last of all: nothing can be read there any more

KINDS = {stat.S_IFREG: "file", stat.S_IFDIR: "folder", stat.S_IFLNK: "link"}

# {a} and {b} are paths, {n} a number, {file_mode} and {folder_mode} modes
STEPS = [
    *("echo {n} > {a}", "echo {n} >> {a}", "printf '\\377\\000\\376{n}' > {a}", "rm -f {a}", "rm -rf {a}"),
    *("mkdir -p {a}", "rmdir {a}", "cp -r {a} {b}", "ln -sfn {b} {a}", "ln -sfn /etc/{n} {a}", "ln {a} {b}"),
    *("[ -d {a} ] || mv -T {a} {b}", "[ -d {a} ] && cp -r {a} {b} && rm -rf {a}", "touch {a}", ": > {a}"),
    *("[ -f {a} ] && chmod {file_mode} {a}", "[ -d {a} ] && ! [ -L {a} ] && chmod {folder_mode} {a}"),
    *("rm -rf {a}; mkdir {a} && echo {n} > {a}/in", "rm -rf {a} && echo {n} > {a}", "truncate -s {n} {a}"),
    *("rm -rf {a}; mkdir -p {a}/x/y; echo {n} > {a}/x/y/z", "rm -rf d; mkdir -p d/e; echo {n} > d/e/new"),
    *("mkdir {a}/fresh && echo {n} > {a}/fresh/file && mv -T {a}/fresh {a}/moved", "sed -i s/1/2/ {a}"),
    *("mkdir -p {a}/many; for i in {{1..{few}}}; do echo $i > {a}/many/$i; done", "rm -rf {a}/many/*1"),
    *("chmod 755 {a}; echo {n} > {a}/in; chmod 555 {a}", "rm -rf {a}; ln -s {n} {a}", "mkfifo {a}; rm {a}"),
]


def random_script(source: random.Random, *, steps: int, few: int = 20) -> str:
    """So many steps, most of which find something to do; `few` files where one step makes several."""
    lines = [_line(source, few) for _ in range(steps)]
    lines += [f"chmod {source.choice(CLOSED_MODES)} {_path(source)}" for _ in range(source.randint(0, 2))]
    return "exec 2>/dev/null\n" + "\n".join(lines) + "\ntrue"


def _line(source: random.Random, few: int) -> str:
    return source.choice(STEPS).format(
        a=_path(source),
        b=_path(source),
        n=source.randint(0, 9999),
        few=few,
        file_mode=source.choice(FILE_MODES),
        folder_mode=source.choice(FOLDER_MODES),
    )


def _path(source: random.Random) -> str:
    folder = source.choice(FOLDERS)
    return f"./{folder}/{source.choice(NAMES)}" if source.random() < 0.8 or folder == "." else f"./{folder}"


def sandboxed(workspace: Sequence[str], root: Path, script: str) -> int:
    """Run a script with the workspace mounted by these options; the exit code."""
    mounts = ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", *workspace, "--chdir", str(root))
    program = find_sandbox().program
    argv = [program, *NAMESPACES, *OWN_USERS, "--unshare-net", *mounts, "--", "bash", "-c", script]
    return subprocess.run(argv, check=False, stdin=subprocess.DEVNULL).returncode


def contents(root: Path) -> dict[bytes, tuple[str, int, str]]:
    """Each path with its kind, mode, and what it holds. Opens up what is closed, and closes it again."""
    found: dict[bytes, tuple[str, int, str]] = {}
    left = [root]
    closed: list[tuple[Path, int]] = []
    while left:
        path = left.pop()
        mode, held = stat.S_IMODE(path.lstat().st_mode), ""
        kind = KINDS.get(stat.S_IFMT(path.lstat().st_mode), "special")
        if kind in {"folder", "file"}:
            path.chmod(0o700)
            closed.append((path, mode))
            marks = os.listxattr(path)
            assert not any("overlay" in mark for mark in marks), marks
        if kind == "folder":
            left += path.iterdir()
        elif kind == "file":
            held = hashlib.sha256(path.read_bytes()).hexdigest()
        elif kind == "link":
            mode, held = 0, str(path.readlink())
        found[os.fsencode(path.relative_to(root))] = (kind, mode, held)
    for path, mode in reversed(closed):
        path.chmod(mode)
    return found
