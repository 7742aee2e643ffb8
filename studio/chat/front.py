"""Where the lines of a talk come from: a keyboard (keyboard.py), or any other input, line by line."""

import signal
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Final, Protocol

from lockstitch.studio.stop_signals import LeaveError, Presses, StopSignals
from lockstitch.studio.terminal import read_line

PROMPT: Final = "\n> "
LEAVE: Final = "/exit"  # what Ctrl-D says
AGAIN: Final = "Ctrl-C again to leave"

Take = Callable[[str], Awaitable[None]]
"""Takes a line that was typed while a run goes on."""


class Front(Protocol):
    """A person's end of a talk."""

    def read(self) -> str:
        """The next line; LEAVE at the end of input.

        Raises:
            LeaveError: Ctrl-C twice, or a signal.
        """

    def put_back(self, text: str) -> None:
        """Let words that nobody took stand in the next line."""

    def stay(self, run: StopSignals, take: Take) -> AbstractAsyncContextManager[object]:
        """Read on while a run goes on."""


class PlainFront:
    """Line by line, from a pipe or a terminal that understands no commands; deaf while a run goes on."""

    def __init__(self) -> None:
        self._presses = Presses()

    def read(self) -> str:
        """See Front."""
        while True:
            try:
                line = read_line(PROMPT)
            except EOFError:
                print()  # the mark stands there without an end
                return LEAVE
            except KeyboardInterrupt:
                if self._presses.again():
                    print()
                    raise LeaveError(signal.SIGINT) from None
                print(f"\n{AGAIN}")
            else:
                return line.encode("utf-8", "surrogateescape").decode("utf-8", "replace")

    def put_back(self, text: str) -> None:
        """Nothing is typed while a run goes on, so nothing comes back."""

    def stay(self, run: StopSignals, take: Take) -> AbstractAsyncContextManager[object]:  # noqa: ARG002
        """See Front."""
        return nullcontext()
