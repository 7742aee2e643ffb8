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
END_S: Final = 1.0  # at most, until one that is being made is left to end by itself; it takes 0.02
COMMAND_BYTES: Final = 100_000  # the kernel takes no longer argument than 128 kB, and says so at the start


class ReadyPlace:
    """Where one sandbox stands ready; safe to use from any thread."""

    def __init__(self) -> None:
        self._ready: ReadySandbox | None = None
        self._coming: object = None  # stands for the one that is being made, or will be
        self._has_begun = False

    def take(self, around: Surroundings, command: str) -> ReadySandbox | None:
        """The one that is here, with its command, if it fits; one that does not is ended.

        The making of another one is put off, if it has not begun: it would take the command's own time.
        """
        with _changed:
            if not self._has_begun:
                self._forget()
        ready = self._taken()
        if ready is None:
            return None
        words = os.fsencode(command) if _can_be_told(command) else b""
        is_told = False
        try:
            with contextlib.suppress(OSError):
                if 0 < len(words) <= COMMAND_BYTES and ready.fits(around):
                    ready.tell(words)
                    is_told = True
        finally:
            if not is_told:
                _end_aside(ready)
        return ready if is_told else None

    def prepare(self, around: Surroundings) -> None:
        """Have one made, if there is none. Nobody waits for it, and none comes where it cannot be made."""
        with _changed:
            if self._ready or self._coming or not _make_room():
                return
            coming = object()
            self._coming, self._has_begun = coming, False
            _filled.append(self)
        try:
            aside(partial(self._make, around, coming))
        except RuntimeError:
            self._note(coming, None)

    def wait(self, seconds: float | None = None) -> None:
        """Wait until none is being made, at most so long."""
        with _changed:
            _changed.wait_for(lambda: not self._coming, seconds)

    @property
    def is_empty(self) -> bool:
        """Whether none is here, and none comes."""
        return not (self._ready or self._coming)

    def end(self) -> None:
        """End the one that is here, or comes."""
        with _changed:
            if not self._has_begun:
                self._forget()
        self.wait(END_S)
        with _changed:
            self._forget()
        if ready := self._taken():
            _give_back(ready)

    def _forget(self) -> None:
        """Want none any more that comes."""
        if self._coming:
            self._coming = None
            _filled.remove(self)
            _changed.notify_all()

    def _taken(self) -> ReadySandbox | None:
        with _changed:
            ready, self._ready = self._ready, None
            if ready:
                _filled.remove(self)
            return ready

    def _make(self, around: Surroundings, coming: object) -> None:
        with _changed:
            if _changed.wait_for(lambda: self._coming is not coming, AFTER_S):
                return
            self._has_begun = True
        ready = None
        try:
            ready = make_ready(around)
        finally:
            self._note(coming, ready)

    def _note(self, coming: object, ready: ReadySandbox | None) -> None:
        with _changed:
            is_wanted = self._coming is coming
            if is_wanted:
                self._coming, self._ready = None, ready
                if not ready:
                    _filled.remove(self)
            _changed.notify_all()
        if ready and not is_wanted:
            _give_back(ready)


_changed: Final = threading.Condition()  # of all places
_filled: Final[list[ReadyPlace]] = []  # those that hold one, or will; the longest one first


def _make_room() -> bool:
    """End the oldest one if there are too many; False where all of them are still being made."""
    if len(_filled) < READY_MAX:
        return True
    oldest = next((ready for place in _filled if (ready := place._taken())), None)  # noqa: SLF001  of this module
    if oldest:
        _end_aside(oldest)
    return oldest is not None


def _end_aside(ready: ReadySandbox) -> None:
    try:
        aside(partial(_give_back, ready))
    except RuntimeError:  # this process ends, or has no more threads
        _give_back(ready)


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
        _filled[0].end()
