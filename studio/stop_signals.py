"""Ctrl-C, SIGTERM and SIGHUP while something runs: the first one stops it in good order, a second leaves."""

import asyncio
import math
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Final

from lockstitch.studio.terminal import restore_terminal

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
AGAIN_S: Final = 2.0  # seconds between two presses of an impatient person
EXIT_OF_SIGNAL: Final = 128  # added to a signal's number, as shells report it


class LeaveError(Exception):
    """The program is to be left at once: Ctrl-C twice, or a signal that ends programs."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number
        self.exit_code = EXIT_OF_SIGNAL + number


class StopSignals:
    """Which signal came first; `exit_code` is None while none has."""

    def __init__(self, stop: Callable[[], object]) -> None:
        self._stop = stop
        self.exit_code: int | None = None

    def receive(self, number: int) -> None:
        """Stop, or leave at once the second time: cleaning up may be what hangs."""
        if self.exit_code is not None:
            leave_at_once(number)
        self.exit_code = EXIT_OF_SIGNAL + number
        self._stop()


def leave_at_once(number: int, _frame: object = None) -> None:
    """End this process with the terminal in order; also fit to be the handler of a signal."""
    restore_terminal()
    os._exit(EXIT_OF_SIGNAL + number)


def leave_on_signals() -> None:
    """From here on every one of the signals ends this process at once, with the terminal in order."""
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, leave_at_once)


@contextmanager
def one_press() -> Iterator[None]:
    """Ctrl-C inside raises KeyboardInterrupt once.

    From then on a further one does nothing, so that it cuts off neither the words about the first nor the
    way out, until `leave_on_signals` or `presses_as_before` says otherwise.
    """
    before = signal.getsignal(signal.SIGINT)
    if before is signal.SIG_IGN:
        yield
        return
    signal.signal(signal.SIGINT, _interrupt_once)
    try:
        yield
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, _let_pass)
        raise
    except BaseException:
        signal.signal(signal.SIGINT, before)
        raise
    signal.signal(signal.SIGINT, before)


@contextmanager
def presses_as_before() -> Iterator[None]:
    """Let Ctrl-C count afterwards as it did before, also after the one of `one_press`."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _interrupt_once(number: int, _frame: object) -> None:
    signal.signal(number, _let_pass)
    raise KeyboardInterrupt


def _let_pass(_number: int, _frame: object) -> None:
    """Take a signal and do nothing; unlike SIG_IGN it is nothing that a child would inherit."""


class Presses:
    """Presses of Ctrl-C: one stops something, two in short order leave."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._last = -math.inf

    @property
    def recent(self) -> bool:
        """Whether one more would be the second within AGAIN_S."""
        return self._monotonic() - self._last <= AGAIN_S

    def again(self) -> bool:
        """Note a press; whether it is the second."""
        again, self._last = self.recent, self._monotonic()
        return again

    def receive(self, number: int, _frame: object = None) -> None:
        """The handler of SIGINT where nothing else takes it: the second press leaves."""
        if self.again():
            leave_at_once(number)


@contextmanager
def on_signals(handlers: Mapping[int, Callable[[], object]]) -> Iterator[None]:
    """Call a signal's handler inside a running event loop of the main thread.

    A signal that the caller told us to ignore (`nohup`, a shell's background job) stays ignored, and one
    that had a handler gets it back.
    """
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in handlers}
    taken = [number for number in handlers if before[number] is not signal.SIG_IGN]
    for number in taken:
        loop.add_signal_handler(number, handlers[number])
    try:
        yield
    finally:
        for number in taken:
            loop.remove_signal_handler(number)
            signal.signal(number, before[number])


@contextmanager
def on_stop_signals(stop: Callable[[], object]) -> Iterator[StopSignals]:
    """Call `stop` on the first signal, inside a running event loop of the main thread."""
    received = StopSignals(stop)
    with on_signals({number: partial(received.receive, number) for number in SIGNALS}):
        yield received
