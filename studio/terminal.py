"""The terminal: its consoles, who sits at it, and a time limit for them."""

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, Final

from rich.console import Console

# Pasted text is no longer marked, the cursor is seen, colours end, and a half-drawn prompt goes away.
RESET: Final = b"\x1b[?2004l\x1b[?25h\x1b[0m\r\x1b[J"
_found: list[tuple[int, list[Any]]] = []  # terminals and their state before us, for a way out without a stack


class TerminalConsole(Console):
    """A rich console that reads no markup and leaves a broken pipe to its caller."""

    def on_broken_pipe(self) -> None:
        """Raise instead of rich's own exit: a run must be stopped first."""
        raise BrokenPipeError


def open_console(*, to_stderr: bool = False) -> Console:
    """A console on stdout or stderr; without colours where that is no terminal, or NO_COLOR is set."""
    return TerminalConsole(stderr=to_stderr, markup=False, emoji=False, highlight=False)


def person_is_here() -> bool:
    """Whether somebody can be asked: both ends are a terminal."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def read_pipe() -> str | None:
    """What was piped into this process; None at a terminal, and where nothing came."""
    if sys.stdin.isatty():
        return None
    return sys.stdin.buffer.read().decode("utf-8", "replace").strip() or None


def read_line(prompt: str, *, prefill: str = "") -> str:
    """One line a person types, with `prefill` to edit where the terminal can do that.

    Raises:
        EOFError: Ctrl-D.
        KeyboardInterrupt: Ctrl-C.
    """
    try:
        import readline
    except ImportError:  # a Python without it: the line begins empty
        return input(prompt)
    readline.set_startup_hook(lambda: readline.insert_text(prefill))
    try:
        return input(prompt)
    finally:
        readline.set_startup_hook(None)


def terminal_is_dumb() -> bool:
    """Whether the terminal understands no commands, or nobody knows which."""
    return os.environ.get("TERM", "dumb").lower() in ("dumb", "unknown", "")


@contextmanager
def keep_terminal() -> Iterator[None]:
    """Give the terminal back as it was found, also when the inside fails; for a person's terminal alone."""
    if not person_is_here():
        yield
        return
    import termios

    number = sys.stdin.fileno()
    _found.append((number, termios.tcgetattr(number)))
    try:
        yield
    except BaseException:
        restore_terminal()
        raise
    finally:
        _, before = _found.pop()
        with suppress(OSError, termios.error):
            termios.tcsetattr(number, termios.TCSANOW, before)


def restore_terminal() -> None:
    """Put the terminal back as `keep_terminal` found it; safe at any moment, also in a signal's handler."""
    if not _found:
        return
    import termios

    number, before = _found[-1]
    with suppress(OSError, termios.error):  # the terminal may be gone, which is why we leave
        termios.tcsetattr(number, termios.TCSANOW, before)
        if not terminal_is_dumb():
            os.write(number, RESET)


def keep_typeahead() -> None:
    """Let what is typed before a line is read wait for it as it is: not shown twice, and Enter stays Enter.

    `keep_terminal` undoes it.
    """
    import termios

    with suppress(OSError, termios.error):
        modes = termios.tcgetattr(sys.stdin.fileno())
        modes[0] &= ~termios.ICRNL
        modes[3] &= ~termios.ECHO
        termios.tcsetattr(sys.stdin.fileno(), termios.TCSANOW, modes)


def drop_typeahead() -> None:
    """Forget what was typed before a question was shown: it cannot be an answer to it."""
    try:
        import termios

        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
    except (ImportError, OSError, ValueError, termios.error):
        return  # no terminal, so there is nothing to forget


@contextmanager
def within(timeout_s: float) -> Iterator[None]:
    """Give the person inside so long; only in the main thread, and not inside an event loop.

    Raises:
        TimeoutError: the time is over; an `input()` under way ends too.
    """

    def ring(number: int, frame: FrameType | None) -> None:  # noqa: ARG001  signal's signature
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, timeout_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def write_json(body: Any) -> None:
    """One JSON object as one line on stdout, at once; everything beyond ASCII is escaped.

    Raises:
        BrokenPipeError: nobody reads any more.
    """
    write_line(json.dumps(body))


def write_line(text: str) -> None:
    """One line on stdout, at once.

    Raises:
        BrokenPipeError: nobody reads any more.
    """
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
