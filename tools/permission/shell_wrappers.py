"""Programs that run other programs: `env`, `sudo`, `xargs`, `bash -c`, as a table of their options.

Gives the commands that stand inside their arguments.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from lockstitch.tools.permission.shell_words import Word, names


@dataclass(frozen=True)
class Wrapper:
    """How a program's arguments lead to the program that it runs.

    Attributes:
        valued: its options that take the next word as their value.
        skip: words of its own before the command, as the seconds of `timeout`.
        why: what an allowance for the inner program does not cover; empty when it adds nothing to it.
    """

    valued: frozenset[str] = frozenset()
    skip: int = 0
    why: str = ""


@dataclass(frozen=True)
class Inner:
    """What a wrapper runs: words, or the text of a script. `lost` when it cannot be told."""

    words: tuple[Word, ...] = ()
    script: str | None = None
    why: str = ""
    lost: bool = False


def _wraps(valued: str = "", *, skip: int = 0, why: str = "") -> Wrapper:
    return Wrapper(frozenset(valued.split()), skip, why)


_POWER: Final = "it runs with another user's rights"
_UNSEEN: Final = "it gives a program arguments that nobody has seen"
_ELSEWHERE: Final = "it runs a program in other surroundings"

WRAPPERS: Final[dict[str, Wrapper]] = {
    "builtin": _wraps(),
    "busybox": _wraps(),
    "chroot": _wraps(skip=1, why=_ELSEWHERE),
    "chrt": _wraps(skip=1),
    "command": _wraps(),
    "doas": _wraps("-u -C", why=_POWER),
    "env": _wraps("-u --unset -C --chdir", why="it changes what programs are started with"),
    "exec": _wraps("-a"),
    "flock": _wraps("-w -E --timeout", skip=1, why="it writes a lock file"),
    "ionice": _wraps("-c -n -p --class --classdata"),
    "nice": _wraps("-n --adjustment"),
    "nohup": _wraps(),
    "nsenter": _wraps("-t", why=_ELSEWHERE),
    "parallel": _wraps("-j --jobs -I", why=_UNSEEN),
    "proot": _wraps("-r -b -w", why=_ELSEWHERE),
    "runuser": _wraps("-u", why=_POWER),
    "setsid": _wraps(),
    "stdbuf": _wraps("-i -o -e"),
    "strace": _wraps("-e -o -p -s", why="it writes what it sees"),
    "sudo": _wraps("-u -g -h -p -C -D -R -T -U --user --group --host --chdir", why=_POWER),
    "taskset": _wraps(skip=1),
    "time": _wraps("-f -o --format --output", why="it may write what it measures"),
    "timeout": _wraps("-k -s --kill-after --signal", skip=1),
    "unshare": _wraps(why=_ELSEWHERE),
    "watch": _wraps("-n --interval", why="it runs again and again"),
    "xargs": _wraps("-I -n -P -L -s -d -E -a --max-args --max-procs --replace --delimiter", why=_UNSEEN),
}
SHELLS: Final = names("ash bash csh dash fish ksh mksh rbash sh tcsh zsh")
FIND_RUNS: Final = frozenset(("-exec", "-execdir", "-ok", "-okdir"))
HIDES: Final = names(
    ". alias bind complete compgen coproc enable hash mapfile readarray shopt source"
)  # they read commands from elsewhere, or change what a word means
RESERVED: Final = names(
    "! [[ ]] case do done elif else esac fi for function if in select then until while { }"
)  # to bash these begin something; read as a program's name the parser has lost its way
_SOMETHING: Final = Word("...", "unknown")
_PLAIN_FLAGS: Final = frozenset(
    ("-0", "-r", "-t", "-p", "-v", "-x", "-E", "-n", "-H", "-S", "-i", "-q", "-f")
)


def program_of(words: Sequence[Word]) -> str:
    """The name of the program without its folder; empty when it is known only when it runs."""
    return PurePosixPath(words[0].text).name if words and words[0].kind == "plain" else ""


def inner_commands(words: Sequence[Word]) -> Iterator[Inner]:
    """The commands inside a simple command's arguments; none for a program that runs no other."""
    program = program_of(words)
    if program in SHELLS:
        yield _of_shell(words[1:])
    elif program in ("eval", "trap"):
        yield _of_eval(words[1:] if program == "eval" else words[1:2])
    elif program in RESERVED:
        yield Inner(why=f"`{program}` stands where a program is expected", lost=True)
    elif program in HIDES:
        yield Inner(why=f"`{program}` may run what is written elsewhere", lost=True)
    elif program == "find":
        yield from _of_find(words[1:])
    elif program in WRAPPERS and len(words) > 1:
        yield _of_wrapper(program, WRAPPERS[program], words[1:])


def _of_wrapper(program: str, wrapper: Wrapper, words: Sequence[Word]) -> Inner:
    """The words after the wrapper's own; an option that the table does not know may take a value."""
    at, lost = 0, False
    while at < len(words):
        text = words[at].text
        if text == "--":
            at += 1
            break
        if program == "env" and "=" in text and not text.startswith("-"):
            at += 1
        elif text in wrapper.valued:
            at += 2
        elif text.startswith("-"):
            known = text in _PLAIN_FLAGS or text.split("=")[0] in wrapper.valued or text[:2] in wrapper.valued
            lost = lost or not known or (program == "env" and text == "-S")
            at += 1
        else:
            break
    inner = tuple(words[at + wrapper.skip :])
    if wrapper.why == _UNSEEN and inner:
        inner = (*inner, _SOMETHING)
    why = f"`{program}`: {wrapper.why}" if wrapper.why and not (program == "env" and at == 0) else ""
    if lost:
        why = why or f"an option of `{program}` is not known here"
    return Inner(words=inner, why=why, lost=lost)


def _of_shell(words: Sequence[Word]) -> Inner:
    """The script after `-c`; a file is a program like another one, and stdin could be anything."""
    for at, word in enumerate(words):
        if word.kind != "plain":
            return Inner(why="a shell reads a script that is known only when it runs", lost=True)
        if word.text.startswith("-") and not word.text.startswith("--") and "c" in word.text:
            return _script_in(words[at + 1 :])
        if not word.text.startswith(("-", "+")):
            return Inner()
    return Inner(why="a shell reads its script from elsewhere", lost=True)


def _script_in(words: Sequence[Word]) -> Inner:
    if not words or words[0].kind != "plain" or words[0].text.startswith("-"):
        return Inner(why="a shell reads a script that is known only when it runs", lost=True)
    return Inner(script=words[0].text)


def _of_eval(words: Sequence[Word]) -> Inner:
    if any(word.kind != "plain" for word in words):
        return Inner(why="it runs text that is known only when it runs", lost=True)
    return Inner(script=" ".join(word.text for word in words))


def _of_find(words: Sequence[Word]) -> Iterator[Inner]:
    for at, word in enumerate(words):
        if word.text in FIND_RUNS:
            rest = list(words[at + 1 :])
            ends = next((n for n, w in enumerate(rest) if w.text in (";", "+")), len(rest))
            found = [_SOMETHING if "{}" in w.text else w for w in rest[:ends]]
            yield Inner(words=tuple(found), why=f"`find {word.text}` runs a program on what it finds")
