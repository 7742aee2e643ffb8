"""Where a sandbox stands ready for a thread's next command: it is made while the model thinks."""

import atexit
import contextlib
import os
import threading
from functools import partial
from typing import Final

from lockstitch.tools.commands.hearing import aside
from lockstitch.tools.commands.ready_sandbox import ReadySandbox, Surroundings, make_ready

READY_MAX: Final = 4  # in this process, the newest ones: a thread may wait for a person for long
AFTER_S: Final = 0.02  # its making begins: a step is noted, and the model asked, before it takes a processor
COMMAND_BYTES: Final = 100_000  # the kernel takes no longer argument than 128 kB, and says so at the start


class ReadyPlace:
    """Where one sandbox stands ready; safe to use from any thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._ready: ReadySandbox | None = None
        self._is_being_made = False
        self._is_unwanted = False  # one whose making has not begun

    def take(self, around: Surroundings, command: str) -> ReadySandbox | None:
        """The one that is here, with its command, if it fits; one that does not is ended.

        None is made now, which would take the command's own time.
        """
        self._put_off()
        ready = self._taken()
        if ready is None:
            return None
        words = os.fsencode(command) if _can_be_told(command) else b""
        with contextlib.suppress(OSError):
            if 0 < len(words) <= COMMAND_BYTES and ready.fits(around):
                ready.tell(words)
                return ready
        try:
            aside(partial(_give_back, ready))
        except RuntimeError:  # this process ends
            _give_back(ready)
        return None

    def prepare(self, around: Surroundings) -> None:
        """Have one made, if there is none. Nobody waits for it, and none comes where it cannot be made."""
        with self._changed:
            if self._ready or self._is_being_made:
                return
            self._is_being_made, self._is_unwanted = True, False
        try:
            aside(partial(self._make, around))
        except RuntimeError:  # this process ends
            self._note(None)

    def wait(self) -> None:
        """Wait until none is being made."""
        with self._changed:
            self._changed.wait_for(lambda: not self._is_being_made)

    def end(self) -> None:
        """End the one that is here, or comes."""
        self._put_off()
        self.wait()
        self.empty()

    def empty(self) -> None:
        """End the one that is here."""
        if ready := self._taken():
            _give_back(ready)

    def _put_off(self) -> None:
        with self._changed:
            self._is_unwanted = True
            self._changed.notify_all()

    def _taken(self) -> ReadySandbox | None:
        with self._changed:
            ready, self._ready = self._ready, None
            if ready:
                _filled.remove(self)
            return ready

    def _make(self, around: Surroundings) -> None:
        ready = None
        try:
            with self._changed:
                is_unwanted = self._changed.wait_for(lambda: self._is_unwanted, AFTER_S)
            if not is_unwanted:
                _make_room()
                ready = make_ready(around)
        finally:
            self._note(ready)

    def _note(self, ready: ReadySandbox | None) -> None:
        with self._changed:
            self._ready, self._is_being_made = ready, False
            if ready:
                _filled.append(self)
            self._changed.notify_all()


_filled: Final[list[ReadyPlace]] = []  # the longest one first


def _make_room() -> None:
    while len(_filled) >= READY_MAX:
        with contextlib.suppress(IndexError):  # all were taken meanwhile
            _filled[0].empty()


def _give_back(ready: ReadySandbox) -> None:
    with contextlib.suppress(OSError):  # its layer could not be deleted: the next run of any thread does it
        ready.close()


def _can_be_told(command: str) -> bool:
    """Whether a program can be given it at all; where not, the usual start says so."""
    try:
        return b"\0" not in os.fsencode(command)
    except UnicodeEncodeError:
        return False


@atexit.register
def _end_all() -> None:
    while _filled:
        _filled[0].empty()
