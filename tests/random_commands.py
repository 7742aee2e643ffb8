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

from lockstitch.tools.commands.sandbox import NAMESPACES, OWN_USERS, find_sandbox

NAMES = ["a", "b", "c.txt", "'a b'", "-x", "$'n\\nl'", "$'\\xff'", "ü"]
FOLDERS = [".", "d", "d/e", "f", "d/e/g"]
FILE_MODES = ["600", "644", "755", "444", "400"]
FOLDER_MODES = ["755", "700", "555", "500", "1777"]
CLOSED_MODES = ["000", "300", "111"]  # last of all: nothing can be read there any more

KINDS = {stat.S_IFREG: "file", stat.S_IFDIR: "folder", stat.S_IFLNK: "link"}

Contents = dict[bytes, tuple[str, int, str]]  # kind, mode, and the digest of a file or a link's target

# not from a folder into itself: what that copies is a question of order
COPY = "rm -rf /tmp/x && cp -r {a} /tmp/x && cp -r /tmp/x {b}"
# {a} and {b} are paths, {n} a number, {file_mode} and {folder_mode} modes
STEPS = [
    *("echo {n} > {a}", "echo {n} >> {a}", "printf '\\377\\000\\376{n}' > {a}", "rm -f {a}", "rm -rf {a}"),
    *("mkdir -p {a}", "rmdir {a}", COPY, "ln -sfn {b} {a}", "ln -sfn /etc/{n} {a}", "ln {a} {b}"),
    *("[ -d {a} ] || mv -T {a} {b}", f"[ -d {{a}} ] && {COPY} && rm -rf {{a}}", "touch {a}", ": > {a}"),
    *("[ -f {a} ] && chmod {file_mode} {a}", "[ -d {a} ] && ! [ -L {a} ] && chmod {folder_mode} {a}"),
    *("rm -rf {a}; mkdir {a} && echo {n} > {a}/in", "rm -rf {a} && echo {n} > {a}", "truncate -s {n} {a}"),
    *("rm -rf {a}; mkdir -p {a}/x/y; echo {n} > {a}/x/y/z", "rm -rf d; mkdir -p d/e; echo {n} > d/e/new"),
    *("mkdir {a}/fresh && echo {n} > {a}/fresh/file && mv -T {a}/fresh {a}/moved", "sed -i s/1/2/ {a}"),
    *("mkdir -p {a}/many; for i in {{1..{few}}}; do echo $i > {a}/many/$i; done", "rm -rf {a}/many/*1"),
    *("chmod 755 {a}; echo {n} > {a}/in; chmod 555 {a}", "rm -rf {a}; ln -s {n} {a}", "mkfifo {a}; rm {a}"),
]


def random_script(source: random.Random, *, steps: int, few: int = 20, closes: bool = True) -> str:
    """So many steps, most of which find something to do.

    `few` files are made where a step makes several; `closes` may end with folders and files that are closed
    to their owner.
    """
    lines = [_line(source, few) for _ in range(steps)]
    lines += [
        f"chmod {source.choice(CLOSED_MODES)} {_path(source)}" for _ in range(source.randint(0, 2) * closes)
    ]
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
    system = ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp")
    mounts = (*system, *workspace, "--chdir", str(root))
    program = find_sandbox().program
    argv = [program, *NAMESPACES, *OWN_USERS, "--unshare-net", *mounts, "--", "bash", "-c", script]
    return subprocess.run(argv, check=False, stdin=subprocess.DEVNULL).returncode


def contents(root: Path) -> Contents:
    """Each path with its kind, mode, and what it holds. Opens up what is closed, and closes it again."""
    found: Contents = {}
    left = [root]
    closed: dict[int, tuple[Path, int]] = {}  # by inode: one may have several names
    while left:
        path = left.pop()
        status, held = path.lstat(), ""
        mode = closed.get(status.st_ino, (path, stat.S_IMODE(status.st_mode)))[1]
        kind = KINDS.get(stat.S_IFMT(status.st_mode), "special")
        if kind in {"folder", "file"}:
            path.chmod(0o700)
            closed.setdefault(status.st_ino, (path, mode))
            marks = os.listxattr(path)
            assert not any("overlay" in mark for mark in marks), marks
        if kind == "folder":
            left += path.iterdir()
        elif kind == "file":
            held = hashlib.sha256(path.read_bytes()).hexdigest()
        elif kind == "link":
            mode, held = 0, str(path.readlink())
        found[os.fsencode(path.relative_to(root))] = (kind, mode, held)
    for path, mode in reversed(closed.values()):
        path.chmod(mode)
    return found
